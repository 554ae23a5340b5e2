// SPDX-License-Identifier: GPL-2.0
/* Descriptor vectors and completion rings in memory. */

#include <linux/dma-mapping.h>
#include <linux/dmapool.h>

#include "hero.h"

static const struct {
	u8 reg, level;
} hero_ring_places[] = {
	{ HERO_RXLO_DESC, 0 },
	{ HERO_RXHI_DESC, 4 },
	{ HERO_TX_DESC, 8 },
};

static struct hero_ring *hero_ring_of(struct hero *hero, unsigned int number)
{
	return number < HERO_PRIORITIES ? &hero->rx[number].ring : &hero->tx.ring;
}

/* There is a place for a vector of each descriptor, so the card has read the previous one of a
 * place.
 */
static size_t hero_ring_octets(void)
{
	return HERO_SLOTS * HERO_VECTOR_OCTETS;
}

/* The buffers that hold frames which the card cannot read where they are. */
static int hero_tx_buffers_alloc(struct hero *hero)
{
	struct hero_tx *tx = &hero->tx;
	unsigned int k;

	tx->buffers = dma_pool_create("hero", &hero->pdev->dev, HERO_BUFFER, HERO_BUFFER,
				      HERO_PAGE);
	if (!tx->buffers)
		return -ENOMEM;
	for (k = 0; k < HERO_SLOTS; k++) {
		struct hero_tx_slot *slot = &tx->slots[k];

		slot->buffer = dma_pool_zalloc(tx->buffers, GFP_KERNEL, &slot->buffer_dma);
		if (!slot->buffer)
			return -ENOMEM;
	}
	return 0;
}

/* What was allocated before an error is for hero_rings_free(). */
int hero_rings_alloc(struct hero *hero)
{
	struct device *device = &hero->pdev->dev;
	unsigned int k;

	hero->completions = dma_alloc_coherent(device, HERO_CPL_OCTETS, &hero->completions_dma,
					       GFP_KERNEL);
	if (!hero->completions)
		return -ENOMEM;
	for (k = 0; k < ARRAY_SIZE(hero_ring_places); k++) {
		struct hero_ring *ring = hero_ring_of(hero, k);

		ring->hero = hero;
		ring->reg = hero_ring_places[k].reg;
		ring->level = hero_ring_places[k].level;
		ring->completions = hero->completions + k * HERO_CPL_RING;
		ring->vectors = dma_alloc_coherent(device, hero_ring_octets(), &ring->vectors_dma,
						   GFP_KERNEL);
		if (!ring->vectors)
			return -ENOMEM;
	}
	return hero_tx_buffers_alloc(hero);
}

void hero_rings_free(struct hero *hero)
{
	struct device *device = &hero->pdev->dev;
	unsigned int k;

	for (k = 0; k < HERO_SLOTS; k++) {
		struct hero_tx_slot *slot = &hero->tx.slots[k];

		if (slot->buffer)
			dma_pool_free(hero->tx.buffers, slot->buffer, slot->buffer_dma);
	}
	dma_pool_destroy(hero->tx.buffers);
	for (k = 0; k < ARRAY_SIZE(hero_ring_places); k++) {
		struct hero_ring *ring = hero_ring_of(hero, k);

		if (ring->vectors)
			dma_free_coherent(device, hero_ring_octets(), ring->vectors,
					  ring->vectors_dma);
	}
	if (hero->completions)
		dma_free_coherent(device, HERO_CPL_OCTETS, hero->completions,
				  hero->completions_dma);
}

/* An empty ring, after the card's reset. */
void hero_ring_init(struct hero_ring *ring)
{
	memset(ring->completions, 0, HERO_CPL_RING);
	ring->given = 0;
	ring->done = 0;
	ring->vector = 0;
	ring->room = 0;
	ring->starved = false;
}

/* Whether the next completion has come, and what it says. The caller counts it in `done`. */
bool hero_ring_next(struct hero_ring *ring, u64 *word)
{
	bool first_pass = !(ring->done / HERO_SLOTS & 1);

	if (ring->done == READ_ONCE(ring->given))
		return false;
	*word = le64_to_cpu(READ_ONCE(ring->completions[ring->done % HERO_SLOTS]));
	if (!!(*word & HERO_CPL_PHASE) != first_pass)
		return false;
	/* the frame was written before its completion */
	dma_rmb();
	return true;
}

/* Whether the card takes a vector. A read is slow, so it is asked only when all it said it takes
 * was given.
 */
bool hero_ring_has_room(struct hero_ring *ring)
{
	u32 levels;

	if (!ring->room) {
		levels = hero_read(ring->hero, HERO_LEVELS);
		if (!hero_is_gone(levels))
			ring->room = levels >> ring->level & 0xf;
	}
	return ring->room;
}

/* Writes descriptor `index` of the next vector. */
void hero_ring_describe(struct hero_ring *ring, unsigned int index, dma_addr_t dma, u32 len)
{
	__le64 *vector = ring->vectors + ring->vector % HERO_SLOTS * HERO_VECTOR;

	vector[index] = cpu_to_le64(lower_32_bits(dma) | FIELD_PREP(HERO_DESC_LENGTH, len));
}

/* Gives the card the vector of 1 to HERO_VECTOR descriptors, which takes it. */
void hero_ring_give(struct hero_ring *ring, unsigned int count)
{
	u32 address = ring->vectors_dma + ring->vector % HERO_SLOTS * HERO_VECTOR_OCTETS;

	ring->vector++;
	ring->room--;
	WRITE_ONCE(ring->given, ring->given + count);
	/* iowrite32() orders it after the descriptors */
	hero_write(ring->hero, ring->reg, address | count);
}

/* Whether the driver waits for descriptors that the card does not have: a vector that it could not
 * read is gone, without completions. It takes two looks between which nothing comes, because a poll
 * may be at it, or a vector on its way.
 */
bool hero_ring_lost_vector(struct hero_ring *ring, bool has_none)
{
	u32 done = READ_ONCE(ring->done);
	bool starved, lost;
	u64 word;

	starved = has_none && READ_ONCE(ring->given) != done && !hero_ring_next(ring, &word);
	lost = starved && ring->starved && ring->starved_done == done;
	ring->starved = starved;
	ring->starved_done = done;
	return lost;
}
