/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Of which threads the filter wants events: a part of configurations (crates/capture-bpf/src/wanted.rs). */
#ifndef LATSCOPE_WANTED_H
#define LATSCOPE_WANTED_H

#define PIDS 16
#define COMMS 8
#define COMM 16

/* An empty list wants all. */
struct wanted {
	u8 comms[COMMS][COMM];
	u8 processes[COMMS][COMM]; /* names of main threads */
	u32 pids[PIDS];
	u32 comms_len;
	u32 processes_len;
	u32 pids_len;
	u32 own_pid; /* never wanted */
};

#ifdef __bpf__
static __always_inline bool is_pid_wanted(const volatile struct wanted *wanted, u32 pid)
{
	if (pid == wanted->own_pid)
		return false;
	if (!wanted->pids_len)
		return true;
	for (u32 at = 0; at < PIDS; at++)
		if (at < wanted->pids_len && wanted->pids[at] == pid)
			return true;
	return false;
}

static __always_inline bool is_name_among(const volatile u8 (*list)[COMM], u32 len, const u64 *name)
{
	if (!len)
		return true;
	for (u32 at = 0; at < COMMS; at++) {
		const volatile u64 *listed = (const volatile u64 *)list[at];

		if (at < len && listed[0] == name[0] && listed[1] == name[1])
			return true;
	}
	return false;
}

static __always_inline bool are_names_wanted(const volatile struct wanted *wanted, const u64 *comm, const u64 *process)
{
	return is_name_among(wanted->comms, wanted->comms_len, comm) &&
	       is_name_among(wanted->processes, wanted->processes_len, process);
}
#endif

#endif
