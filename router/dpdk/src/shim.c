/* DPDK for Rust, which cannot call its inline functions. Functions return 0 or a negative errno value.
 *
 * A queue has two mempools, each with mbufs of its own, which have no data room: an mbuf either has a frame
 * of Bora's memory, or is bare. Bare ones wait here; the others are in their mempool or with the device. The
 * device takes mbufs from `rx_pool` to receive into, and frees those that it has sent into `tx_pool`, from
 * where their frames go back. So the frames that DPDK has are known at any time. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Packets that a call moves at most. */
#define BURST 64
/* Mbufs beside those in a ring: what a device holds on the way. */
#define SPARE 512
/* What a packet is received behind: DPDK's own headroom is a part of Bora's. */
#define HEADROOM 256

struct bora_dpdk_memory {
	uint8_t *start;
	uint64_t length;
	uint32_t frame_size;
	/* physical address of each 4 KiB or 2 MiB, where the device does not know virtual ones; otherwise NULL */
	const uint64_t *iovas;
	uint64_t page;
};

struct bora_dpdk_packet {
	uint32_t offset;
	uint32_t length;
};

struct bora_dpdk_lost {
	uint32_t too_long;
	uint32_t malformed;
};

struct bora_dpdk_info {
	char driver[32];
	char bus[32];
	uint8_t mac[6];
	uint16_t max_queues;
	uint16_t min_mtu;
	uint16_t max_mtu;
};

struct bora_dpdk_stats {
	uint64_t received, sent, missed, rx_errors, no_mbuf, tx_errors;
};

struct mbufs {
	struct rte_mempool *pool;
	struct rte_mbuf **bare;
	uint32_t count;
};

struct bora_dpdk_queue {
	struct bora_dpdk_memory memory;
	uint16_t port;
	uint16_t number;
	bool cleans;
	struct mbufs rx, tx;
};

/* EAL */

static void (*log_line)(uint32_t level, const char *text, size_t length);

static ssize_t write_log(void *cookie, const char *text, size_t length)
{
	(void)cookie;
	log_line((uint32_t)rte_log_cur_msg_loglevel(), text, length);
	return (ssize_t)length;
}

int bora_dpdk_start(int count, char **arguments,
		    void (*line)(uint32_t level, const char *text, size_t length))
{
	cookie_io_functions_t functions = {.write = write_log};
	FILE *stream = fopencookie(NULL, "w", functions);
	if (stream == NULL)
		return -ENOMEM;
	setvbuf(stream, NULL, _IOLBF, 1024);
	log_line = line;
	rte_openlog_stream(stream);
	return rte_eal_init(count, arguments) < 0 ? -rte_errno : 0;
}

const char *bora_dpdk_version(void)
{
	return rte_version();
}

/* Devices */

static bool find(const char *device, uint16_t *port)
{
	struct rte_dev_iterator iterator;
	uint16_t found;
	RTE_ETH_FOREACH_MATCHING_DEV (found, device, &iterator) {
		rte_eth_iterator_cleanup(&iterator);
		*port = found;
		return true;
	}
	return false;
}

int bora_dpdk_probe(const char *device, uint16_t *port)
{
	int result = find(device, port) ? 0 : rte_dev_probe(device);
	if (result < 0)
		return result;
	return find(device, port) ? 0 : -ENODEV;
}

int bora_dpdk_info(uint16_t port, struct bora_dpdk_info *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int result = rte_eth_dev_info_get(port, &info);
	if (result < 0)
		return result;
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	snprintf(out->bus, sizeof(out->bus), "%s", rte_bus_name(rte_dev_bus(info.device)));
	out->max_queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	return 0;
}

/* Spreads flows over the queues by all that the device knows of IP, TCP and UDP. */
int bora_dpdk_configure(uint16_t port, uint16_t queues, uint16_t mtu, uint16_t *rx_slots,
			uint16_t *tx_slots)
{
	struct rte_eth_conf conf = {.rxmode = {.mtu = mtu}};
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(port, &info);
	if (result < 0)
		return result;
	uint64_t hash = info.flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
	if (queues > 1 && hash != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = hash;
	}
	/* all that a queue sends is of one pool, and nobody else has it */
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	result = rte_eth_dev_configure(port, queues, queues, &conf);
	if (result < 0)
		return result;
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, rx_slots, tx_slots);
}

/* An unfiltered device takes all stations' packets: it is a link to one peer, or its address is not ours. */
int bora_dpdk_enable(uint16_t port, int unfiltered)
{
	int result = rte_eth_dev_start(port);
	if (result < 0)
		return result;
	/* best effort: many virtual devices filter nothing */
	if (unfiltered || rte_eth_allmulticast_enable(port) < 0)
		rte_eth_promiscuous_enable(port);
	return 0;
}

int bora_dpdk_set_mac(uint16_t port, const uint8_t mac[6])
{
	struct rte_ether_addr address;
	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

/* Mbit/s, 0 if it is not known; a negative value without a link. */
int64_t bora_dpdk_link(uint16_t port)
{
	struct rte_eth_link link;
	if (rte_eth_link_get_nowait(port, &link) < 0 || link.link_status != RTE_ETH_LINK_UP)
		return -1;
	return link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
}

int bora_dpdk_stats(uint16_t port, struct bora_dpdk_stats *out)
{
	struct rte_eth_stats stats;
	int result = rte_eth_stats_get(port, &stats);
	if (result < 0)
		return result;
	out->received = stats.ipackets;
	out->sent = stats.opackets;
	out->missed = stats.imissed;
	out->rx_errors = stats.ierrors;
	out->no_mbuf = stats.rx_nombuf;
	out->tx_errors = stats.oerrors;
	return 0;
}

/* One that was not started refuses, which is all right. */
void bora_dpdk_stop(uint16_t port)
{
	rte_eth_dev_stop(port);
}

/* Forgets a stopped device; after this it has no mbuf any more. */
int bora_dpdk_close(uint16_t port)
{
	struct rte_eth_dev_info info;
	uint16_t other;
	int result = rte_eth_dev_info_get(port, &info);
	if (result == 0)
		result = rte_eth_dev_close(port);
	if (result < 0)
		return result;
	/* another port of the same card would be gone with it */
	RTE_ETH_FOREACH_DEV_OF (other, info.device)
		return 0;
	rte_dev_remove(info.device);
	return 0;
}

/* Whether devices know physical addresses only. */
int bora_dpdk_is_physical(void)
{
	return rte_eal_iova_mode() == RTE_IOVA_PA;
}

uint64_t bora_dpdk_iova(const void *address)
{
	return rte_mem_virt2iova(address);
}

static int for_each_range(uint16_t port, const struct bora_dpdk_memory *memory,
			  int (*call)(struct rte_device *, void *, uint64_t, size_t))
{
	struct rte_eth_dev_info info;
	uint64_t step = memory->iovas == NULL ? memory->length : memory->page;
	int result = rte_eth_dev_info_get(port, &info);
	for (uint64_t at = 0; result == 0 && at < memory->length; at += step) {
		uint8_t *start = memory->start + at;
		uint64_t iova = memory->iovas == NULL ? (uintptr_t)start : memory->iovas[at / step];
		/* a bus that maps nothing needs nothing mapped */
		if (call(info.device, start, iova, step) < 0 && rte_errno != ENOTSUP)
			result = -rte_errno;
	}
	return result;
}

/* Lets a card reach the memory. */
int bora_dpdk_map(uint16_t port, const struct bora_dpdk_memory *memory)
{
	uint64_t pages = memory->length / memory->page;
	if (rte_extmem_register(memory->start, memory->length, (rte_iova_t *)(uintptr_t)memory->iovas,
				(unsigned int)pages, memory->page) < 0 &&
	    rte_errno != EEXIST) /* another port's, too */
		return -rte_errno;
	return for_each_range(port, memory, rte_dev_dma_map);
}

void bora_dpdk_unmap(uint16_t port, const struct bora_dpdk_memory *memory)
{
	for_each_range(port, memory, rte_dev_dma_unmap);
}

/* Once no device has it. */
void bora_dpdk_forget(const struct bora_dpdk_memory *memory)
{
	rte_extmem_unregister(memory->start, memory->length);
}

/* Queues */

static int make_mbufs(struct mbufs *mbufs, char kind, const struct bora_dpdk_queue *queue, uint32_t count)
{
	struct rte_pktmbuf_pool_private private = {
		.mbuf_data_room_size =
			(uint16_t)(queue->memory.frame_size - HEADROOM + RTE_PKTMBUF_HEADROOM),
	};
	struct rte_mbuf *mbuf;
	char name[RTE_MEMPOOL_NAMESIZE];
	snprintf(name, sizeof(name), "bora-%u-%u-%cx", queue->port, queue->number, kind);
	mbufs->bare = calloc(count, sizeof(*mbufs->bare));
	if (mbufs->bare == NULL)
		return -ENOMEM;
	mbufs->pool = rte_mempool_create_empty(name, count, sizeof(struct rte_mbuf), 0, sizeof(private),
					       SOCKET_ID_ANY, 0);
	if (mbufs->pool == NULL)
		return -rte_errno;
	/* last in, first out; any thread may free */
	int result = rte_mempool_set_ops_byname(mbufs->pool, "stack", NULL);
	if (result < 0)
		return result;
	rte_pktmbuf_pool_init(mbufs->pool, &private);
	result = rte_mempool_populate_default(mbufs->pool);
	if (result < 0)
		return result;
	while (mbufs->count < count && rte_mempool_get(mbufs->pool, (void **)&mbuf) == 0) {
		memset(mbuf, 0, sizeof(*mbuf));
		mbuf->pool = mbufs->pool;
		mbuf->port = RTE_MBUF_PORT_INVALID;
		mbufs->bare[mbufs->count++] = mbuf;
	}
	return mbufs->count == count ? 0 : -ENOMEM;
}

static void free_mbufs(struct mbufs *mbufs)
{
	rte_mempool_free(mbufs->pool);
	free(mbufs->bare);
}

void bora_dpdk_queue_free(struct bora_dpdk_queue *queue)
{
	free_mbufs(&queue->rx);
	free_mbufs(&queue->tx);
	free(queue);
}

struct bora_dpdk_queue *bora_dpdk_queue_new(uint16_t port, uint16_t number, uint16_t rx_slots,
					    uint16_t tx_slots, const struct bora_dpdk_memory *memory,
					    int *error)
{
	struct bora_dpdk_queue *queue = calloc(1, sizeof(*queue));
	if (queue == NULL) {
		*error = -ENOMEM;
		return NULL;
	}
	queue->memory = *memory;
	queue->port = port;
	queue->number = number;
	queue->cleans = true;
	*error = make_mbufs(&queue->rx, 'r', queue, rx_slots + SPARE);
	if (*error == 0)
		*error = make_mbufs(&queue->tx, 't', queue, tx_slots + SPARE);
	if (*error == 0)
		return queue;
	bora_dpdk_queue_free(queue);
	return NULL;
}

/* The queue needs frames before: some drivers fill their ring here. */
int bora_dpdk_queue_setup(struct bora_dpdk_queue *queue, uint16_t rx_slots, uint16_t tx_slots)
{
	int result = rte_eth_rx_queue_setup(queue->port, queue->number, rx_slots, SOCKET_ID_ANY, NULL,
					    queue->rx.pool);
	if (result < 0)
		return result;
	return rte_eth_tx_queue_setup(queue->port, queue->number, tx_slots, SOCKET_ID_ANY, NULL);
}

/* Gives an mbuf the octets from `offset` of the memory to the end of their frame. */
static inline void attach(const struct bora_dpdk_queue *queue, struct rte_mbuf *mbuf, uint32_t offset)
{
	const struct bora_dpdk_memory *memory = &queue->memory;
	uint8_t *start = memory->start + offset;
	mbuf->buf_addr = start;
	mbuf->buf_len = (uint16_t)(memory->frame_size - (offset & (memory->frame_size - 1)));
	if (memory->iovas == NULL)
		rte_mbuf_iova_set(mbuf, (uintptr_t)start);
	else
		rte_mbuf_iova_set(mbuf, memory->iovas[offset / memory->page] + offset % memory->page);
	rte_mbuf_refcnt_set(mbuf, 1);
	mbuf->next = NULL;
	mbuf->nb_segs = 1;
	mbuf->ol_flags = 0;
}

/* Mbufs without a frame to receive into. */
uint32_t bora_dpdk_missing(const struct bora_dpdk_queue *queue)
{
	return queue->rx.count;
}

/* Takes frames to receive into; at most BURST, and no more than are missing. */
void bora_dpdk_refill(struct bora_dpdk_queue *queue, const uint32_t *frames, uint32_t count)
{
	struct mbufs *rx = &queue->rx;
	struct rte_mbuf **filled = &rx->bare[rx->count - count];
	for (uint32_t i = 0; i < count; i++)
		attach(queue, filled[i],
		       frames[i] * queue->memory.frame_size + HEADROOM - RTE_PKTMBUF_HEADROOM);
	rx->count -= count;
	rte_mempool_put_bulk(rx->pool, (void **)filled, count);
}

/* Receives up to BURST packets, and adds what is lost of these. */
uint32_t bora_dpdk_receive(struct bora_dpdk_queue *queue, struct bora_dpdk_packet *out,
			   struct bora_dpdk_lost *lost)
{
	struct rte_mbuf *mbufs[BURST];
	struct mbufs *rx = &queue->rx;
	uint32_t count = 0;
	uint16_t received = rte_eth_rx_burst(queue->port, queue->number, mbufs, BURST);
	for (uint16_t i = 0; i < received; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		if (likely(mbuf->nb_segs == 1 && mbuf->data_len > 0 && mbuf->pool == rx->pool)) {
			out[count].offset =
				(uint32_t)(rte_pktmbuf_mtod(mbuf, uint8_t *) - queue->memory.start);
			out[count++].length = mbuf->data_len;
			rx->bare[rx->count++] = mbuf;
			continue;
		}
		lost->too_long += mbuf->nb_segs > 1;
		lost->malformed += mbuf->nb_segs <= 1;
		rte_pktmbuf_free(mbuf);
	}
	return count;
}

/* Hands packets to the device, at most BURST; returns how many it took. */
uint32_t bora_dpdk_transmit(struct bora_dpdk_queue *queue, const struct bora_dpdk_packet *packets,
			    uint32_t count)
{
	struct rte_mbuf *mbufs[BURST];
	struct mbufs *tx = &queue->tx;
	count = RTE_MIN(count, tx->count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t inside = packets[i].offset & (queue->memory.frame_size - 1);
		struct rte_mbuf *mbuf = mbufs[i] = tx->bare[tx->count - 1 - i];
		attach(queue, mbuf, packets[i].offset - inside);
		mbuf->data_off = (uint16_t)inside;
		mbuf->data_len = (uint16_t)packets[i].length;
		mbuf->pkt_len = packets[i].length;
	}
	count = rte_eth_tx_burst(queue->port, queue->number, mbufs, (uint16_t)count);
	tx->count -= count; /* the first were the last of the bare ones */
	return count;
}

/* Asks the device for what it has sent; many look only when their ring is nearly full. */
void bora_dpdk_clean(struct bora_dpdk_queue *queue)
{
	if (queue->cleans)
		queue->cleans = rte_eth_tx_done_cleanup(queue->port, queue->number, 0) >= 0;
}

/* Frames that were sent, at most BURST. */
uint32_t bora_dpdk_reclaim(struct bora_dpdk_queue *queue, uint32_t *frames)
{
	struct mbufs *tx = &queue->tx;
	struct rte_mbuf **sent = &tx->bare[tx->count];
	uint32_t count = RTE_MIN(rte_mempool_avail_count(tx->pool), (unsigned int)BURST);
	if (count == 0 || rte_mempool_get_bulk(tx->pool, (void **)sent, count) < 0)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = (uint64_t)((uint8_t *)sent[i]->buf_addr - queue->memory.start);
		frames[i] = (uint32_t)(offset / queue->memory.frame_size);
	}
	tx->count += count;
	return count;
}
