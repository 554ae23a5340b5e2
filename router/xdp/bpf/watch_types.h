/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What watch.h and Bora's control side share. */
#ifndef BORA_WATCH_TYPES_H
#define BORA_WATCH_TYPES_H

#include <linux/types.h>

#define WATCHERS 4 /* at a time; a power of two */
#define WATCH_HEAD 128 /* octets kept of a packet as it came in; a power of two */
#define WATCH_SNAP 1536 /* octets kept of a packet as it is afterwards */
#define WATCH_REASONS 64 /* at least BORA_REASONS */

/* Findings of the filters; router/capture/src/front.rs writes them. */
struct watch_look {
	__u32 done; /* whether they have looked */
	__u32 wanted; /* a bit for each watcher whose filter takes the packet */
	__u32 left[WATCHERS]; /* packets to leave out before the next one that each watcher samples */
};

/* A packet that a filter takes, and what the program did with it. */
struct watch_seen {
	__u64 time; /* monotonic ns */
	__u32 watcher;
	__u32 port; /* number of the port it came in by */
	__u32 length; /* octets, as it came in */
	__u32 length_now; /* and as it is now */
	__u32 verdict; /* enum xdp_action */
	__u32 reason; /* enum bora_reason, or WATCH_REASONS */
	__u32 output; /* number of the port, if it was sent */
	__u32 unused;
	__u8 head[WATCH_HEAD];
	__u8 now[WATCH_SNAP];
};

_Static_assert(sizeof(struct watch_seen) == 40 + WATCH_HEAD + WATCH_SNAP, "struct watch_seen has gaps");
_Static_assert(BORA_REASONS <= WATCH_REASONS, "WATCH_REASONS is too small");

#endif
