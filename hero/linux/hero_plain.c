// SPDX-License-Identifier: GPL-2.0
/* Whether Linux does nothing but forward: what a card cannot do takes routes off the fast path. */

#include <linux/inetdevice.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/sch_generic.h>

#include "hero_fib.h"

#ifdef CONFIG_NETFILTER
/* AppArmor, which looks at packets of this machine's programs alone, has a hook on all of Debian's
 * kernels. Nothing else of the kernel has one with its priority there.
 */
static bool hero_hook_is_apparmor(const struct nf_hook_ops *ops)
{
	return ops->hooknum == NF_INET_POST_ROUTING && ops->priority == NF_IP_PRI_SELINUX_FIRST &&
	       ops->hook_ops_type == NF_HOOK_OP_UNDEFINED;
}

/* Whether netfilter sees packets in transit. */
static bool hero_has_hooks(struct net *net, bool ip6)
{
	static const u8 hooks[] = { NF_INET_PRE_ROUTING, NF_INET_FORWARD, NF_INET_POST_ROUTING };
	struct nf_hook_entries __rcu **chains = ip6 ? net->nf.hooks_ipv6 : net->nf.hooks_ipv4;
	const struct nf_hook_entries *entries;
	bool found = false;
	unsigned int k, n;

	rcu_read_lock();
	for (k = 0; k < ARRAY_SIZE(hooks); k++) {
		entries = rcu_dereference(chains[hooks[k]]);
		for (n = 0; entries && n < entries->num_hook_entries; n++)
			found |= !hero_hook_is_apparmor(nf_hook_entries_get_hook_ops(entries)[n]);
	}
	rcu_read_unlock();
	return found;
}
#else
static bool hero_has_hooks(struct net *net, bool ip6)
{
	return false;
}
#endif

/* Whether Linux does nothing with packets in transit but forward them. */
bool hero_linux_is_plain(struct net *net, bool ip6)
{
#ifdef CONFIG_XFRM
	if (READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_FWD]) ||
	    READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_OUT]))
		return false;
#endif
	return !hero_has_hooks(net, ip6);
}

/* Whether nothing but routing happens at a card's device. */
bool hero_device_is_plain(struct net_device *dev)
{
	bool filters;

	rcu_read_lock();
	filters = hero_has_filters(dev);
	rcu_read_unlock();
	return !filters && netif_running(dev) && net_eq(dev_net(dev), &init_net) &&
	       !netdev_master_upper_dev_get(dev) && !rcu_access_pointer(dev->rx_handler);
}

bool hero_may_come_in(struct hero *hero)
{
	struct in_device *in_dev = __in_dev_get_rtnl(hero->dev);

	return test_bit(HERO_UP, &hero->flags) && hero->fast_path &&
	       hero_device_is_plain(hero->dev) && in_dev && IN_DEV_FORWARD(in_dev) &&
	       !IN_DEV_RPFILTER(in_dev) && !rtnl_dereference(hero->xdp);
}

/* A card can neither fragment nor queue; a queueing discipline with a handle was chosen. */
bool hero_may_go_out(struct hero *hero)
{
	struct net_device *dev = hero->dev;

	return test_bit(HERO_UP, &hero->flags) && hero_device_is_plain(dev) &&
	       netif_carrier_ok(dev) && dev->mtu >= HERO_MTU &&
	       !rtnl_dereference(dev->qdisc)->handle;
}
