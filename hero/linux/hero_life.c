// SPDX-License-Identifier: GPL-2.0
/* A card goes up and down, is watched while it is up, and is reset. */

#include <linux/rtnetlink.h>

#include "hero.h"

#define HERO_WATCH HZ
/* The counters are read so often, if no event asks for it. */
#define HERO_COUNTERS_AGE (8 * HZ)

/* Asks for a reset of the card, from any context. */
void hero_reset_later(struct hero *hero, const char *why)
{
	if (!test_bit(HERO_UP, &hero->flags))
		return;
	if (queue_work(hero_queue, &hero->reset))
		netdev_err(hero->dev, "%s; it is reset\n", why);
}

/* Looks at the link, of which no event tells, and at events that need more than a handler. */
void hero_watch(struct work_struct *work)
{
	struct hero *hero = container_of(to_delayed_work(work), struct hero, watch);
	u8 events = hero_irq_take_events(hero);
	u32 status = hero_read(hero, HERO_STATUS);
	bool link = status & HERO_STATUS_LINK;

	if (!test_bit(HERO_UP, &hero->flags))
		return;
	if (hero_is_gone(status)) {
		hero_card_gone(hero);
		return;
	}
	if (link != netif_carrier_ok(hero->dev)) {
		netif_info(hero, link, hero->dev, "link is %s\n", link ? "up" : "down");
		if (link)
			netif_carrier_on(hero->dev);
		else
			netif_carrier_off(hero->dev);
		hero_fib_look();
	}
	if (status & HERO_STATUS_BROKEN)
		hero_reset_later(hero, "memory refused completions of the card");
	else if (!(status & HERO_STATUS_READY) || !hero_card_is_set_up(hero))
		hero_reset_later(hero, "the card was reset by somebody else");
	else if (hero_rx_lost_buffers(hero))
		hero_reset_later(hero, "the card lost its receive buffers");
	else if (hero_tx_lost_frames(hero))
		hero_reset_later(hero, "the card lost frames that it was to send");
	else if (hero_card_has_other_peers(hero))
		hero_reset_later(hero, "the cards of its bus are others");
	if (events || time_after_eq64(get_jiffies_64(), hero->stale)) {
		hero_card_read_counters(hero);
		hero->stale = get_jiffies_64() + HERO_COUNTERS_AGE;
	}
	hero_irq_unmask(hero, HERO_EVENTS_OTHER);
	queue_delayed_work(hero_queue, &hero->watch, HERO_WATCH);
}

/* Starts the card, whose memory and interrupts are there. Needs the RTNL. */
int hero_up(struct hero *hero)
{
	int err;

	pci_set_master(hero->pdev);
	err = hero_card_reset(hero);
	if (err)
		return err;
	hero_card_find_peers(hero);
	hero_ring_init(&hero->tx.ring);
	hero->tx.filled = 0;
	hero->tx.full = false;
	hero_rx_start(hero);
	napi_enable(&hero->rx_napi);
	napi_enable(&hero->tx_napi);
	hero_card_start(hero);
	set_bit(HERO_UP, &hero->flags);
	hero_irq_unmask(hero, HERO_EVENTS_RX | HERO_EVENTS_TX | HERO_EVENTS_OTHER);
	netif_tx_wake_all_queues(hero->dev);
	queue_delayed_work(hero_queue, &hero->watch, 0);
	return 0;
}

/* Stops the card. What it held is lost. Needs the RTNL. */
void hero_down(struct hero *hero)
{
	/* while the others can still hear of it */
	hero_fib_card_down(hero);
	if (!test_and_clear_bit(HERO_UP, &hero->flags))
		return;
	/* in this order, because the watch sets the carrier and the poll wakes the queue */
	cancel_delayed_work_sync(&hero->watch);
	netif_carrier_off(hero->dev);
	napi_disable(&hero->rx_napi);
	napi_disable(&hero->tx_napi);
	/* from here on nobody gives the card a frame */
	netif_tx_disable(hero->dev);
	hero_irq_off(hero);
	hero_card_read_counters(hero);
	/* memory may be used for something else only if the card is quiet */
	if (hero_card_reset(hero))
		pci_clear_master(hero->pdev);
	else
		hero_card_set_mac(hero);
	hero_rx_stop(hero);
	hero_tx_stop(hero);
}

void hero_reset_work(struct work_struct *work)
{
	struct hero *hero = container_of(work, struct hero, reset);

	rtnl_lock();
	if (test_bit(HERO_UP, &hero->flags)) {
		hero_down(hero);
		hero->resets++;
		if (hero_up(hero))
			netdev_err(hero->dev, "the card is not used until it is set down and up\n");
		hero_fib_look();
	}
	rtnl_unlock();
}
