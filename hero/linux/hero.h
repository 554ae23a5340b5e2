/* SPDX-License-Identifier: GPL-2.0 */
/* Driver of HERO cards: NICs that forward by themselves what they have a route for. */
#ifndef HERO_H
#define HERO_H

#include <linux/bitfield.h>
#include <linux/bpf.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/in6.h>
#include <linux/io.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/u64_stats_sync.h>
#include <linux/workqueue.h>
#include <net/xdp.h>

#include "hero_compat.h"
#include "hero_map.h"

#define HERO_PCI_VENDOR		0x1234
#define HERO_PCI_DEVICE		0x4845
#define HERO_BAR_REGISTERS	0
#define HERO_BAR_APERTURE	2

/* Cards that reach each other, and for one of them the others. */
#define HERO_CARDS		4
#define HERO_PEERS		(HERO_CARDS - 1)
#define HERO_MAX_ROUTES		64
#define HERO_MAX_ROUTES6	8

/* Routes that the places of all cards of a bus are given to, and some more. */
#define HERO_CHOICES		512
/* Routes of which a card's driver knows what they carry, and packets of a second that tell it. */
#define HERO_RATES		256
#define HERO_SAMPLES		512
/* A packet per second, as rates are counted. */
#define HERO_RATE_ONE		16

/* Words of a completion ring, and the most descriptors outstanding. */
#define HERO_SLOTS		256
/* Most descriptors of a vector, and the octets of its place in memory. */
#define HERO_VECTOR		32
#define HERO_VECTOR_OCTETS	(HERO_VECTOR * sizeof(__le64))
/* Completion rings of a card: RXLO, RXHI and TX, 2 KiB each. */
#define HERO_CPL_OCTETS		8192
#define HERO_CPL_RING		(HERO_SLOTS * sizeof(__le64))

/* A card neither reads nor writes across a page of its own, which is 4 KiB. */
#define HERO_PAGE		4096
#define HERO_BUFFER		2048
#define HERO_HEADROOM		XDP_PACKET_HEADROOM
/* The card has no register for its MTU; this is what all cards can. */
#define HERO_MTU		1500
#define HERO_MAX_FRAME		(HERO_MTU + VLAN_ETH_HLEN)

#define HERO_DESC_LENGTH	GENMASK_ULL(47, 32)
#define HERO_CPL_ADDRESS	GENMASK_ULL(31, 0)
#define HERO_CPL_LENGTH		GENMASK_ULL(47, 32)
#define HERO_CPL_ERROR		BIT_ULL(49)
#define HERO_CPL_PHASE		BIT_ULL(50)

/* The events of each interrupt vector. */
enum hero_vector { HERO_VECTOR_RX, HERO_VECTOR_TX, HERO_VECTOR_OTHER, HERO_VECTORS };
#define HERO_EVENTS_RX		(HERO_IRQ_RXLO | HERO_IRQ_RXHI)
#define HERO_EVENTS_TX		HERO_IRQ_TX
#define HERO_EVENTS_OTHER	(HERO_IRQ_FAULT | HERO_IRQ_BUS | HERO_IRQ_DROP)

/* Linux sees one queue: one NAPI polls both, and an AF_XDP socket sends only where its queue is one
 * of those that send, of which there is one.
 */
enum hero_priority { HERO_LOW, HERO_HIGH, HERO_PRIORITIES };

enum hero_flag {
	HERO_UP,	/* the card works: rings and interrupts may be used */
	HERO_GONE,	/* it does not answer any more */
};

/* A ring of the card, which uses and completes descriptors in order: descriptor n has slot and
 * completion n modulo HERO_SLOTS, so the driver need not search.
 */
struct hero_ring {
	struct hero *hero;
	__le64 *completions;
	__le64 *vectors;
	dma_addr_t vectors_dma;
	u8 reg;			/* that takes vectors */
	u8 level;		/* bit of LEVELS with the vectors it takes */
	u8 room;		/* vectors that it certainly takes now */
	u32 given;		/* descriptors since the card's reset */
	u32 done;		/* completions taken */
	u32 vector;		/* vectors given */
	bool starved;		/* the last look saw that the card had none of them */
	u32 starved_done;	/* completions taken then */
};

struct hero_rx_stats {
	u64_stats_t packets;
	u64_stats_t bytes;
	u64_stats_t errors;
	u64_stats_t no_buffer;
	u64_stats_t xdp_drop;
	u64_stats_t xdp_tx;
	u64_stats_t xdp_redirect;
	struct u64_stats_sync sync;
};

struct hero_rx {
	struct hero_ring ring;
	enum hero_priority priority;
	struct page_pool *pool;
	struct xdp_rxq_info rxq;
	struct page *pages[HERO_SLOTS];
	struct hero_rx_stats stats;
};

/* What waits for its completion. */
struct hero_tx_slot {
	struct sk_buff *skb;	/* one of these, or neither */
	struct xdp_frame *frame;
	void *buffer;		/* for frames that the card cannot read where they are */
	dma_addr_t buffer_dma;
	dma_addr_t dma;
	u16 len;
	u16 mapped;		/* octets to unmap; 0: it is the buffer */
};

struct hero_tx_stats {
	u64_stats_t packets;
	u64_stats_t bytes;
	u64_stats_t errors;
	u64_stats_t copied;
	u64_stats_t xdp_sent;
	struct u64_stats_sync sync;
};

struct hero_tx {
	struct hero_ring ring;
	struct dma_pool *buffers;
	u32 filled;		/* slots; those from ring.given on wait for a vector */
	bool full;		/* the card took no vector when last asked */
	struct hero_tx_slot slots[HERO_SLOTS];
	struct hero_tx_stats stats;	/* what completions said */
	u64_stats_t dropped;	/* under the queue's lock, like copied */
};

#define HERO_CLASS_WORDS	3

/* Which packets have the high priority: words as the card has them. */
struct hero_class {
	u32 value[HERO_CLASS_WORDS];
	u32 mask[HERO_CLASS_WORDS];
};

/* A route of the fast path, in a slot of the card. */
struct hero_route {
	u32 address;
	u8 len;
	bool on;
	u8 mac[ETH_ALEN];
	u64 packets;		/* forwarded since it is there */
	u64 rated;		/* those among them that are in its rate */
};

/* A route of IPv6 on the fast path, to any peer. */
struct hero_route6 {
	struct in6_addr address;
	u8 len;
	u8 peer;
	bool on;
	u8 mac[ETH_ALEN];
};

/* Destinations of packets that have come to the host. */
struct hero_sampler {
	spinlock_t lock;	/* taken, dst */
	u32 every;		/* packets for one that is kept, on average; 0: none is */
	u32 skip;		/* packets before the next one; of NAPI */
	u32 taken;		/* those beyond HERO_SAMPLES are not kept */
	u32 dst[HERO_SAMPLES];
};

/* What a route carries. */
struct hero_rate {
	u32 dst;
	u8 len;
	bool held;		/* it has a place on the card */
	u32 packets;		/* in this period */
	u32 rate;		/* HERO_RATE_ONEths of a packet per second */
};

/* Who gets the places of a card. */
enum hero_policy { HERO_POLICY_PREFIX, HERO_POLICY_RATE };

struct hero {
	struct net_device *dev;
	struct pci_dev *pdev;
	void __iomem *registers;
	struct list_head list;	/* under hero_cards_lock */
	unsigned long flags;
	u32 msg_enable;

	struct napi_struct rx_napi;
	struct napi_struct tx_napi;
	struct bpf_prog __rcu *xdp;
	struct hero_rx rx[HERO_PRIORITIES];
	struct hero_tx tx;
	void *completions;
	dma_addr_t completions_dma;
	u16 rx_limit;		/* most descriptors outstanding */
	u16 tx_limit;

	spinlock_t irq_lock;	/* mask and events */
	u8 mask;
	u8 events;		/* those among HERO_EVENTS_OTHER that nobody has looked at */
	u64 interrupts;

	spinlock_t cmd_lock;	/* CMD, DROP_CNT, the rules, counters */
	u32 cmd;		/* without bank and commit */
	u32 last[HERO_COUNTERS];
	u32 last_routes[HERO_MAX_ROUTES];
	u32 last_routes6[HERO_MAX_ROUTES6];
	u32 last_host;
	u64 counters[HERO_COUNTERS];
	u64 fast;		/* frames sent to other cards by routes */
	u64 to_host;
	u64 resets;
	u64 stale;		/* when the counters are to be read, jiffies */

	/* Its number among the cards of the bus, and where the others are. */
	u8 index;
	bool fast_path;
	struct pci_dev *peers[HERO_PEERS];	/* to compare, not to use */
	u32 peer_base[HERO_PEERS];		/* 0: none */
	u8 routes;		/* slots of the card */
	struct hero_route route[HERO_MAX_ROUTES];
	u64 slot_packets[HERO_MAX_ROUTES];	/* forwarded by a slot, whatever was in it */
	u8 routes6;		/* slots for IPv6 */
	struct hero_route6 route6[HERO_MAX_ROUTES6];

	struct hero_class class;	/* under cmd_lock */
	struct list_head tc_rules;	/* under the RTNL, like `control` */
	bool control;		/* precedence 6 and 7 are in the class */
	struct devlink *devlink;
	struct dentry *debug;

	/* The choice of routes, under hero_fib_lock. */
	enum hero_policy policy;
	u32 min_rate;		/* with less, packets per second, no route takes another's place */
	DECLARE_BITMAP(picked, HERO_CHOICES);
	struct hero_sampler sampler;
	struct hero_rate rates[HERO_RATES];
	unsigned int rated;	/* entries of `rates` in use */
	unsigned long rates_since;

	struct delayed_work watch;
	struct work_struct reset;
};

extern struct list_head hero_cards;
extern struct mutex hero_cards_lock;
extern struct workqueue_struct *hero_queue;
extern const struct net_device_ops hero_netdev_ops;
extern const struct ethtool_ops hero_ethtool_ops;
extern const struct dev_pm_ops hero_pm_ops;
extern const struct pci_error_handlers hero_error_handlers;

static inline u32 hero_read(const struct hero *hero, unsigned int reg)
{
	return ioread32(hero->registers + 4 * reg);
}

static inline void hero_write(const struct hero *hero, unsigned int reg, u32 value)
{
	iowrite32(value, hero->registers + 4 * reg);
}

/* A card that was pulled out reads as ones, which neither STATUS, LEVELS nor IRQ_MASKED can be. */
static inline bool hero_is_gone(u32 value)
{
	return value == U32_MAX;
}

static inline bool hero_is_hero(const struct net_device *dev)
{
	return dev->netdev_ops == &hero_netdev_ops;
}

/* hero_life.c */
int hero_up(struct hero *hero);
void hero_down(struct hero *hero);
void hero_watch(struct work_struct *work);
void hero_reset_work(struct work_struct *work);
void hero_reset_later(struct hero *hero, const char *why);

/* hero_netdev.c */
void hero_netdev_init(struct hero *hero);

/* hero_card.c */
int hero_card_check(struct hero *hero);
int hero_card_reset(struct hero *hero);
void hero_card_start(struct hero *hero);
bool hero_card_is_set_up(const struct hero *hero);
void hero_card_set_mac(struct hero *hero);
void hero_card_set_promiscuous(struct hero *hero, bool on);
void hero_card_set_route(struct hero *hero, unsigned int slot, u32 address, u8 len, const u8 *mac);
void hero_card_clear_route(struct hero *hero, unsigned int slot);
void hero_card_set_route6(struct hero *hero, unsigned int slot, const struct in6_addr *address,
			  u8 len, unsigned int d, const u8 *mac);
void hero_card_clear_route6(struct hero *hero, unsigned int slot);
void hero_card_set_class(struct hero *hero, const struct hero_class *class);
void hero_card_read_counters(struct hero *hero);
void hero_card_read_routes(struct hero *hero);
bool hero_card_has_other_peers(const struct hero *hero);
void hero_card_find_peers(struct hero *hero);
void hero_card_gone(struct hero *hero);

/* hero_irq.c */
int hero_irq_request(struct hero *hero);
void hero_irq_free(struct hero *hero);
void hero_irq_unmask(struct hero *hero, u8 events);
void hero_irq_off(struct hero *hero);
u8 hero_irq_take_events(struct hero *hero);

/* hero_ring.c */
int hero_rings_alloc(struct hero *hero);
void hero_rings_free(struct hero *hero);
void hero_ring_init(struct hero_ring *ring);
bool hero_ring_next(struct hero_ring *ring, u64 *word);
bool hero_ring_has_room(struct hero_ring *ring);
void hero_ring_describe(struct hero_ring *ring, unsigned int index, dma_addr_t dma, u32 len);
void hero_ring_give(struct hero_ring *ring, unsigned int count);
bool hero_ring_lost_vector(struct hero_ring *ring, bool has_none);

/* hero_rx.c */
int hero_rx_open(struct hero *hero);
void hero_rx_close(struct hero *hero);
void hero_rx_start(struct hero *hero);
void hero_rx_stop(struct hero *hero);
bool hero_rx_lost_buffers(struct hero *hero);
int hero_rx_poll(struct napi_struct *napi, int budget);

/* hero_tx.c */
netdev_tx_t hero_tx_xmit(struct sk_buff *skb, struct net_device *dev);
int hero_tx_poll(struct napi_struct *napi, int budget);
void hero_tx_flush(struct hero *hero);
bool hero_tx_frame(struct hero *hero, struct xdp_frame *frame);
void hero_tx_stop(struct hero *hero);
bool hero_tx_lost_frames(struct hero *hero);

/* hero_xdp.c */
enum hero_xdp_flag { HERO_XDP_SENT = 1, HERO_XDP_REDIRECTED = 2 };

int hero_xdp(struct net_device *dev, struct netdev_bpf *bpf);
int hero_xdp_xmit(struct net_device *dev, int n, struct xdp_frame **frames, u32 flags);
bool hero_xdp_run(struct hero_rx *rx, struct bpf_prog *prog, struct xdp_buff *xdp,
		  unsigned int *flags);
void hero_xdp_finish(struct hero *hero, unsigned int flags);

/* hero_tc.c */
void hero_tc_init(struct hero *hero);
int hero_tc_check_control(struct hero *hero, bool on, struct netlink_ext_ack *extack);
int hero_tc_set_control(struct hero *hero, bool on);
int hero_setup_tc(struct net_device *dev, enum tc_setup_type type, void *data);
int hero_set_features(struct net_device *dev, netdev_features_t features);

/* hero_devlink.c */
int hero_devlink_open(struct hero *hero);
void hero_devlink_close(struct hero *hero);

/* hero_debug.c */
void hero_debug_init(void);
void hero_debug_exit(void);
void hero_debug_open(struct hero *hero);
void hero_debug_close(struct hero *hero);

/* hero_rate.c */
void hero_rate_sample(struct hero *hero, const struct sk_buff *skb);

/* hero_fib.c */
int hero_fib_init(void);
void hero_fib_exit(void);
void hero_fib_look(void);
void hero_fib_card_down(struct hero *hero);

#endif /* HERO_H */
