/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records with texts behind them, which user space shares (crates/capture-bpf/src/texts.rs). */
#ifndef LATSCOPE_TEXTS_H
#define LATSCOPE_TEXTS_H

#define TEXTS 8192

/* What is to be known about names, and what else follows a record. */
enum named {
	NAMED_UNKNOWN = 1, /* there is a name, but it could not be learned */
	NAMED_DELETED = 2,
	NAMED_PSEUDO = 4, /* of no file system that is mounted: a pipe, a memfd */
	NAMED_FILE = 8, /* the names are those of its file, none of a root directory */
	NAMED_ENDS = 16, /* behind the names: struct ends */
	NAMED_ARGUMENTS = 32, /* behind those: the arguments of the call */
};

/* What begins the texts of a record that describes a process; behind it its arguments, each with a zero, and then names. */
struct about {
	u32 number; /* by which events refer to it */
	u32 uid;
	u32 gid;
	u32 ppid;
	u8 parent[16]; /* name of the parent */
	u16 arguments_len;
	u16 executable_len; /* names on the way up, as in other texts */
	u16 directory_len;
	u8 executable_named; /* bits of enum named */
	u8 directory_named;
};
/* Longer command lines are cut. */
#define ABOUT_ARGUMENTS 4095

#endif
