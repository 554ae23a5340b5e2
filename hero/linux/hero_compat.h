/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between Linux 6.1 and 7.x, of what the driver uses. */
#ifndef HERO_COMPAT_H
#define HERO_COMPAT_H

#include <linux/netdevice.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
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

/* Whether tc or netfilter look at what goes through a device. */
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
	return rcu_access_pointer(dev->tcx_ingress) || rcu_access_pointer(dev->tcx_egress);
#endif
#elif defined(CONFIG_NET_CLS_ACT)
	return rcu_access_pointer(dev->miniq_ingress) || rcu_access_pointer(dev->miniq_egress);
#endif
	return false;
}

#endif /* HERO_COMPAT_H */
