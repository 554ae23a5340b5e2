// SPDX-License-Identifier: GPL-2.0
/* The card's registers: reset, address, peers, rules, counters. */

#include <linux/delay.h>
#include <linux/inetdevice.h>
#include <linux/iommu.h>

#include "hero.h"

/* A card is back after some cycles; an emulated one may be slow. */
#define HERO_RESET_WAIT (2 * HZ)
/* High priority: precedence 6 and 7 of the TOS field, which routing protocols use (RFC
 * 2474, 4.2.2).
 */
#define HERO_TOS_HIGH (0xc0 << 8)

/* Whether this is a card that the driver knows. */
int hero_card_check(struct hero *hero)
{
	u32 id = hero_read(hero, HERO_ID);
	u32 version = FIELD_GET(HERO_STATUS_VERSION, hero_read(hero, HERO_STATUS));

	if (id != HERO_ID_VALUE) {
		dev_err(&hero->pdev->dev, "no HERO card: its register ID reads %#010x\n", id);
		return -ENODEV;
	}
	if (version != HERO_VERSION) {
		dev_err(&hero->pdev->dev, "the card's interface has version %u, the driver's %u\n",
			version, HERO_VERSION);
		return -ENODEV;
	}
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

/* The match for high priority, for all destinations. */
static void hero_card_set_classes(struct hero *hero)
{
	unsigned int k;

	for (k = 0; k < HERO_CARDS * 2; k++) {
		unsigned int reg = HERO_CLASS + 3 * k;

		hero_write(hero, reg, 0);
		hero_write(hero, reg + 1, 0);
		hero_write(hero, reg + 2, HERO_TOS_HIGH);
	}
}

/* Configures the card after its reset, and lets it receive and send. */
void hero_card_start(struct hero *hero)
{
	u32 status = hero_read(hero, HERO_STATUS);
	unsigned int d;

	hero_write(hero, HERO_CPL_BASE, hero->completions_dma);
	hero_card_set_mac(hero);
	for (d = 0; d < HERO_PEERS; d++)
		hero_write(hero, HERO_PEER_BASE + d, hero->peer_base[d]);
	spin_lock_bh(&hero->cmd_lock);
	hero_card_set_classes(hero);
	hero->routes = min_t(unsigned int, FIELD_GET(HERO_STATUS_ROUTES, status), HERO_MAX_ROUTES);
	hero->routes6 = min_t(unsigned int, FIELD_GET(HERO_LEVELS_ROUTES6, hero_read(hero, HERO_LEVELS)),
			      HERO_MAX_ROUTES6);
	memset(hero->route, 0, sizeof(hero->route));
	memset(hero->route6_on, 0, sizeof(hero->route6_on));
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
		hero_read(hero, HERO_STATUS);
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
	spin_lock_bh(&hero->cmd_lock);
	if (test_bit(HERO_UP, &hero->flags)) {
		hero_card_write_route6(hero, slot, address,
				       FIELD_PREP(HERO_ROUTE6_RULE_LENGTH, len) |
				       FIELD_PREP(HERO_ROUTE6_RULE_DEST, d), mac);
		hero->route6_on[slot] = true;
	}
	spin_unlock_bh(&hero->cmd_lock);
}

/* As hero_card_clear_route(): no packet to :: is routed. */
void hero_card_clear_route6(struct hero *hero, unsigned int slot)
{
	static const u8 nobody[ETH_ALEN];

	spin_lock_bh(&hero->cmd_lock);
	if (hero->route6_on[slot] && test_bit(HERO_UP, &hero->flags)) {
		hero_card_write_route6(hero, slot, &in6addr_any,
				       FIELD_PREP(HERO_ROUTE6_RULE_LENGTH, 128), nobody);
		/* posted writes have arrived when a read comes back */
		hero_read(hero, HERO_STATUS);
	}
	hero->route6_on[slot] = false;
	spin_unlock_bh(&hero->cmd_lock);
}

static void hero_count(u64 *sum, u32 *last, u32 now)
{
	*sum += now - *last;
	*last = now;
}

/* Adds what the card has counted since the last time: counters wrap, and a reset clears them. */
void hero_card_read_counters(struct hero *hero)
{
	unsigned int k, d;

	if (hero_is_gone(hero_read(hero, HERO_STATUS)))
		return;
	for (k = 0; k < HERO_COUNTERS; k++) {
		spin_lock_bh(&hero->cmd_lock);
		hero_write(hero, HERO_DROP_CNT, k);
		hero_count(&hero->counters[k], &hero->last[k], hero_read(hero, HERO_DROP_CNT));
		spin_unlock_bh(&hero->cmd_lock);
	}
	for (k = 0; k < hero->routes; k += HERO_PEERS) {
		spin_lock_bh(&hero->cmd_lock);
		hero_write(hero, HERO_CMD, hero_bank(hero, k));
		for (d = 0; d < HERO_PEERS && k + d < hero->routes; d++)
			hero_count(&hero->fast, &hero->last_routes[k + d],
				   hero_read(hero, HERO_FWD_CNT + d));
		spin_unlock_bh(&hero->cmd_lock);
	}
	for (k = 0; k < hero->routes6; k++) {
		spin_lock_bh(&hero->cmd_lock);
		hero_write(hero, HERO_CMD, hero_bank6(hero, k));
		hero_count(&hero->fast, &hero->last_routes6[k], hero_read(hero, HERO_FWD_CNT));
		spin_unlock_bh(&hero->cmd_lock);
	}
	spin_lock_bh(&hero->cmd_lock);
	hero_count(&hero->to_host, &hero->last_host, hero_read(hero, HERO_FWD_HOST));
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

/* Finds the card's number and its peers. Returns whether they have changed. */
bool hero_card_find_peers(struct hero *hero)
{
	struct pci_dev *cards[HERO_CARDS], *peers[HERO_PEERS] = {};
	u32 base[HERO_PEERS] = {};
	unsigned int count, index, k;
	bool changed;

	count = hero_cards_of(pci_domain_nr(hero->pdev->bus), cards);
	for (index = 0; index < count && cards[index] != hero->pdev; index++)
		;
	if (index == count) {
		/* a bus has numbers for four */
		index = 0;
		count = 0;
	}
	for (k = 0; k < count; k++) {
		unsigned int d = k < index ? k : k - 1;

		if (k == index)
			continue;
		peers[d] = cards[k];
		base[d] = hero_aperture(cards[k]);
	}
	changed = hero->index != index || memcmp(peers, hero->peers, sizeof(peers)) ||
		  memcmp(base, hero->peer_base, sizeof(base));
	hero->index = index;
	memcpy(hero->peers, peers, sizeof(peers));
	memcpy(hero->peer_base, base, sizeof(base));
	/* the others ask for permission to send here by writing there */
	hero->fast_path = hero_aperture(hero->pdev) && memchr_inv(base, 0, sizeof(base)) &&
			  !hero_is_translated(&hero->pdev->dev);
	return changed;
}
