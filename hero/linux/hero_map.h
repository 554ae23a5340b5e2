/* SPDX-License-Identifier: GPL-2.0 */
/* Written by hero/registers.py from hero/registers.toml. */
#ifndef HERO_MAP_H
#define HERO_MAP_H

#include <linux/bits.h>

/* Registers by number */
#define HERO_ID				0
#define HERO_CMD			1
#define HERO_STATUS			2
#define HERO_MAC_LOW			3
#define HERO_MAC_HIGH			4
#define HERO_IRQ_UNMASKED		5
#define HERO_IRQ_MASK			6
#define HERO_IRQ_MASKED			7
#define HERO_RXLO_DESC			8
#define HERO_RXHI_DESC			9
#define HERO_TX_LEN			10
#define HERO_TX_DESC			11
#define HERO_LEVELS			12
#define HERO_CPL_BASE			13
#define HERO_ROUTE			14
#define HERO_CLASS			20
#define HERO_NEXTHOP_MAC		44
#define HERO_PEER_BASE			50
#define HERO_REQ_IN			53
#define HERO_RSP_IN			56
#define HERO_FWD_CNT			59
#define HERO_FWD_HOST			62
#define HERO_DROP_CNT			63
#define HERO_ROUTE6_ADDRESS		14
#define HERO_ROUTE6_RULE		18
#define HERO_ROUTE6_MAC			44
#define HERO_REGISTERS			64

/* Their fields */
#define HERO_CMD_RESET			BIT(0)
#define HERO_CMD_RX			BIT(1)
#define HERO_CMD_TX			BIT(2)
#define HERO_CMD_FAST			BIT(3)
#define HERO_CMD_PROMISCUOUS		BIT(4)
#define HERO_CMD_COMMIT			BIT(5)
#define HERO_CMD_BANK			GENMASK(12, 8)
#define HERO_STATUS_READY		BIT(0)
#define HERO_STATUS_LINK		BIT(1)
#define HERO_STATUS_FAST_OPEN		BIT(2)
#define HERO_STATUS_RECEIVING		BIT(3)
#define HERO_STATUS_BROKEN		GENMASK(6, 4)
#define HERO_STATUS_ROUTES		GENMASK(15, 8)
#define HERO_STATUS_VERSION		GENMASK(31, 16)
#define HERO_LEVELS_ROUTES6		GENMASK(15, 12)
#define HERO_ROUTE6_RULE_LENGTH		GENMASK(7, 0)
#define HERO_ROUTE6_RULE_DEST		GENMASK(9, 8)
#define HERO_ID_VALUE			0x4845524f
#define HERO_VERSION			1
#define HERO_ROUTE6_BANK		24

/* Events, in IRQ_UNMASKED, IRQ_MASK and IRQ_MASKED */
#define HERO_IRQ_RXLO			BIT(0)
#define HERO_IRQ_RXHI			BIT(1)
#define HERO_IRQ_TX			BIT(2)
#define HERO_IRQ_RXLO_EMPTY		BIT(3)
#define HERO_IRQ_RXHI_EMPTY		BIT(4)
#define HERO_IRQ_FAULT			BIT(5)
#define HERO_IRQ_BUS			BIT(6)
#define HERO_IRQ_DROP			BIT(7)

/* Counters of DROP_CNT, by number */
enum hero_counter {
	HERO_COUNT_BAD_FCS,
	HERO_COUNT_RUNT,
	HERO_COUNT_GIANT,
	HERO_COUNT_BAD_CHECKSUM,
	HERO_COUNT_FOREIGN_MAC,
	HERO_COUNT_INPUT_FULL,
	HERO_COUNT_PEER_FULL,
	HERO_COUNT_HOST_FULL,
	HERO_COUNT_DISABLED,
	HERO_COUNT_NO_GRANT,
	HERO_COUNT_OVER_GRANT,
	HERO_COUNT_BURST_TIMEOUT,
	HERO_COUNT_MALFORMED,
	HERO_COUNT_TX_LENGTH,
	HERO_COUNT_BUS_ERROR,
	HERO_COUNT_VECTOR_REFUSED,
	HERO_COUNT_RECEIVED,
	HERO_COUNT_SENT,
	HERO_COUNT_GRANTS,
	HERO_COUNT_REPEATED,
	HERO_COUNT_BURSTS,
	HERO_COUNT_LOST_COMPLETIONS,
	HERO_COUNTERS
};

/* Their names, in the same order */
#define HERO_COUNTER_NAMES { \
	"bad_fcs", \
	"runt", \
	"giant", \
	"bad_checksum", \
	"foreign_mac", \
	"input_fifo_full", \
	"peer_voq_full", \
	"host_voq_full", \
	"receiver_disabled", \
	"burst_without_grant", \
	"burst_over_grant", \
	"burst_timed_out", \
	"burst_malformed", \
	"transmit_length", \
	"bus_error", \
	"vector_refused", \
	"received", \
	"sent", \
	"grants", \
	"requests_repeated", \
	"bursts", \
	"lost_completions", \
}

#endif /* HERO_MAP_H */
