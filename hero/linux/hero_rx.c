// SPDX-License-Identifier: GPL-2.0
/* Receiving: two rings, of which that of high priority goes first. */

#include <linux/bpf_trace.h>
#include <linux/dma-mapping.h>
#include <linux/filter.h>

#include "hero.h"

/* With fewer buffers outstanding and no memory for more, the driver polls instead of waiting for a
 * packet.
 */
#define HERO_RX_LOW HERO_VECTOR
/* The low priority gets this part of the budget, however much of the high one comes. */
#define HERO_RX_SHARE 4

static int hero_rx_open_ring(struct hero *hero, struct hero_rx *rx)
{
	struct page_pool_params params = {
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
		.pool_size = HERO_SLOTS,
		.nid = dev_to_node(&hero->pdev->dev),
		.dev = &hero->pdev->dev,
		.dma_dir = DMA_FROM_DEVICE,
		.offset = HERO_HEADROOM,
		.max_len = HERO_BUFFER,
	};
	int err;

	hero_pool_napi(&params, &hero->rx_napi);
	rx->pool = page_pool_create(&params);
	if (IS_ERR(rx->pool)) {
		err = PTR_ERR(rx->pool);
		rx->pool = NULL;
		return err;
	}
	err = xdp_rxq_info_reg(&rx->rxq, hero->dev, 0, hero->rx_napi.napi_id);
	if (err)
		return err;
	return xdp_rxq_info_reg_mem_model(&rx->rxq, MEM_TYPE_PAGE_POOL, rx->pool);
}

void hero_rx_close(struct hero *hero)
{
	unsigned int k;

	for (k = 0; k < HERO_PRIORITIES; k++) {
		struct hero_rx *rx = &hero->rx[k];

		if (xdp_rxq_info_is_reg(&rx->rxq))
			xdp_rxq_info_unreg(&rx->rxq);
		if (rx->pool)
			page_pool_destroy(rx->pool);
		rx->pool = NULL;
	}
}

int hero_rx_open(struct hero *hero)
{
	unsigned int k;
	int err;

	for (k = 0; k < HERO_PRIORITIES; k++) {
		hero->rx[k].priority = k;
		err = hero_rx_open_ring(hero, &hero->rx[k]);
		if (err) {
			hero_rx_close(hero);
			return err;
		}
	}
	return 0;
}

/* The card is told only addresses of 32 bits, so pages above would go through a bounce buffer. */
static struct page *hero_rx_page(struct hero_rx *rx)
{
	return page_pool_alloc_pages(rx->pool, GFP_ATOMIC | GFP_DMA32 | __GFP_NOWARN);
}

/* Gives buffers in whole vectors. Returns false if the ring is about to be empty for want of
 * memory.
 */
static bool hero_rx_refill(struct hero *hero, struct hero_rx *rx)
{
	struct hero_ring *ring = &rx->ring;
	unsigned int k;

	while (ring->given - ring->done + HERO_VECTOR <= READ_ONCE(hero->rx_limit) &&
	       hero_ring_has_room(ring)) {
		for (k = 0; k < HERO_VECTOR; k++) {
			struct page *page = hero_rx_page(rx);

			if (!page)
				break;
			rx->pages[(ring->given + k) % HERO_SLOTS] = page;
			hero_ring_describe(ring, k, page_pool_get_dma_addr(page) + HERO_HEADROOM,
					   HERO_BUFFER);
		}
		if (k < HERO_VECTOR) {
			while (k--)
				page_pool_put_full_page(rx->pool,
							rx->pages[(ring->given + k) % HERO_SLOTS],
							false);
			u64_stats_update_begin(&rx->stats.sync);
			u64_stats_inc(&rx->stats.no_buffer);
			u64_stats_update_end(&rx->stats.sync);
			return ring->given - ring->done >= HERO_RX_LOW;
		}
		hero_ring_give(ring, HERO_VECTOR);
	}
	return true;
}

/* The first buffers, after the card's reset. */
void hero_rx_start(struct hero *hero)
{
	unsigned int k;

	for (k = 0; k < HERO_PRIORITIES; k++) {
		hero_ring_init(&hero->rx[k].ring);
		local_bh_disable();
		hero_rx_refill(hero, &hero->rx[k]);
		local_bh_enable();
	}
}

/* Takes all buffers back; the card is in reset. */
void hero_rx_stop(struct hero *hero)
{
	unsigned int k;

	for (k = 0; k < HERO_PRIORITIES; k++) {
		struct hero_rx *rx = &hero->rx[k];

		for (; rx->ring.done != rx->ring.given; rx->ring.done++)
			page_pool_put_full_page(rx->pool, rx->pages[rx->ring.done % HERO_SLOTS],
						false);
	}
}

/* A ring's field of LEVELS with the descriptors that the card holds, and the vectors that it takes
 * when none waits.
 */
#define HERO_LEVELS_HELD(levels, priority)	((levels) >> (16 + 8 * (priority)) & 0xff)
#define HERO_LEVELS_NO_VECTOR			2

/* Whether the card could not read a vector of buffers. */
bool hero_rx_lost_buffers(struct hero *hero)
{
	u32 levels = hero_read(hero, HERO_LEVELS);
	bool lost = false;
	unsigned int k;

	for (k = 0; k < HERO_PRIORITIES; k++) {
		struct hero_ring *ring = &hero->rx[k].ring;
		bool has_none = !hero_is_gone(levels) && !HERO_LEVELS_HELD(levels, k) &&
				(levels >> ring->level & 0xf) == HERO_LEVELS_NO_VECTOR;

		lost |= hero_ring_lost_vector(ring, has_none);
	}
	return lost;
}

static void hero_rx_skb(struct hero *hero, struct hero_rx *rx, struct xdp_buff *xdp)
{
	struct sk_buff *skb = napi_build_skb(xdp->data_hard_start, PAGE_SIZE);

	if (unlikely(!skb)) {
		page_pool_put_full_page(rx->pool, virt_to_page(xdp->data_hard_start), true);
		u64_stats_update_begin(&rx->stats.sync);
		u64_stats_inc(&rx->stats.no_buffer);
		u64_stats_update_end(&rx->stats.sync);
		return;
	}
	skb_reserve(skb, xdp->data - xdp->data_hard_start);
	skb_put(skb, xdp->data_end - xdp->data);
	if (xdp->data > xdp->data_meta)
		skb_metadata_set(skb, xdp->data - xdp->data_meta);
	skb_mark_for_recycle(skb);
	skb->protocol = eth_type_trans(skb, hero->dev);
	if (READ_ONCE(hero->sampler.every))
		hero_rate_sample(hero, skb);
	napi_gro_receive(&hero->rx_napi, skb);
}

/* A frame that has come into a page. */
static void hero_rx_frame(struct hero *hero, struct hero_rx *rx, struct page *page,
			  unsigned int len, unsigned int *flags)
{
	struct bpf_prog *prog = rcu_dereference_bh(hero->xdp);
	struct xdp_buff xdp;

	dma_sync_single_range_for_cpu(&hero->pdev->dev, page_pool_get_dma_addr(page), HERO_HEADROOM,
				      len, DMA_FROM_DEVICE);
	net_prefetch(page_address(page) + HERO_HEADROOM);
	xdp_init_buff(&xdp, PAGE_SIZE, &rx->rxq);
	xdp_prepare_buff(&xdp, page_address(page), HERO_HEADROOM, len, true);
	if (!prog || hero_xdp_run(rx, prog, &xdp, flags))
		hero_rx_skb(hero, rx, &xdp);
}

/* Takes up to `budget` frames out of a ring, and returns how many. */
static int hero_rx_ring(struct hero *hero, struct hero_rx *rx, int budget, unsigned int *flags)
{
	struct hero_ring *ring = &rx->ring;
	int work = 0;
	u64 word;

	while (work < budget && hero_ring_next(ring, &word)) {
		struct page *page = rx->pages[ring->done % HERO_SLOTS];
		unsigned int len = FIELD_GET(HERO_CPL_LENGTH, word);
		bool error = word & HERO_CPL_ERROR || len < ETH_HLEN;

		if (FIELD_GET(HERO_CPL_ADDRESS, word) !=
			    lower_32_bits(page_pool_get_dma_addr(page) + HERO_HEADROOM) ||
		    len > HERO_BUFFER) {
			hero_reset_later(hero, "card and driver are out of step on a receive ring");
			break;
		}
		ring->done++;
		work++;
		u64_stats_update_begin(&rx->stats.sync);
		if (error) {
			u64_stats_inc(&rx->stats.errors);
		} else {
			u64_stats_inc(&rx->stats.packets);
			u64_stats_add(&rx->stats.bytes, len);
		}
		u64_stats_update_end(&rx->stats.sync);
		if (error)
			page_pool_put_full_page(rx->pool, page, true);
		else
			hero_rx_frame(hero, rx, page, len, flags);
	}
	return work;
}

int hero_rx_poll(struct napi_struct *napi, int budget)
{
	struct hero *hero = container_of(napi, struct hero, rx_napi);
	struct hero_rx *low = &hero->rx[HERO_LOW], *high = &hero->rx[HERO_HIGH];
	unsigned int flags = 0;
	bool supplied;
	int work;

	if (!budget)
		return 0;
	work = hero_rx_ring(hero, high, budget - budget / HERO_RX_SHARE, &flags);
	work += hero_rx_ring(hero, low, budget - work, &flags);
	work += hero_rx_ring(hero, high, budget - work, &flags);
	hero_xdp_finish(hero, flags);
	supplied = hero_rx_refill(hero, high);
	supplied &= hero_rx_refill(hero, low);
	if (work == budget || !supplied)
		return budget;
	if (napi_complete_done(napi, work))
		hero_irq_unmask(hero, HERO_EVENTS_RX);
	return work;
}
