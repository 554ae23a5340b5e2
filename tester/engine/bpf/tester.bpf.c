// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Receives the tester's frames on one port, and analyses them as tester/engine/src/analyse.rs does,
 * except that it does not verify the UDP checksum.
 *
 * It counts only frames of the interface's first queue, so that one CPU at a time writes.
 */
#include "tester.h"
#include <linux/if_ether.h>

/* tester/engine/src/xdp/receiver.rs has the same values */
#define STREAMS 256
#define LENGTHS 1024
#define WINDOW_WORDS (1 << 17) /* shared by all streams */
#define NOTED_FLOWS (1 << 17) /* shared by all streams */
#define HOLES 256
#define SLOTS 2048
#define PART_BITS 6
#define STEPS 256

#define UDP 17
#define UDP_HEADER 8
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define ETH_P_8021Q_BE bpf_htons(0x8100)
#define ETH_P_8021AD_BE bpf_htons(0x88a8)

struct hole {
	__u64 first, end, stamp;
	__u64 received; /* before the frame that showed it */
};

struct stream {
	/* set by user space */
	__u32 here; /* whether this stream is expected on this port */
	__u32 v4;
	__u32 link; /* octets of the frame, with FCS, that are not of the IP packet */
	__u32 flows;
	__u32 window; /* its first word */
	__u32 mask; /* words of its window - 1 */
	__u32 noted; /* its first flow */
	__u32 is_noted;
	/* counted here */
	__u64 received, duplicated, reordered, corrupted, misrouted;
	__u64 extent_sum, extent_max; /* RFC 4737, 4.2, for reordered frames */
	__u64 latest, next, longest_gap, hole;
	__u64 after; /* the number after that of the frame received last */
	__u64 latency; /* the latency of that frame */
	__u64 shortest, longest; /* latencies of frames received, ns */
	struct hole holes[HOLES];
	__u64 latencies[SLOTS];
};

/* The fields of a frame. */
struct arrived {
	__u64 sequence, stamp;
	__u32 stream, check, v4, whole, length, checksum;
};

struct stream streams[STREAMS];
__u64 words[WINDOW_WORDS];
__u64 latest_of_flow[NOTED_FLOWS];
__u16 lengths[LENGTHS];
volatile __u32 stream_count, length_count;
volatile __u64 start;
__u64 foreign, unknown_damaged, other_queues;
/* Inter-packet delay variation of all streams, ns. */
__u64 variations[SLOTS], variation_count, least_variation, most_variation;

/* Streams, by length of the IP packet and UDP checksum. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} checksums SEC(".maps");

static __always_inline __u64 *word(struct stream *stream, __u64 n)
{
	return &words[(stream->window + (n / 64 & stream->mask)) & (WINDOW_WORDS - 1)];
}

static __always_inline bool has(struct stream *stream, __u64 n)
{
	return *word(stream, n) >> (n & 63) & 1;
}

struct range {
	struct stream *stream;
	__u64 first;
};

static long clear_word(__u64 index, struct range *range)
{
	*word(range->stream, (range->first + index) * 64) = 0;
	return 0;
}

static __always_inline void enter(struct stream *stream, __u64 n)
{
	__u64 begun = (stream->next + 63) / 64, last = n / 64, count;

	if (begun == last) {
		*word(stream, n) = 0;
	} else if (begun < last) {
		struct range range = { .stream = stream, .first = begun };

		count = last - begun + 1;
		if (count > stream->mask + 1)
			count = stream->mask + 1;
		bpf_loop(count, clear_word, &range, 0);
	}
	*word(stream, n) |= 1ULL << (n & 63);
	stream->next = n + 1;
	if (stream->is_noted)
		latest_of_flow[(stream->noted + n % stream->flows) & (NOTED_FLOWS - 1)] = n + 1;
}

/* Whether a later frame of the same flow has already come. */
static __always_inline bool overtaken(struct stream *stream, __u64 n)
{
	__u64 later = n;

	if (stream->flows == 1)
		return true;
	if (stream->is_noted)
		return n < latest_of_flow[(stream->noted + n % stream->flows) & (NOTED_FLOWS - 1)];
	for (int i = 0; i < STEPS; i++) {
		later += stream->flows;
		if (later >= stream->next)
			break;
		if (has(stream, later))
			return true;
	}
	return false;
}

/*
 * How many frames came since the first one that was sent later than n: the newest hole that begins at or
 * before n was shown by it. If that is forgotten, the count from the oldest hole that is known.
 */
static __always_inline __u64 extent_of(struct stream *stream, __u64 n)
{
	__u64 end = stream->hole, place = end > HOLES ? end - HOLES : 0;

	for (int step = HOLES / 2; step; step /= 2) {
		if (place + step < end && stream->holes[(place + step) & (HOLES - 1)].first <= n)
			place += step;
	}
	return stream->received - stream->holes[place & (HOLES - 1)].received;
}

/* Compares a frame of an expected stream with earlier ones; false if it does not count as received. */
static __always_inline bool note(struct stream *stream, __u64 n, __u64 stamp)
{
	__u64 reach = (__u64)stream->mask + 1, last = (stream->next + 63) / 64;
	struct hole *hole;

	if (n >= stream->next) {
		if (n > stream->next) {
			hole = &stream->holes[stream->hole++ & (HOLES - 1)];
			hole->first = stream->next;
			hole->end = n;
			hole->stamp = stamp;
			hole->received = stream->received;
		}
		enter(stream, n);
		return true;
	}
	if (last > reach && n < (last - reach) * 64) {
		stream->reordered++;
		return false;
	}
	if (has(stream, n)) {
		stream->duplicated++;
		return false;
	}
	*word(stream, n) |= 1ULL << (n & 63);
	if (overtaken(stream, n)) {
		__u64 extent = extent_of(stream, n);

		stream->reordered++;
		stream->extent_sum += extent;
		if (extent > stream->extent_max)
			stream->extent_max = extent;
	} else if (stream->is_noted)
		latest_of_flow[(stream->noted + n % stream->flows) & (NOTED_FLOWS - 1)] = n + 1;
	return true;
}

/* Histogram slot of a latency: 2^PART_BITS slots for each octave; below 2^PART_BITS ns, one for each ns. */
static __always_inline __u32 slot_of(__u64 latency)
{
	__u32 octave = 0;

	if (latency >> 36)
		return SLOTS - 1;
	for (int bits = 32; bits; bits /= 2) {
		if (latency >> (octave + bits))
			octave += bits;
	}
	if (octave < PART_BITS)
		return latency;
	return ((octave - PART_BITS) << PART_BITS) + (latency >> (octave - PART_BITS));
}

/* Counts the delay variation of two frames that were sent one after the other and came so. */
static __always_inline void vary(__u64 one, __u64 other)
{
	__u64 variation = one > other ? one - other : other - one;
	__u32 slot = slot_of(variation) & (SLOTS - 1);

	if (!variation_count++ || variation < least_variation)
		least_variation = variation;
	if (variation > most_variation)
		most_variation = variation;
	variations[slot]++;
}

static __always_inline void count(struct stream *stream, __u64 n, __u64 stamp, __u64 now)
{
	__u64 latency = now > stamp ? now - stamp : 0;

	if (n && stream->after == n)
		vary(latency, stream->latency);
	stream->after = n + 1;
	stream->latency = latency;

	if (!stream->received || latency < stream->shortest)
		stream->shortest = latency;
	if (latency > stream->longest)
		stream->longest = latency;
	stream->received++;
	stream->latencies[slot_of(latency) & (SLOTS - 1)]++;
	if (stamp > stream->latest) {
		if (stream->latest && stamp - stream->latest > stream->longest_gap)
			stream->longest_gap = stamp - stream->latest;
		stream->latest = stamp;
	}
}

static __always_inline int damaged(const struct arrived *arrived, __u64 now)
{
	__u32 key = arrived->length << 16 | arrived->checksum;
	__u32 *known = bpf_map_lookup_elem(&checksums, &key);
	bool sensible = ((arrived->stamp - start) & MASK_48) <= now - start;
	__u32 id = known ? *known : arrived->stream;

	if ((known || sensible) && id < stream_count && id < STREAMS) {
		streams[id].corrupted++;
	} else if (sensible) {
		unknown_damaged++;
	} else {
		foreign++;
		return XDP_PASS;
	}
	return XDP_DROP;
}

__noinline int judge(struct arrived *arrived)
{
	__u64 now = bpf_ktime_get_ns(), since;
	struct stream *stream;
	__u32 place = 0;

	if (!arrived)
		return XDP_PASS;
	if (check_of(arrived->stream, arrived->sequence, arrived->stamp) != arrived->check)
		return damaged(arrived, now);
	since = (arrived->stamp - start) & MASK_48;
	if (arrived->stream >= stream_count || arrived->stream >= STREAMS || since > MASK_48 / 2) {
		foreign++;
		return XDP_DROP;
	}
	stream = &streams[arrived->stream];
	if (length_count > 1)
		place = arrived->sequence % length_count;
	if (arrived->v4 != stream->v4 || !arrived->whole ||
	    arrived->length + stream->link != lengths[place & (LENGTHS - 1)])
		stream->corrupted++;
	else if (!stream->here)
		stream->misrouted++;
	else if (note(stream, arrived->sequence, start + since))
		count(stream, arrived->sequence, start + since, now);
	return XDP_DROP;
}

/* Reads the signature behind the UDP header, and the lengths in the headers. */
static __always_inline bool read_frame(void *ip, void *end, struct arrived *arrived, bool v4)
{
	void *udp = ip + (v4 ? IPV4_HEADER : IPV6_HEADER);
	struct signature *signature = udp + UDP_HEADER;
	__be16 *header = ip, *datagram = udp;
	__u32 length;
	__u64 sum = 0;

	if ((void *)(signature + 1) > end || *(__u8 *)(ip + (v4 ? 9 : 6)) != UDP)
		return false;
	arrived->sequence = read_48(signature->sequence);
	arrived->stamp = read_48(signature->stamp);
	arrived->stream = bpf_ntohs(signature->stream);
	arrived->check = bpf_ntohs(signature->check);
	arrived->checksum = bpf_ntohs(datagram[3]);
	length = bpf_ntohs(header[v4 ? 1 : 2]) + (v4 ? 0 : IPV6_HEADER);
	barrier_var(length); /* else clang masks no number that it knows to be small, and Linux 6.12 does not see that it is */
	if (v4) {
		for (int i = 0; i < IPV4_HEADER / 2; i++)
			sum += header[i];
	}
	arrived->v4 = v4;
	arrived->length = length;
	arrived->whole = ip + (length & 0xffff) <= end && (!v4 || fold(sum) == 0xffff) &&
			 bpf_ntohs(datagram[2]) + (v4 ? IPV4_HEADER : IPV6_HEADER) == length;
	return true;
}

static __always_inline bool find(struct xdp_md *ctx, struct arrived *arrived)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *ip = data + ETH_HLEN;

	for (int tags = 0; tags <= 2; tags++, ip += 4) {
		__be16 type;

		if (ip + 1 > end)
			return false;
		type = *(__be16 *)(ip - 2);
		if (type == bpf_htons(ETH_P_IP))
			return *(__u8 *)ip == 0x45 && read_frame(ip, end, arrived, true);
		if (type == bpf_htons(ETH_P_IPV6))
			return *(__u8 *)ip >> 4 == 6 && read_frame(ip, end, arrived, false);
		if (type != ETH_P_8021Q_BE && type != ETH_P_8021AD_BE)
			return false;
	}
	return false;
}

SEC("xdp")
int receive(struct xdp_md *ctx)
{
	struct arrived arrived = {};

	if (!find(ctx, &arrived)) {
		foreign++;
		return XDP_PASS;
	}
	if (ctx->rx_queue_index) {
		__sync_fetch_and_add(&other_queues, 1);
		return XDP_DROP;
	}
	return judge(&arrived);
}

char _license[] SEC("license") = "GPL";
