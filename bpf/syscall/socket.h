/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The two ends of a socket, as the kernel has them when the call returns. */
#ifndef LATSCOPE_SOCKET_H
#define LATSCOPE_SOCKET_H

struct ns_common {
	unsigned int inum;
} KERNEL;
struct net {
	struct ns_common ns;
} KERNEL;
typedef struct {
	struct net *net;
} possible_net_t;
struct in6_addr {
	u8 bytes[16];
};
struct sock_common___ends {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} KERNEL;
struct sock___ends {
	struct sock_common___ends __sk_common;
	u16 sk_type;
	u16 sk_protocol;
} KERNEL;

#define END(to, sock, field) bpf_core_read(&(to), sizeof(to), &(sock)->field)

static __always_inline bool has_ends(u32 type)
{
	return type == TYPE_IPV4 || type == TYPE_IPV6;
}

static __always_inline void take_ends(struct file *file, u32 type, struct ends *to)
{
	void *socket = READ(struct file, file, private_data);
	struct sock___ends *sock = (void *)READ(struct socket, socket, sk);
	struct net *net = 0;
	u16 port = 0;

	if (!sock)
		return;
	if (type == TYPE_IPV4) {
		END(*(u32 *)to->local, sock, __sk_common.skc_rcv_saddr);
		END(*(u32 *)to->remote, sock, __sk_common.skc_daddr);
	} else {
		END(to->local, sock, __sk_common.skc_v6_rcv_saddr);
		END(to->remote, sock, __sk_common.skc_v6_daddr);
	}
	END(to->local_port, sock, __sk_common.skc_num);
	END(port, sock, __sk_common.skc_dport);
	to->remote_port = __builtin_bswap16(port);
	END(to->state, sock, __sk_common.skc_state);
	END(to->socket_type, sock, sk_type);
	END(to->protocol, sock, sk_protocol);
	END(net, sock, __sk_common.skc_net.net);
	if (net)
		bpf_core_read(&to->net, sizeof(to->net), &net->ns.inum);
}

/* An address as programs give it, and get it: of version 4, then of version 6. */
struct address {
	u16 family;
	u16 port;
	u8 v4[4];
	u8 v6[16];
};
#define AF_INET 2
#define AF_INET6 10

/* The other end that the call itself names, of a socket that has none, such as one of datagrams that is not connected. */
static __always_inline void take_address(u16 flags, const u64 *arguments, s64 result, struct ends *to)
{
	struct address is = {};
	u64 at = 0;

	if (to->remote_port)
		return;
	if (flags & CALL_CONNECTS)
		at = arguments[1];
	else if (flags & CALL_DATAGRAM)
		at = arguments[4];
	else if (flags & CALL_MESSAGE)
		bpf_probe_read_user(&at, sizeof(at), (void *)arguments[1]);
	/* What nothing came for was not filled in. */
	if (!at || (result < 0 && !(flags & CALL_CONNECTS)))
		return;
	if (bpf_probe_read_user(&is, sizeof(is.family) + sizeof(is.port) + sizeof(is.v4), (void *)at))
		return;
	if (is.family == AF_INET)
		__builtin_memcpy(to->remote, is.v4, sizeof(is.v4));
	else if (is.family == AF_INET6 && !bpf_probe_read_user(&is, sizeof(is), (void *)at))
		__builtin_memcpy(to->remote, is.v6, sizeof(is.v6));
	else
		return;
	to->remote_port = __builtin_bswap16(is.port);
}

#endif
