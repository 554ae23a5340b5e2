// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Reads which PPPoE session a PPP interface has, which Linux tells no one but the program that opened it. An object of its own, loaded while there
 * is such an interface, because the structures are those of the modules ppp_generic and pppoe (drivers/net/ppp). BPF_PROG_RUN runs the program
 * in the namespace of the caller.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

#include "device_index.h"

#define PRIVATE_ALIGNMENT 32 /* NETDEV_ALIGN in include/linux/netdevice.h, before Linux 6.10 */

enum NPmode { NPMODE_PASS, NPMODE_DROP }; /* include/uapi/linux/ppp_defs.h */

/* CO-RE: only names and nesting matter. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct list_head {
	struct list_head *next;
};
struct ppp {
	struct list_head channels;
	int n_channels;
	unsigned int flags;
	enum NPmode npmode[6];
	void *xc_state;
	void *rc_state;
	void *pass_filter;
	void *active_filter;
};
struct ppp_channel {
	void *private; /* the socket, for PPPoE */
};
struct channel {
	struct ppp_channel *chan;
	struct list_head clist;
};
struct sock_common {
	unsigned short skc_family;
	unsigned char skc_state;
};
struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};
struct pppoe_addr {
	__be16 sid;
	unsigned char remote[6];
};
struct pppoe_opt {
	int ifindex;
	struct pppoe_addr pa;
};
struct pppox_sock {
	struct sock sk;
	struct ppp_channel chan;
	union {
		struct pppoe_opt pppoe;
	} proto;
};
#pragma clang attribute pop

enum { PPPOX_BOUND = 2 }; /* include/linux/if_pppox.h */
enum { FAMILY_PPPOX = 24, PROTOCOL_PPPOE = 0 }; /* AF_PPPOX, PX_PROTO_OE */
enum { NETWORK_IP, NETWORK_IPV6 };
/* SC_COMP_TCP, SC_LOOP_TRAFFIC, SC_MULTILINK, SC_MUST_COMP of include/uapi/linux/ppp-ioctl.h */
#define CHANGES_PACKETS (0x4 | 0x200 | 0x400 | 0x02000000)

/* What is asked, and the answer: router/xdp/src/pppoe.rs. */
struct question {
	__u32 ifindex;
	__u32 lower; /* index of the interface below */
	__u16 number;
	__u8 peer[6];
	__u8 passes[2]; /* IPv4, IPv6 */
	__u8 kind; /* enum kind */
	__u8 zero[5];
};
enum kind { NO_SESSION, SESSION, CHANGES, FILTERS };

/* netdev_priv() */
static __always_inline __u64 private_of(__u64 device)
{
	struct net_device *type = NULL;
	__u64 size = bpf_core_type_size(struct net_device);

	if (bpf_core_field_exists(type->priv))
		return device + bpf_core_field_offset(type->priv);
	return device + ((size + PRIVATE_ALIGNMENT - 1) & ~(__u64)(PRIVATE_ALIGNMENT - 1));
}

/* Whether PPP does more than to put its header in front of packets. */
static __always_inline __u8 kind_of(struct ppp *ppp)
{
	if (BPF_CORE_READ(ppp, n_channels) != 1)
		return NO_SESSION;
	if (BPF_CORE_READ(ppp, flags) & CHANGES_PACKETS || BPF_CORE_READ(ppp, xc_state) || BPF_CORE_READ(ppp, rc_state))
		return CHANGES;
	if (bpf_core_field_exists(ppp->pass_filter) && (BPF_CORE_READ(ppp, pass_filter) || BPF_CORE_READ(ppp, active_filter)))
		return FILTERS;
	return SESSION;
}

/* The socket of a channel; NULL if it is none of PPPoE, or without a session. */
static __always_inline struct pppox_sock *socket_of(struct channel *channel)
{
	struct ppp_channel *chan = BPF_CORE_READ(channel, chan);
	struct pppox_sock *socket = BPF_CORE_READ(chan, private);

	if ((void *)socket + bpf_core_field_offset(struct pppox_sock, chan) != chan)
		return NULL;
	if (BPF_CORE_READ(socket, sk.__sk_common.skc_family) != FAMILY_PPPOX || BPF_CORE_READ(socket, sk.sk_protocol) != PROTOCOL_PPPOE)
		return NULL;
	return BPF_CORE_READ(socket, sk.__sk_common.skc_state) & PPPOX_BOUND ? socket : NULL;
}

/* Reads the session of the interface with an index, which must be one of PPP. */
SEC("syscall")
int find_session(struct question *found)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 device = device_by_index(BPF_CORE_READ(task, nsproxy, net_ns), found->ifindex);
	struct pppox_sock *socket;
	struct ppp *ppp;
	__u8 peer[6];

	found->kind = NO_SESSION;
	if (!device || !bpf_core_type_exists(struct ppp) || !bpf_core_type_exists(struct pppox_sock))
		return 0;
	ppp = (void *)private_of(device);
	socket = socket_of((void *)BPF_CORE_READ(ppp, channels.next) - bpf_core_field_offset(struct channel, clist));
	if (!socket)
		return 0;
	found->kind = kind_of(ppp);
	found->lower = BPF_CORE_READ(socket, proto.pppoe.ifindex);
	found->number = bpf_ntohs(BPF_CORE_READ(socket, proto.pppoe.pa.sid));
	BPF_CORE_READ_INTO(&peer, socket, proto.pppoe.pa.remote);
	__builtin_memcpy(found->peer, peer, sizeof(peer)); /* no helper of older kernels writes into the context */
	found->passes[0] = BPF_CORE_READ(ppp, npmode[NETWORK_IP]) == NPMODE_PASS;
	found->passes[1] = BPF_CORE_READ(ppp, npmode[NETWORK_IPV6]) == NPMODE_PASS;
	return 1;
}

char _license[] SEC("license") = "GPL";
