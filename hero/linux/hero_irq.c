// SPDX-License-Identifier: GPL-2.0
/* Interrupts: three vectors with one mask.
 *
 * A handler takes the events of all vectors, which stay pending otherwise, deals with them, whether
 * their own interrupts have come or not, and masks what it takes. What comes after that is pending
 * when they are unmasked, and then interrupts again, so nothing is missed.
 */

#include <linux/interrupt.h>

#include "hero.h"

static void hero_irq_take(struct hero *hero, u8 own)
{
	u32 events;

	spin_lock(&hero->irq_lock);
	events = hero_read(hero, HERO_IRQ_MASKED);
	if (hero_is_gone(events))
		events = 0;
	hero->events |= events & HERO_EVENTS_OTHER;
	own |= events & (HERO_EVENTS_RX | HERO_EVENTS_TX);
	hero->mask &= ~own;
	hero_write(hero, HERO_IRQ_MASK, hero->mask);
	hero->interrupts++;
	spin_unlock(&hero->irq_lock);
	if (own & HERO_EVENTS_RX)
		napi_schedule_irqoff(&hero->rx_napi);
	if (own & HERO_EVENTS_TX)
		napi_schedule_irqoff(&hero->tx_napi);
}

static irqreturn_t hero_irq_rx(int irq, void *data)
{
	hero_irq_take(data, HERO_EVENTS_RX);
	return IRQ_HANDLED;
}

static irqreturn_t hero_irq_tx(int irq, void *data)
{
	hero_irq_take(data, HERO_EVENTS_TX);
	return IRQ_HANDLED;
}

/* These stay masked until the watch has looked, so a flood of drops is no flood of interrupts. */
static irqreturn_t hero_irq_other(int irq, void *data)
{
	hero_irq_take(data, HERO_EVENTS_OTHER);
	return IRQ_HANDLED;
}

void hero_irq_unmask(struct hero *hero, u8 events)
{
	unsigned long flags;

	spin_lock_irqsave(&hero->irq_lock, flags);
	if (test_bit(HERO_UP, &hero->flags) && (hero->mask & events) != events) {
		hero->mask |= events;
		hero_write(hero, HERO_IRQ_MASK, hero->mask);
	}
	spin_unlock_irqrestore(&hero->irq_lock, flags);
}

/* Masks all, and waits for handlers that run. */
void hero_irq_off(struct hero *hero)
{
	unsigned int k;

	spin_lock_irq(&hero->irq_lock);
	hero->mask = 0;
	hero->events = 0;
	hero_write(hero, HERO_IRQ_MASK, 0);
	spin_unlock_irq(&hero->irq_lock);
	for (k = 0; k < HERO_VECTORS; k++)
		synchronize_irq(pci_irq_vector(hero->pdev, k));
}

/* The events that no handler could deal with. */
u8 hero_irq_take_events(struct hero *hero)
{
	u8 events;

	spin_lock_irq(&hero->irq_lock);
	events = hero->events;
	hero->events = 0;
	spin_unlock_irq(&hero->irq_lock);
	return events;
}

int hero_irq_request(struct hero *hero)
{
	static const struct {
		irq_handler_t handler;
		const char *name;
	} vectors[HERO_VECTORS] = {
		[HERO_VECTOR_RX] = { hero_irq_rx, "rx" },
		[HERO_VECTOR_TX] = { hero_irq_tx, "tx" },
		[HERO_VECTOR_OTHER] = { hero_irq_other, "other" },
	};
	int err, k;

	for (k = 0; k < HERO_VECTORS; k++) {
		err = pci_request_irq(hero->pdev, k, vectors[k].handler, NULL, hero, "%s-%s",
				      netdev_name(hero->dev), vectors[k].name);
		if (err)
			break;
	}
	if (k == HERO_VECTORS)
		return 0;
	netdev_err(hero->dev, "no interrupt for %s: %d\n", vectors[k].name, err);
	while (k--)
		pci_free_irq(hero->pdev, k, hero);
	return err;
}

void hero_irq_free(struct hero *hero)
{
	unsigned int k;

	for (k = 0; k < HERO_VECTORS; k++)
		pci_free_irq(hero->pdev, k, hero);
}
