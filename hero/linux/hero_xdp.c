// SPDX-License-Identifier: GPL-2.0
/* XDP: pass, drop, send back, redirect, and frames that others redirect here. */

#include <linux/bpf_trace.h>
#include <linux/filter.h>

#include "hero.h"

static bool hero_xdp_send_back(struct hero *hero, struct xdp_buff *xdp)
{
	struct netdev_queue *queue = netdev_get_tx_queue(hero->dev, 0);
	struct xdp_frame *frame = xdp_convert_buff_to_frame(xdp);
	bool sent;

	if (unlikely(!frame))
		return false;
	__netif_tx_lock(queue, smp_processor_id());
	txq_trans_cond_update(queue);
	sent = test_bit(HERO_UP, &hero->flags) && hero_tx_frame(hero, frame);
	__netif_tx_unlock(queue);
	return sent;
}

/* Runs the program. Returns whether the frame goes to the stack; if not, it is not the caller's any
 * more.
 */
bool hero_xdp_run(struct hero_rx *rx, struct bpf_prog *prog, struct xdp_buff *xdp,
		  unsigned int *flags)
{
	struct hero *hero = rx->ring.hero;
	u32 action = bpf_prog_run_xdp(prog, xdp);
	u64_stats_t *counter = &rx->stats.xdp_drop;

	switch (action) {
	case XDP_PASS:
		return true;
	case XDP_TX:
		if (hero_xdp_send_back(hero, xdp)) {
			*flags |= HERO_XDP_SENT;
			counter = &rx->stats.xdp_tx;
			break;
		}
		trace_xdp_exception(hero->dev, prog, action);
		goto drop;
	case XDP_REDIRECT:
		if (!xdp_do_redirect(hero->dev, xdp, prog)) {
			*flags |= HERO_XDP_REDIRECTED;
			counter = &rx->stats.xdp_redirect;
			break;
		}
		trace_xdp_exception(hero->dev, prog, action);
		goto drop;
	default:
		bpf_warn_invalid_xdp_action(hero->dev, prog, action);
		fallthrough;
	case XDP_ABORTED:
		trace_xdp_exception(hero->dev, prog, action);
		fallthrough;
	case XDP_DROP:
drop:
		page_pool_put_full_page(rx->pool, virt_to_page(xdp->data_hard_start), true);
	}
	u64_stats_update_begin(&rx->stats.sync);
	u64_stats_inc(counter);
	u64_stats_update_end(&rx->stats.sync);
	return false;
}

/* At the end of a poll: what was only queued goes out. */
void hero_xdp_finish(struct hero *hero, unsigned int flags)
{
	struct netdev_queue *queue = netdev_get_tx_queue(hero->dev, 0);

	if (flags & HERO_XDP_REDIRECTED)
		xdp_do_flush();
	if (flags & HERO_XDP_SENT) {
		__netif_tx_lock(queue, smp_processor_id());
		if (test_bit(HERO_UP, &hero->flags))
			hero_tx_flush(hero);
		__netif_tx_unlock(queue);
	}
}

int hero_xdp_xmit(struct net_device *dev, int n, struct xdp_frame **frames, u32 flags)
{
	struct hero *hero = netdev_priv(dev);
	struct netdev_queue *queue = netdev_get_tx_queue(dev, 0);
	int sent = 0;

	if (unlikely(flags & ~XDP_XMIT_FLAGS_MASK))
		return -EINVAL;
	__netif_tx_lock(queue, smp_processor_id());
	if (unlikely(!test_bit(HERO_UP, &hero->flags) || !netif_carrier_ok(dev))) {
		__netif_tx_unlock(queue);
		return -ENETDOWN;
	}
	txq_trans_cond_update(queue);
	while (sent < n && hero_tx_frame(hero, frames[sent]))
		sent++;
	if (flags & XDP_XMIT_FLUSH)
		hero_tx_flush(hero);
	__netif_tx_unlock(queue);
	return sent;
}

/* Buffers have room for a program in any case, so nothing is restarted. */
static int hero_xdp_setup(struct hero *hero, struct bpf_prog *prog)
{
	struct bpf_prog *old = rtnl_dereference(hero->xdp);

	rcu_assign_pointer(hero->xdp, prog);
	/* a program sees all packets */
	hero_fib_card_down(hero);
	hero_fib_look();
	if (old)
		bpf_prog_put(old);
	return 0;
}

int hero_xdp(struct net_device *dev, struct netdev_bpf *bpf)
{
	switch (bpf->command) {
	case XDP_SETUP_PROG:
		return hero_xdp_setup(netdev_priv(dev), bpf->prog);
	default:
		return -EINVAL;
	}
}
