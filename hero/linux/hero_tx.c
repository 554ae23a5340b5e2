// SPDX-License-Identifier: GPL-2.0
/* Sending. A descriptor is a whole frame, which must begin at a multiple of 8 and stay in its page.
 * So those that do are sent from where they are, as forwarded ones are, and the others are copied.
 */

#include <linux/dma-mapping.h>

#include "hero.h"

/* The queue is woken when this number of slots is free. */
#define HERO_TX_WAKE HERO_VECTOR

static unsigned int hero_tx_space(struct hero *hero)
{
	unsigned int out = hero->tx.filled - READ_ONCE(hero->tx.ring.done);

	return out < READ_ONCE(hero->tx_limit) ? READ_ONCE(hero->tx_limit) - out : 0;
}

/* Lets the card read a frame where it is, if it can. */
static bool hero_tx_map(struct hero *hero, struct hero_tx_slot *slot, void *data, unsigned int len)
{
	struct device *device = &hero->pdev->dev;
	dma_addr_t dma;

	if (!IS_ALIGNED((unsigned long)data, 8) ||
	    offset_in_page(data) % HERO_PAGE + len > HERO_PAGE)
		return false;
	dma = dma_map_single(device, data, len, DMA_TO_DEVICE);
	if (dma_mapping_error(device, dma))
		return false;
	if (!IS_ALIGNED(dma, 8) || dma % HERO_PAGE + len > HERO_PAGE) {
		dma_unmap_single(device, dma, len, DMA_TO_DEVICE);
		return false;
	}
	slot->dma = dma;
	slot->mapped = len;
	return true;
}

static struct hero_tx_slot *hero_tx_slot(struct hero_tx *tx, unsigned int len)
{
	struct hero_tx_slot *slot = &tx->slots[tx->filled % HERO_SLOTS];

	slot->skb = NULL;
	slot->frame = NULL;
	slot->len = len;
	slot->mapped = 0;
	slot->dma = slot->buffer_dma;
	return slot;
}

/* Stops the queue if there is no slot. */
static void hero_tx_maybe_stop(struct hero *hero)
{
	struct netdev_queue *queue = netdev_get_tx_queue(hero->dev, 0);

	if (likely(hero_tx_space(hero)))
		return;
	netif_tx_stop_queue(queue);
	/* with that in hero_tx_poll(): either it sees the stop, or this sees its completions */
	smp_mb();
	if (hero_tx_space(hero) >= HERO_TX_WAKE)
		netif_tx_start_queue(queue);
}

static void hero_tx_filled(struct hero *hero)
{
	WRITE_ONCE(hero->tx.filled, hero->tx.filled + 1);
	hero_tx_maybe_stop(hero);
}

/* Gives the card what waits, as far as it takes it; the rest goes with the next completions. Needs
 * the queue's lock.
 */
void hero_tx_flush(struct hero *hero)
{
	struct hero_tx *tx = &hero->tx;
	struct hero_ring *ring = &tx->ring;
	unsigned int count, k;

	while (tx->filled != ring->given && !tx->full) {
		if (!hero_ring_has_room(ring)) {
			tx->full = true;
			return;
		}
		count = min_t(unsigned int, tx->filled - ring->given, HERO_VECTOR);
		for (k = 0; k < count; k++) {
			struct hero_tx_slot *slot = &tx->slots[(ring->given + k) % HERO_SLOTS];

			hero_ring_describe(ring, k, slot->dma, slot->len);
		}
		hero_ring_give(ring, count);
	}
}

netdev_tx_t hero_tx_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct hero *hero = netdev_priv(dev);
	struct netdev_queue *queue = netdev_get_tx_queue(dev, 0);
	struct hero_tx *tx = &hero->tx;
	bool more = netdev_xmit_more();
	struct hero_tx_slot *slot;

	if (unlikely(!test_bit(HERO_UP, &hero->flags))) {
		u64_stats_inc(&tx->dropped);
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	if (unlikely(!hero_tx_space(hero))) {
		hero_tx_maybe_stop(hero);
		hero_tx_flush(hero);
		return NETDEV_TX_BUSY;
	}
	if (unlikely(skb->len > HERO_MAX_FRAME || skb->len < ETH_HLEN)) {
		u64_stats_inc(&tx->dropped);
		dev_kfree_skb_any(skb);
		if (!more)
			hero_tx_flush(hero);
		return NETDEV_TX_OK;
	}
	slot = hero_tx_slot(tx, skb->len);
	if (skb->ip_summed == CHECKSUM_PARTIAL || skb_is_nonlinear(skb) ||
	    !hero_tx_map(hero, slot, skb->data, skb->len)) {
		skb_copy_and_csum_dev(skb, slot->buffer);
	}
	slot->skb = skb;
	skb_tx_timestamp(skb);
	hero_tx_filled(hero);
	if (__netdev_tx_sent_queue(queue, slot->len, more))
		hero_tx_flush(hero);
	return NETDEV_TX_OK;
}

/* Takes a frame of XDP, if there is a slot. Needs the queue's lock, and hero_tx_flush() then. */
bool hero_tx_frame(struct hero *hero, struct xdp_frame *frame)
{
	struct hero_tx_slot *slot;

	if (!hero_tx_space(hero) || frame->len > HERO_MAX_FRAME || frame->len < ETH_HLEN)
		return false;
	slot = hero_tx_slot(&hero->tx, frame->len);
	if (!hero_tx_map(hero, slot, frame->data, frame->len))
		memcpy(slot->buffer, frame->data, frame->len);
	slot->frame = frame;
	hero_tx_filled(hero);
	return true;
}

static void hero_tx_release(struct hero *hero, struct hero_tx_slot *slot, int budget)
{
	if (slot->mapped)
		dma_unmap_single(&hero->pdev->dev, slot->dma, slot->mapped, DMA_TO_DEVICE);
	if (slot->skb)
		napi_consume_skb(slot->skb, budget);
	else if (slot->frame)
		xdp_return_frame(slot->frame);
	slot->skb = NULL;
	slot->frame = NULL;
}

/* Takes completions, and returns false if one makes no sense. */
static bool hero_tx_clean(struct hero *hero, int budget, unsigned int *packets, unsigned int *bytes)
{
	struct hero_tx *tx = &hero->tx;
	u64 word;

	while (hero_ring_next(&tx->ring, &word)) {
		struct hero_tx_slot *slot = &tx->slots[tx->ring.done % HERO_SLOTS];

		if (FIELD_GET(HERO_CPL_ADDRESS, word) != lower_32_bits(slot->dma))
			return false;
		u64_stats_update_begin(&tx->stats.sync);
		if (word & HERO_CPL_ERROR) {
			u64_stats_inc(&tx->stats.errors);
		} else {
			u64_stats_inc(&tx->stats.packets);
			u64_stats_add(&tx->stats.bytes, slot->len);
			if (!slot->mapped)
				u64_stats_inc(&tx->stats.copied);
			if (slot->frame)
				u64_stats_inc(&tx->stats.xdp_sent);
		}
		u64_stats_update_end(&tx->stats.sync);
		/* BQL was told of those of the stack alone */
		if (slot->skb) {
			*packets += 1;
			*bytes += slot->len;
		}
		hero_tx_release(hero, slot, budget);
		/* the slot is free from here on */
		smp_store_release(&tx->ring.done, tx->ring.done + 1);
	}
	return true;
}

int hero_tx_poll(struct napi_struct *napi, int budget)
{
	struct hero *hero = container_of(napi, struct hero, tx_napi);
	struct netdev_queue *queue = netdev_get_tx_queue(hero->dev, 0);
	unsigned int packets = 0, bytes = 0;
	struct hero_tx *tx = &hero->tx;

	if (!hero_tx_clean(hero, budget, &packets, &bytes))
		hero_reset_later(hero, "card and driver are out of step on the transmit ring");
	netdev_tx_completed_queue(queue, packets, bytes);
	if (READ_ONCE(tx->filled) != READ_ONCE(tx->ring.given) && budget) {
		__netif_tx_lock(queue, smp_processor_id());
		if (test_bit(HERO_UP, &hero->flags)) {
			tx->full = false;
			hero_tx_flush(hero);
		}
		__netif_tx_unlock(queue);
	}
	/* see hero_tx_maybe_stop() */
	smp_mb();
	if (unlikely(netif_tx_queue_stopped(queue)) && hero_tx_space(hero) >= HERO_TX_WAKE &&
	    test_bit(HERO_UP, &hero->flags))
		netif_tx_wake_queue(queue);
	if (budget && napi_complete_done(napi, 0))
		hero_irq_unmask(hero, HERO_EVENTS_TX);
	return 0;
}

/* Whether the card could not read a vector of frames. */
bool hero_tx_lost_frames(struct hero *hero)
{
	return hero_ring_lost_vector(&hero->tx.ring, !hero_read(hero, HERO_TX_LEN));
}

/* Drops all that waits; the card is in reset. */
void hero_tx_stop(struct hero *hero)
{
	struct hero_tx *tx = &hero->tx;

	for (; tx->ring.done != tx->filled; tx->ring.done++) {
		hero_tx_release(hero, &tx->slots[tx->ring.done % HERO_SLOTS], 0);
		u64_stats_inc(&tx->dropped);
	}
	netdev_reset_queue(hero->dev);
}
