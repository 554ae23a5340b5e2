/* Written by hero/registers.py from hero/registers.toml. */
#ifndef HERO_MAP_H
#define HERO_MAP_H

#define HERO_ID 0u
#define HERO_CMD 1u
#define HERO_STATUS 2u
#define HERO_MAC_LOW 3u
#define HERO_MAC_HIGH 4u
#define HERO_IRQ_UNMASKED 5u
#define HERO_IRQ_MASK 6u
#define HERO_IRQ_MASKED 7u
#define HERO_RXLO_DESC 8u
#define HERO_RXHI_DESC 9u
#define HERO_TX_LEN 10u
#define HERO_TX_DESC 11u
#define HERO_LEVELS 12u
#define HERO_CPL_BASE 13u
#define HERO_ROUTE 14u
#define HERO_CLASS 20u
#define HERO_NEXTHOP_MAC 44u
#define HERO_PEER_BASE 50u
#define HERO_REQ_IN 53u
#define HERO_RSP_IN 56u
#define HERO_FWD_CNT 59u
#define HERO_FWD_HOST 62u
#define HERO_DROP_CNT 63u
#define HERO_CMD_RESET 0x1u
#define HERO_CMD_RX 0x2u
#define HERO_CMD_TX 0x4u
#define HERO_CMD_FAST 0x8u
#define HERO_CMD_PROMISCUOUS 0x10u
#define HERO_CMD_COMMIT 0x20u
#define HERO_CMD_BANK_SHIFT 8u
#define HERO_STATUS_READY 0x1u
#define HERO_STATUS_LINK 0x2u
#define HERO_STATUS_FAST_OPEN 0x4u
#define HERO_STATUS_RECEIVING 0x8u
#define HERO_STATUS_BROKEN_SHIFT 4u
#define HERO_STATUS_ROUTES_SHIFT 8u
#define HERO_STATUS_VERSION_SHIFT 16u
#define HERO_IRQ_RXLO 0x1u
#define HERO_IRQ_RXHI 0x2u
#define HERO_IRQ_TX 0x4u
#define HERO_IRQ_RXLO_EMPTY 0x8u
#define HERO_IRQ_RXHI_EMPTY 0x10u
#define HERO_IRQ_FAULT 0x20u
#define HERO_IRQ_BUS 0x40u
#define HERO_IRQ_DROP 0x80u
#define HERO_ID_VALUE 0x4845524fu
#define HERO_VERSION 0x1u
#define HERO_RESET_CYCLES 4u

#endif
