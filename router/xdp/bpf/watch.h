/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Shows packets to captures and traces (`bora capture`, `bora trace`). While there is one, every packet first
 * passes a program that Bora writes from the filters (router/capture/src/front.rs). A packet that no filter
 * takes goes on as ever. A packet that one takes goes through a second instance of the programs, loaded with
 * `shows`, which notes it before they decide, and shows it with what they decided.
 */
#ifndef BORA_WATCH_H
#define BORA_WATCH_H

#include "watch_types.h"

/* Whether this is the instance that shows packets; set before loading. */
const volatile bool shows;
/* Whether there is a capture or trace, and octets of each packet that each gets; written by Bora (mmap). */
volatile bool watched;
volatile __u32 watch_snap[WATCHERS];

/* What the filters have found of the packet at hand. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_look);
} looks SEC(".maps");

/*
 * Packets that each watcher may still see, which Bora writes again and again and the filters' program counts
 * down; and packets that each was to see and did not.
 */
volatile __s64 watch_allowed[WATCHERS];
__u64 watch_lost[WATCHERS];

/* What was found of a packet before the programs, for after them. */
struct note {
	__u32 wanted; /* a bit for each watcher that shall see it */
	__u32 port;
	__u32 length;
	__u64 to_engine;
	__u64 reasons[BORA_REASONS];
	__u8 head[WATCH_HEAD];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct note);
} notes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} seen SEC(".maps");

/* Where a tail call goes to: the instance that shows packets has programs of its own. */
static __always_inline __u32 row_of_program(__u32 row)
{
	return shows ? row + SHOWN : row;
}

static __always_inline struct watch_look *look_of_packet(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&looks, &zero);
}

static __always_inline struct note *note_of_packet(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&notes, &zero);
}

/* Whether the filters have yet to look at the packet. */
static __always_inline bool awaits_filters(void)
{
	struct watch_look *look;

	if (shows || !watched)
		return false;
	look = look_of_packet();
	if (!look)
		return false;
	if (!look->done)
		return true;
	look->done = false;
	return false;
}

/*
 * Octets of a packet to copy, at most `most`, and from 1 to 1 + `mask`: so that the verifier of Linux 6.1 knows it, too.
 * Of an empty packet it says too much, which the copy refuses.
 */
static __always_inline __u32 octets_within(__u32 length, __u32 most, __u32 mask)
{
	__u32 octets = length < most ? length : most;

	octets -= 1;
	barrier_var(octets);
	return (octets & mask) + 1;
}

static __always_inline void lose(__u32 watcher)
{
	__sync_fetch_and_add(&watch_lost[watcher & (WATCHERS - 1)], 1);
}

/* Notes a packet that a filter takes. Not static: the verifier looks at it once. */
__noinline int watch_before(struct xdp_md *ctx)
{
	struct bora_port *port = port_of_interface(ctx->ingress_ifindex);
	struct watch_look *look = look_of_packet();
	struct note *note = note_of_packet();
	struct bora_counters *count;

	if (!look || !note)
		return 0;
	look->done = false;
	note->wanted = 0;
	if (!port)
		return 0;
	count = counters_of(port->index);
	if (!count)
		return 0;
	note->port = port->index;
	note->length = frame_octets(ctx);
	if (bpf_xdp_load_bytes(ctx, 0, note->head, octets_within(note->length, WATCH_HEAD, WATCH_HEAD - 1)))
		return 0;
	note->to_engine = count->to_engine;
	__builtin_memcpy(note->reasons, count->reasons, sizeof(note->reasons));
	note->wanted = look->wanted;
	return 0;
}

/* What the programs counted the packet as. */
static __always_inline __u32 reason_of(const struct note *note, const struct bora_counters *count)
{
	for (int reason = 0; reason < BORA_REASONS; reason++)
		if (note->reasons[reason] != count->reasons[reason])
			return reason;
	return WATCH_REASONS;
}

/* Shows a noted packet, and what became of it. */
__noinline int watch_show(struct xdp_md *ctx, __u32 watcher, int verdict)
{
	struct note *note = note_of_packet();
	struct watch_seen *found;
	struct bora_counters *count;
	__u32 octets;

	if (!note)
		return 0;
	count = counters_of(note->port);
	if (!count || note->to_engine != count->to_engine)
		return 0; /* a worker says what becomes of it */
	found = bpf_ringbuf_reserve(&seen, sizeof(*found), 0);
	if (!found) {
		lose(watcher);
		return 0;
	}
	found->time = bpf_ktime_get_ns();
	found->watcher = watcher;
	found->port = note->port;
	found->length = note->length;
	found->length_now = frame_octets(ctx);
	found->verdict = verdict;
	found->reason = reason_of(note, count);
	found->output = count->output;
	__builtin_memcpy(found->head, note->head, sizeof(found->head));
	octets = octets_within(found->length_now, watch_snap[watcher & (WATCHERS - 1)], 2047);
	if (octets > WATCH_SNAP || bpf_xdp_load_bytes(ctx, 0, found->now, octets))
		found->length_now = 0;
	bpf_ringbuf_submit(found, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Shows the packet at hand to all watchers that want it; returns the verdict. */
__noinline int watch_after(struct xdp_md *ctx, int verdict)
{
	struct note *note = note_of_packet();

	if (!note)
		return verdict;
	for (__u32 watcher = 0; watcher < WATCHERS; watcher++)
		if (note->wanted >> watcher & 1)
			watch_show(ctx, watcher, verdict);
	note->wanted = 0;
	return verdict;
}

#endif
