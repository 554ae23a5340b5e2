// SPDX-License-Identifier: GPL-2.0
/* The card's registers: reset, address, peers, rules, counters. */

#include <linux/delay.h>
#include <linux/inetdevice.h>
#include <linux/iommu.h>

#include "hero.h"

/* A card is back after some cycles; an emulated one may be slow. */
#define HERO_RESET_WAIT (2 * HZ)

/* Whether this is a card that the driver knows, and how many routes it has. */
int hero_card_check(struct hero *hero)
{
	u32 id = hero_read(hero, HERO_ID);
	u32 status = hero_read(hero, HERO_STATUS);
	u32 version = FIELD_GET(HERO_STATUS_VERSION, status);

	if (id != HERO_ID_VALUE) {
		dev_err(&hero->pdev->dev, "no HERO card: its register ID reads %#010x\n", id);
		return -ENODEV;
	}
	if (version != HERO_VERSION) {
		dev_err(&hero->pdev->dev, "the card's interface has version %u, the driver's %u\n",
			version, HERO_VERSION);
		return -ENODEV;
	}
	hero->routes = min_t(unsigned int, FIELD_GET(HERO_STATUS_ROUTES, status), HERO_MAX_ROUTES);
	hero->routes6 = min_t(unsigned int, FIELD_GET(HERO_LEVELS_ROUTES6, hero_read(hero, HERO_LEVELS)),
			      HERO_MAX_ROUTES6);
	return 0;
}

void hero_card_gone(struct hero *hero)
{
	if (!test_and_set_bit(HERO_GONE, &hero->flags))
		dev_err(&hero->pdev->dev, "the card does not answer any more\n");
	netif_carrier_off(hero->dev);
}

/* Ends what the card does, and clears its registers. */
int hero_card_reset(struct hero *hero)
{
	unsigned long end = jiffies + HERO_RESET_WAIT;
	u32 status, cmd;
	bool late;

	hero->cmd = 0;
	hero_write(hero, HERO_CMD, HERO_CMD_RESET);
	do {
		late = time_after(jiffies, end);
		status = hero_read(hero, HERO_STATUS);
		cmd = hero_read(hero, HERO_CMD);
		if (hero_is_gone(status)) {
			hero_card_gone(hero);
			return -ENODEV;
		}
		if (status & HERO_STATUS_READY && !(cmd & HERO_CMD_RESET)) {
			clear_bit(HERO_GONE, &hero->flags);
			return 0;
		}
		usleep_range(20, 100);
	} while (!late);
	dev_err(&hero->pdev->dev, "the card does not come back from its reset\n");
	return -ETIMEDOUT;
}

void hero_card_set_mac(struct hero *hero)
{
	const u8 *mac = hero->dev->dev_addr;

	hero_write(hero, HERO_MAC_LOW, get_unaligned_le32(mac));
	hero_write(hero, HERO_MAC_HIGH, get_unaligned_le16(mac + 4) | hero->index << 16);
}

void hero_card_set_promiscuous(struct hero *hero, bool on)
{
	spin_lock_bh(&hero->cmd_lock);
	if (on != !!(hero->cmd & HERO_CMD_PROMISCUOUS)) {
		hero->cmd ^= HERO_CMD_PROMISCUOUS;
		if (test_bit(HERO_UP, &hero->flags))
			hero_write(hero, HERO_CMD, hero->cmd);
	}
	spin_unlock_bh(&hero->cmd_lock);
}

/* The match for high priority, for all destinations. Needs a commit. */
static void hero_card_write_classes(struct hero *hero)
{
	unsigned int reg = HERO_CLASS, d, k;

	for (d = 0; d < HERO_CARDS; d++) {
		for (k = 0; k < HERO_CLASS_WORDS; k++)
			hero_write(hero, reg++, hero->class.value[k]);
		for (k = 0; k < HERO_CLASS_WORDS; k++)
			hero_write(hero, reg++, hero->class.mask[k]);
	}
}

/* Says which packets have the high priority. While this is written, none has. */
void hero_card_set_class(struct hero *hero, const struct hero_class *class)
{
	spin_lock_bh(&hero->cmd_lock);
	if (memcmp(&hero->class, class, sizeof(*class))) {
		hero->class = *class;
		if (test_bit(HERO_UP, &hero->flags)) {
			hero_card_write_classes(hero);
			hero_write(hero, HERO_CMD, hero->cmd | HERO_CMD_COMMIT);
		}
	}
	spin_unlock_bh(&hero->cmd_lock);
}

/* Configures the card after its reset, and lets it receive and send. */
void hero_card_start(struct hero *hero)
{
	unsigned int d;

	hero_write(hero, HERO_CPL_BASE, hero->completions_dma);
	hero_card_set_mac(hero);
	for (d = 0; d < HERO_PEERS; d++)
		hero_write(hero, HERO_PEER_BASE + d, hero->peer_base[d]);
	spin_lock_bh(&hero->cmd_lock);
	hero_card_write_classes(hero);
	memset(hero->route, 0, sizeof(hero->route));
	memset(hero->route6, 0, sizeof(hero->route6));
	memset(hero->last, 0, sizeof(hero->last));
	memset(hero->last_routes, 0, sizeof(hero->last_routes));
	memset(hero->last_routes6, 0, sizeof(hero->last_routes6));
	hero->last_host = 0;
	hero->cmd = HERO_CMD_RX | HERO_CMD_TX;
	if (hero->fast_path)
		hero->cmd |= HERO_CMD_FAST;
	if (hero->dev->flags & IFF_PROMISC)
		hero->cmd |= HERO_CMD_PROMISCUOUS;
	hero_write(hero, HERO_CMD, hero->cmd | HERO_CMD_COMMIT);
	spin_unlock_bh(&hero->cmd_lock);
}

/* Whether the card still has what hero_card_start() told it. A reset clears that, and is over
 * before anybody looks.
 */
bool hero_card_is_set_up(const struct hero *hero)
{
	return hero_read(hero, HERO_CPL_BASE) == lower_32_bits(hero->completions_dma);
}

/* Adds what a counter of the card, which wraps, has more than the last time. Returns that: 0 if the
 * card was reset by somebody else before it was read, or is gone.
 */
static u32 hero_count(const struct hero *hero, u64 *sum, u32 *last, u32 now)
{
	u32 more = now - *last;

	if (!hero_card_is_set_up(hero))
		return 0;
	*sum += more;
	*last = now;
	return more;
}

/* Adds what a slot has forwarded since the last time. CMD has its bank. */
static void hero_count_slot(struct hero *hero, unsigned int slot)
{
	u32 more = hero_count(hero, &hero->slot_packets[slot], &hero->last_routes[slot],
			      hero_read(hero, HERO_FWD_CNT + slot % HERO_PEERS));

	hero->fast += more;
	hero->route[slot].packets += more;
}

static u32 hero_bank(struct hero *hero, unsigned int slot)
{
	return hero->cmd | FIELD_PREP(HERO_CMD_BANK, slot / HERO_PEERS);
}

/* Puts a route into a slot, which leads to peer `slot` modulo 3. The slot is off from the first
 * word to the commit, so a packet meets the old route, the host, or the new one.
 */
void hero_card_set_route(struct hero *hero, unsigned int slot, u32 address, u8 len, const u8 *mac)
{
	struct hero_route *route = &hero->route[slot];
	unsigned int d = slot % HERO_PEERS;

	spin_lock_bh(&hero->cmd_lock);
	if (test_bit(HERO_UP, &hero->flags)) {
		hero_write(hero, HERO_CMD, hero_bank(hero, slot));
		hero_write(hero, HERO_ROUTE + 2 * d, address);
		hero_write(hero, HERO_ROUTE + 2 * d + 1, be32_to_cpu(inet_make_mask(len)));
		hero_write(hero, HERO_NEXTHOP_MAC + 2 * d, get_unaligned_le32(mac));
		hero_write(hero, HERO_NEXTHOP_MAC + 2 * d + 1, get_unaligned_le16(mac + 4));
		hero_write(hero, HERO_CMD, hero_bank(hero, slot) | HERO_CMD_COMMIT);
		route->address = address;
		route->len = len;
		ether_addr_copy(route->mac, mac);
		route->packets = 0;
		route->rated = 0;
		route->on = true;
	}
	spin_unlock_bh(&hero->cmd_lock);
}

/* Takes a route off, at the first write. Any context but that of interrupts. */
void hero_card_clear_route(struct hero *hero, unsigned int slot)
{
	unsigned int d = slot % HERO_PEERS;

	spin_lock_bh(&hero->cmd_lock);
	if (hero->route[slot].on && test_bit(HERO_UP, &hero->flags)) {
		hero_write(hero, HERO_CMD, hero_bank(hero, slot));
		hero_write(hero, HERO_ROUTE + 2 * d, 0);
		hero_write(hero, HERO_ROUTE + 2 * d + 1, U32_MAX);
		hero_write(hero, HERO_CMD, hero_bank(hero, slot) | HERO_CMD_COMMIT);
		/* posted writes have arrived when a read comes back */
		hero_count_slot(hero, slot);
	}
	hero->route[slot].on = false;
	spin_unlock_bh(&hero->cmd_lock);
}

static u32 hero_bank6(struct hero *hero, unsigned int slot)
{
	return hero->cmd | FIELD_PREP(HERO_CMD_BANK, HERO_ROUTE6_BANK + slot);
}

/* Writes a route of IPv6, off from the first word to the commit. */
static void hero_card_write_route6(struct hero *hero, unsigned int slot,
				   const struct in6_addr *address, u32 rule, const u8 *mac)
{
	unsigned int k;

	hero_write(hero, HERO_CMD, hero_bank6(hero, slot));
	hero_write(hero, HERO_ROUTE6_RULE, rule);
	for (k = 0; k < 4; k++)
		hero_write(hero, HERO_ROUTE6_ADDRESS + k, be32_to_cpu(address->s6_addr32[k]));
	hero_write(hero, HERO_ROUTE6_MAC, get_unaligned_le32(mac));
	hero_write(hero, HERO_ROUTE6_MAC + 1, get_unaligned_le16(mac + 4));
	hero_write(hero, HERO_CMD, hero_bank6(hero, slot) | HERO_CMD_COMMIT);
}

/* As hero_card_set_route(), but any slot can lead to any peer `d`. */
void hero_card_set_route6(struct hero *hero, unsigned int slot, const struct in6_addr *address,
			  u8 len, unsigned int d, const u8 *mac)
{
	struct hero_route6 *route = &hero->route6[slot];

	spin_lock_bh(&hero->cmd_lock);
	if (test_bit(HERO_UP, &hero->flags)) {
		hero_card_write_route6(hero, slot, address,
				       FIELD_PREP(HERO_ROUTE6_RULE_LENGTH, len) |
				       FIELD_PREP(HERO_ROUTE6_RULE_DEST, d), mac);
		route->address = *address;
		route->len = len;
		route->peer = d;
		ether_addr_copy(route->mac, mac);
		route->on = true;
	}
	spin_unlock_bh(&hero->cmd_lock);
}

/* As hero_card_clear_route(): no packet to :: is routed. */
void hero_card_clear_route6(struct hero *hero, unsigned int slot)
{
	static const u8 nobody[ETH_ALEN];

	spin_lock_bh(&hero->cmd_lock);
	if (hero->route6[slot].on && test_bit(HERO_UP, &hero->flags)) {
		hero_card_write_route6(hero, slot, &in6addr_any,
				       FIELD_PREP(HERO_ROUTE6_RULE_LENGTH, 128), nobody);
		/* posted writes have arrived when a read comes back */
		hero_read(hero, HERO_STATUS);
	}
	hero->route6[slot].on = false;
	spin_unlock_bh(&hero->cmd_lock);
}

/* Adds what the card has forwarded by its routes. */
void hero_card_read_routes(struct hero *hero)
{
	unsigned int k, d;

	for (k = 0; k < hero->routes; k += HERO_PEERS) {
		spin_lock_bh(&hero->cmd_lock);
		hero_write(hero, HERO_CMD, hero_bank(hero, k));
		for (d = 0; d < HERO_PEERS && k + d < hero->routes; d++)
			hero_count_slot(hero, k + d);
		spin_unlock_bh(&hero->cmd_lock);
	}
	for (k = 0; k < hero->routes6; k++) {
		spin_lock_bh(&hero->cmd_lock);
		hero_write(hero, HERO_CMD, hero_bank6(hero, k));
		hero_count(hero, &hero->fast, &hero->last_routes6[k],
			   hero_read(hero, HERO_FWD_CNT));
		spin_unlock_bh(&hero->cmd_lock);
	}
}

/* Adds what the card has counted since the last time. */
void hero_card_read_counters(struct hero *hero)
{
	unsigned int k;

	if (!hero_card_is_set_up(hero))
		return;
	for (k = 0; k < HERO_COUNTERS; k++) {
		spin_lock_bh(&hero->cmd_lock);
		hero_write(hero, HERO_DROP_CNT, k);
		hero_count(hero, &hero->counters[k], &hero->last[k],
			   hero_read(hero, HERO_DROP_CNT));
		spin_unlock_bh(&hero->cmd_lock);
	}
	hero_card_read_routes(hero);
	spin_lock_bh(&hero->cmd_lock);
	hero_count(hero, &hero->to_host, &hero->last_host, hero_read(hero, HERO_FWD_HOST));
	spin_unlock_bh(&hero->cmd_lock);
}

/* A card writes to addresses of the bus, so nothing may translate them. */
static bool hero_is_translated(struct device *device)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(device);

	return domain && domain->type != IOMMU_DOMAIN_IDENTITY;
}

static bool hero_is_before(struct pci_dev *a, struct pci_dev *b)
{
	return a->bus->number != b->bus->number ? a->bus->number < b->bus->number :
						  a->devfn < b->devfn;
}

/* Where a card's aperture is, or 0 if no card can write there. */
static u32 hero_aperture(struct pci_dev *pdev)
{
	pci_bus_addr_t base;

	if (!pci_resource_len(pdev, HERO_BAR_APERTURE) ||
	    pci_resource_flags(pdev, HERO_BAR_APERTURE) & IORESOURCE_UNSET)
		return 0;
	base = pci_bus_address(pdev, HERO_BAR_APERTURE);
	return base + pci_resource_len(pdev, HERO_BAR_APERTURE) - 1 > U32_MAX ? 0 : base;
}

/* The cards of a domain in the order of their addresses; returns how many. */
static unsigned int hero_cards_of(int domain, struct pci_dev *cards[HERO_CARDS])
{
	struct pci_dev *pdev = NULL;
	unsigned int count = 0, k;

	while ((pdev = pci_get_device(HERO_PCI_VENDOR, HERO_PCI_DEVICE, pdev))) {
		if (pci_domain_nr(pdev->bus) != domain)
			continue;
		for (k = count; k > 0 && hero_is_before(pdev, cards[k - 1]); k--) {
			if (k < HERO_CARDS)
				cards[k] = cards[k - 1];
		}
		if (k < HERO_CARDS)
			cards[k] = pdev;
		if (count < HERO_CARDS)
			count++;
	}
	return count;
}

/* What a card has to know of the others of its bus. */
struct hero_peers {
	unsigned int index;
	struct pci_dev *peers[HERO_PEERS];
	u32 base[HERO_PEERS];
};

static void hero_look_for_peers(const struct hero *hero, struct hero_peers *found)
{
	struct pci_dev *cards[HERO_CARDS];
	unsigned int count, k;

	memset(found, 0, sizeof(*found));
	count = hero_cards_of(pci_domain_nr(hero->pdev->bus), cards);
	while (found->index < count && cards[found->index] != hero->pdev)
		found->index++;
	if (found->index == count) {
		/* a bus has numbers for four */
		found->index = 0;
		count = 0;
	}
	for (k = 0; k < count; k++) {
		unsigned int d = k < found->index ? k : k - 1;

		if (k == found->index)
			continue;
		found->peers[d] = cards[k];
		found->base[d] = hero_aperture(cards[k]);
	}
}

/* Whether cards have come or gone since hero_card_find_peers(), or are somewhere else. */
bool hero_card_has_other_peers(const struct hero *hero)
{
	struct hero_peers found;

	hero_look_for_peers(hero, &found);
	return hero->index != found.index ||
	       memcmp(hero->peers, found.peers, sizeof(found.peers)) ||
	       memcmp(hero->peer_base, found.base, sizeof(found.base));
}

/* Finds the card's number and its peers. */
void hero_card_find_peers(struct hero *hero)
{
	struct hero_peers found;

	hero_look_for_peers(hero, &found);
	hero->index = found.index;
	memcpy(hero->peers, found.peers, sizeof(found.peers));
	memcpy(hero->peer_base, found.base, sizeof(found.base));
	/* the others ask for permission to send here by writing there */
	hero->fast_path = hero_aperture(hero->pdev) &&
			  memchr_inv(found.base, 0, sizeof(found.base)) &&
			  !hero_is_translated(&hero->pdev->dev);
}
