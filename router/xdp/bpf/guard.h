/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The guard: XDP runs before netfilter, xfrm and tc, so the program looks at Linux's own hook lists
 * in every NAPI poll (poll.h). So a rule takes effect when it does in Linux, not when the control side hears
 * of it.
 */
#ifndef BORA_GUARD_H
#define BORA_GUARD_H

enum {
	HOOK_PRE_ROUTING,
	HOOK_LOCAL_IN,
	HOOK_FORWARD,
	HOOK_LOCAL_OUT,
	HOOK_POST_ROUTING,
};
enum { XFRM_IN, XFRM_OUT, XFRM_FORWARD };
enum { XFRM_BLOCK = 1 };
enum { SELINUX_ALWAYS_NETWORK = 3 }; /* POLICYDB_CAP_ALWAYSNETWORK */

/* If a hook has more functions than this, the guard does not check them and leaves the packet to Linux. */
#define MAX_HARMLESS 3

/*
 * Addresses in the kernel's image, from /proc/kallsyms; 0 if not listed there. Set before loading.
 * Functions of modules are left out, because a module can be unloaded and its address reused.
 */
const volatile struct bora_symbols symbols;

/* The most functions of a hook that may be trusted. */
#define MAX_TRUSTED 6

/* The devices of ports and VLAN devices, by their numbers; find_device() fills it. */
struct bora_device {
	__u64 address; /* struct net_device; 0 no such port, BORA_DEVICE_UNKNOWN */
	__u64 ifindex;
} devices[BORA_MAX_INTERFACES];

static __always_inline bool is_off(__u64 counter)
{
	return counter && KERNEL_READ((struct static_key *)counter, enabled.counter) == 0;
}

/* The conditions of selinux_secmark_enabled() and selinux_peerlbl_enabled(). */
static __always_inline bool selinux_labels_nothing(void)
{
	struct selinux_state *state = (void *)symbols.selinux_state;

	return state && bpf_core_field_exists(state->policycap) &&
	       !KERNEL_READ(state, policycap[SELINUX_ALWAYS_NETWORK]) &&
	       is_off(symbols.selinux_secmark_refcount) && is_off(symbols.selinux_xfrm_refcount) &&
	       is_off(symbols.netlabel_mgmt_protocount);
}

/*
 * Hook functions that do nothing to forwarded packets. AppArmor's acts only on packets of local
 * sockets with a secmark; SELinux's act only if packets are labelled or always checked.
 */
static __always_inline bool is_harmless(__u64 function)
{
	if (!function)
		return false;
	if (symbols.apparmor_ip_postroute && function == symbols.apparmor_ip_postroute)
		return true;
	return (function == symbols.selinux_ip_forward ||
		function == symbols.selinux_ip_postroute) &&
	       selinux_labels_nothing();
}

/* Whether nothing at this hook can stop or change a forwarded packet. */
static __noinline bool all_harmless(__u64 address)
{
	struct nf_hook_entries *entries = (void *)address;
	__u16 count = KERNEL_READ(entries, num_hook_entries);

	if (count > MAX_HARMLESS)
		return false;
#pragma unroll
	for (int i = 0; i < MAX_HARMLESS; i++) {
		if (i < count && !is_harmless((__u64)KERNEL_READ(entries, hooks[i].hook)))
			return false;
	}
	return true;
}

/*
 * The sum of a hook's functions and their arguments; 0 if there are more than a hook that is trusted may have. It is no static function, so
 * that the verifier looks at it once instead of at each call.
 */
__noinline __u64 sum_of_hook(__u64 address)
{
	struct nf_hook_entries *entries = (void *)address;
	__u16 count = KERNEL_READ(entries, num_hook_entries);
	__u64 list[2 * MAX_TRUSTED]; /* numbers: pointers cannot be added */
	__u64 sum = count;

	if (count > MAX_TRUSTED ||
	    bpf_probe_read_kernel(list, sizeof(list), (void *)(address + bpf_core_field_offset(struct nf_hook_entries, hooks))))
		return 0;
#pragma unroll
	for (int i = 0; i < MAX_TRUSTED; i++) {
		if (i < count)
			sum += list[2 * i] + list[2 * i + 1];
	}
	return sum;
}

/* The generation of the ruleset, which nf_tables_commit() raises before new rules count; 0 if this kernel does not show it. */
static __always_inline __u32 ruleset_generation(struct net *net)
{
	__u32 generation = 0;

	if (bpf_core_field_exists(net->nft.base_seq))
		return KERNEL_READ(net, nft.base_seq);
	if (!generation_at || bpf_probe_read_kernel(&generation, sizeof(generation), (void *)generation_at))
		return 0;
	return generation;
}

/*
 * Whether the control side has read all rules behind these functions, and nothing has changed since. An address alone may be
 * another list's by now.
 */
static __always_inline bool is_trusted(struct net *net, __u64 entries, const volatile struct bora_trust *trust)
{
	return trust->address && trust->address == entries && trusted_generation &&
	       ruleset_generation(net) == trusted_generation && sum_of_hook(trust->address) == trust->sum;
}

static __always_inline bool holds(struct nf_hook_entries *entries)
{
	return entries && !all_harmless((__u64)entries);
}

static __always_inline bool holds_transit(struct net *net, struct nf_hook_entries *entries, const volatile struct bora_trust *trust)
{
	return entries && !is_trusted(net, (__u64)entries, trust) && !all_harmless((__u64)entries);
}

static __always_inline bool netfilter_holds(struct net *net, bool v6)
{
	if (v6)
		return holds_transit(net, KERNEL_READ(net, nf.hooks_ipv6[HOOK_PRE_ROUTING]), &trusted[1][0]) ||
		       holds_transit(net, KERNEL_READ(net, nf.hooks_ipv6[HOOK_FORWARD]), &trusted[1][1]) ||
		       holds_transit(net, KERNEL_READ(net, nf.hooks_ipv6[HOOK_POST_ROUTING]), &trusted[1][2]);
	return holds_transit(net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_PRE_ROUTING]), &trusted[0][0]) ||
	       holds_transit(net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_FORWARD]), &trusted[0][1]) ||
	       holds_transit(net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_POST_ROUTING]), &trusted[0][2]);
}

static __always_inline bool has_xfrm_policies(struct net *net, int direction)
{
	return KERNEL_READ(net, xfrm.policy_count[direction]);
}

/* `ip xfrm policy setdefault`: packets without a policy are blocked too. */
static __always_inline bool xfrm_blocks(struct net *net, int direction)
{
	return bpf_core_field_exists(net->xfrm.policy_default) &&
	       KERNEL_READ(net, xfrm.policy_default[direction]) == XFRM_BLOCK;
}

/* Whether IPsec has a say in packets of a direction. */
static __always_inline bool xfrm_decides(struct net *net, int direction)
{
	return has_xfrm_policies(net, direction) || xfrm_blocks(net, direction);
}

/* Whether IPsec has a say in what is forwarded. */
static __always_inline bool xfrm_holds(struct net *net)
{
	return xfrm_decides(net, XFRM_OUT) || xfrm_decides(net, XFRM_FORWARD);
}

/* nftables chains of family netdev at the ingress or egress of a device. */
static __always_inline bool nf_at_ingress(struct net_device *dev)
{
	return bpf_core_field_exists(dev->nf_hooks_ingress) && KERNEL_READ(dev, nf_hooks_ingress);
}

/* Whether what is there may concern packets of an IP version: a flowtable of the other one does not. */
static __always_inline bool nf_at_ingress_of(struct net_device *dev, bool v6)
{
	struct nf_hook_entries *entries;

	if (!nf_at_ingress(dev))
		return false;
	entries = KERNEL_READ(dev, nf_hooks_ingress);
	return KERNEL_READ(entries, num_hook_entries) != 1 || !other_flowtable[v6] ||
	       (__u64)KERNEL_READ(entries, hooks[0].hook) != other_flowtable[v6];
}

static __always_inline bool nf_at_egress(struct net_device *dev)
{
	return bpf_core_field_exists(dev->nf_hooks_egress) && KERNEL_READ(dev, nf_hooks_egress);
}

/* Whether there are filters or programs: the qdiscs ingress and clsact alone do nothing (sch_handle_ingress() in net/core/dev.c). */
static __always_inline bool tcx_holds(struct bpf_mprog_entry *entry)
{
	__u64 own;

	if (!entry)
		return false;
	if (KERNEL_READ(entry, fp_items[0].prog))
		return true;
	own = (__u64)KERNEL_READ(entry, parent) - bpf_core_field_offset(struct tcx_entry, bundle);
	return KERNEL_READ((struct tcx_entry *)own, miniq);
}

/* Filters of the qdiscs ingress and clsact, and programs on tcx. */
static __always_inline bool tc_at_ingress(struct net_device *dev)
{
	if (bpf_core_field_exists(dev->tcx_ingress))
		return tcx_holds(KERNEL_READ(dev, tcx_ingress));
	return bpf_core_field_exists(dev->miniq_ingress) && KERNEL_READ(dev, miniq_ingress);
}

static __always_inline bool tc_at_egress(struct net_device *dev)
{
	if (bpf_core_field_exists(dev->tcx_egress))
		return tcx_holds(KERNEL_READ(dev, tcx_egress));
	return bpf_core_field_exists(dev->miniq_egress) && KERNEL_READ(dev, miniq_egress);
}

/* The device that the packet came in by. */
static __always_inline struct net_device *device_of(struct xdp_md *ctx)
{
	struct xdp_rxq_info *rxq;

	if (bpf_cast_to_kern_ctx)
		rxq = ((struct xdp_buff *)bpf_cast_to_kern_ctx(ctx))->rxq;
	else /* the context is that structure, whatever the verifier calls it */
		rxq = KERNEL_READ((struct xdp_buff *)ctx, rxq);
	return KERNEL_READ(rxq, dev);
}

/*
 * Whether the device was moved to another network namespace. It keeps the program there, and its
 * ifindex may belong to another device here.
 */
static __always_inline bool is_elsewhere(struct net_device *dev)
{
	struct net *net = KERNEL_READ(dev, nd_net.net);

	return KERNEL_READ(net, ns.inum) != netns_inode;
}

static __always_inline bool kernel_has_a_say(struct net_device *dev, bool v6)
{
	struct net *net = KERNEL_READ(dev, nd_net.net);

	return nf_at_ingress_of(dev, v6) || tc_at_ingress(dev) || xfrm_holds(net) ||
	       netfilter_holds(net, v6);
}

/* Whether any bridge hook exists: nftables, ebtables, or br_netfilter. */
static __always_inline bool bridge_hooks_hold(struct net_device *dev)
{
	struct net *net = KERNEL_READ(dev, nd_net.net);

	if (!bpf_core_field_exists(net->nf.hooks_bridge))
		return false;
#pragma unroll
	for (int i = 0; i < 5; i++) {
		if (KERNEL_READ(net, nf.hooks_bridge[i]))
			return true;
	}
	return false;
}

/*
 * Whether any device of the machine may have hooks at its egress. This is the static key that Linux
 * checks first (sch_handle_egress() and nf_hook_egress() in net/core/dev.c).
 */
static __always_inline bool egress_in_use(void)
{
	return !is_off(symbols.egress_needed_key);
}

/* Whether there is a hook at the egress of the port's device. */
static __always_inline bool egress_holds(const struct bora_device *device)
{
	struct net_device *dev = (void *)device->address;

	if (!device->address)
		return false;
	if (device->address == BORA_DEVICE_UNKNOWN)
		return true;
	if (!nf_at_egress(dev) && !tc_at_egress(dev))
		return false;
	return KERNEL_READ(dev, ifindex) == device->ifindex; /* else it is gone: nothing leaves there */
}

/* Whether there is a hook at the ingress of a VLAN device, or it is not here any more. */
static __always_inline bool ingress_holds(const struct bora_device *device)
{
	struct net_device *dev = (void *)device->address;

	if (device->address <= BORA_DEVICE_UNKNOWN)
		return true;
	return nf_at_ingress(dev) || tc_at_ingress(dev) ||
	       KERNEL_READ(dev, ifindex) != device->ifindex || is_elsewhere(dev);
}

/*
 * Whether a hook at the egress of one of BORA_MAX_PORTS rows holds; the verifier does not follow a loop over
 * all rows.
 */
__noinline int block_holds(__u32 first)
{
	for (__u32 i = 0; i < BORA_MAX_PORTS; i++) {
		__u32 row = first + i;

		if (row >= port_count)
			break;
		barrier_var(row);
		if (egress_holds(&devices[row & (BORA_MAX_INTERFACES - 1)]))
			return true;
	}
	return false;
}

static __always_inline bool look_at_all_egress(void)
{
	for (__u32 first = 0; first < BORA_MAX_INTERFACES; first += BORA_MAX_PORTS) {
		if (first >= port_count)
			break;
		if (block_holds(first))
			return true;
	}
	return false;
}

/* When all ports were looked at last, and what was found. */
volatile __u64 egress_looked_at;
volatile __u8 egress_found;

/*
 * Whether there is a hook at the egress of any port or VLAN device, because it is not known yet by which one
 * the engine will send. There may be thousands, so they are looked at once in each tick of the coarse clock,
 * which is shorter than the time that the engine holds packets.
 */
static __always_inline bool any_egress_holds(void)
{
	__u64 now = bpf_ktime_get_coarse_ns();

	if (egress_looked_at != now) {
		egress_found = look_at_all_egress();
		egress_looked_at = now; /* last: other CPUs take what was found */
	}
	return egress_found;
}

#endif
