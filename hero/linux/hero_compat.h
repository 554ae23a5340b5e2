/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between Linux 6.1 and 7.x, of what the driver uses. */
#ifndef HERO_COMPAT_H
#define HERO_COMPAT_H

#include <linux/netdevice.h>
#include <linux/version.h>
#include <net/devlink.h>
#include <net/sch_generic.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
#include <net/tcx.h>
#include <net/page_pool/helpers.h>
#include <net/page_pool/types.h>
#else
#include <net/page_pool.h>
#endif

/* Pages go straight back to a pool from its own NAPI since 6.3. */
static inline void hero_pool_napi(struct page_pool_params *params,
				  struct napi_struct *napi)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	params->napi = napi;
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	params->netdev = napi->dev;
#endif
}

/* User space asks for what a driver's XDP can do since 6.3. */
static inline void hero_xdp_features(struct net_device *dev)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	dev->xdp_features = NETDEV_XDP_ACT_BASIC | NETDEV_XDP_ACT_REDIRECT |
			    NETDEV_XDP_ACT_NDO_XMIT;
#endif
}

/* devlink has told the driver's name by itself since 6.2. */
static inline int hero_info_driver(struct devlink_info_req *req, const char *name)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	return devlink_info_driver_name_put(req, name);
#else
	return 0;
#endif
}

/* Arguments of a devlink parameter's functions. Kbuild looks for what came to them over time. */
#ifdef HERO_PARAM_GET_HAS_EXTACK
#define HERO_PARAM_GET_ARGUMENTS struct devlink *devlink, u32 id, \
	struct devlink_param_gset_ctx *ctx, struct netlink_ext_ack *extack
#else
#define HERO_PARAM_GET_ARGUMENTS struct devlink *devlink, u32 id, struct devlink_param_gset_ctx *ctx
#endif
#ifdef HERO_PARAM_SET_HAS_EXTACK
#define HERO_PARAM_SET_ARGUMENTS struct devlink *devlink, u32 id, \
	struct devlink_param_gset_ctx *ctx, struct netlink_ext_ack *extack
#else
#define HERO_PARAM_SET_ARGUMENTS struct devlink *devlink, u32 id, struct devlink_param_gset_ctx *ctx
#endif
#ifdef HERO_PARAM_VALUE_IS_POINTER
#define HERO_PARAM_CHECK_ARGUMENTS struct devlink *devlink, u32 id, \
	union devlink_param_value *val, struct netlink_ext_ack *extack
#define HERO_PARAM_VALUE(val) (val)
#else
#define HERO_PARAM_CHECK_ARGUMENTS struct devlink *devlink, u32 id, \
	union devlink_param_value val, struct netlink_ext_ack *extack
#define HERO_PARAM_VALUE(val) (&(val))
#endif

/* Whether tc runs filters here; those of tc's own lists, not of BPF links. Since 6.14, and in later
 * releases of older kernels, it counts those that are not in a card alone; the list at egress may be
 * without the block that has the count.
 */
static inline bool hero_has_classifiers(const struct mini_Qdisc *list)
{
	if (!list || !list->filter_list)
		return false;
#ifdef HERO_TC_COUNTS_SOFTWARE
	return !list->block || atomic_read(&list->block->useswcnt);
#else
	return true;
#endif
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
#ifdef CONFIG_NET_XGRESS
static inline bool hero_has_tc(struct bpf_mprog_entry *entry)
{
	return entry && (bpf_mprog_total(entry) ||
			 hero_has_classifiers(rcu_dereference(tcx_entry(entry)->miniq)));
}
#endif
#endif

/* Whether tc or netfilter look at what goes through a device. Needs RCU's read lock. */
static inline bool hero_has_filters(struct net_device *dev)
{
#ifdef CONFIG_NETFILTER_INGRESS
	if (rcu_access_pointer(dev->nf_hooks_ingress))
		return true;
#endif
#ifdef CONFIG_NETFILTER_EGRESS
	if (rcu_access_pointer(dev->nf_hooks_egress))
		return true;
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
#ifdef CONFIG_NET_XGRESS
	return hero_has_tc(rcu_dereference(dev->tcx_ingress)) ||
	       hero_has_tc(rcu_dereference(dev->tcx_egress));
#endif
#elif defined(CONFIG_NET_CLS_ACT)
	return hero_has_classifiers(rcu_dereference(dev->miniq_ingress)) ||
	       hero_has_classifiers(rcu_dereference(dev->miniq_egress));
#endif
	return false;
}

#endif /* HERO_COMPAT_H */
