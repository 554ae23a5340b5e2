/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What watch.h and Bora's control side share. */
#ifndef BORA_WATCH_TYPES_H
#define BORA_WATCH_TYPES_H

#include <linux/types.h>

#define WATCHERS 4 /* at a time */
#define WATCH_HEAD 128 /* octets kept of a packet as it came in; a power of two */
#define WATCH_SNAP 1536 /* octets kept of a packet as it is afterwards */
#define WATCH_INSTRUCTIONS 256 /* of a filter; a power of two */
#define WATCH_REASONS 64 /* at least BORA_REASONS */

/* An instruction of classic BPF: struct sock_filter. */
struct watch_instruction {
	__u16 code;
	__u8 jt;
	__u8 jf;
	__u32 k;
};

/* What somebody wants to see; crates/port/src/xdp/watch.rs writes it. */
struct watcher {
	__u32 length; /* of the filter */
	__u32 snap; /* octets of each packet */
	__u32 one_in; /* of so many packets */
	__u32 unused;
	struct watch_instruction filter[WATCH_INSTRUCTIONS];
};

/* A packet that a filter takes, and what the program did with it. */
struct watch_sighting {
	__u64 time; /* monotonic ns */
	__u32 watcher;
	__u32 port; /* number of the port it came in by */
	__u32 length; /* octets, as it came in */
	__u32 length_now; /* and as it is now */
	__u32 verdict; /* enum xdp_action */
	__u32 reason; /* enum bora_reason, or WATCH_REASONS */
	__u32 output; /* number of the port, if it was sent */
	__u32 to_engine;
	__u8 head[WATCH_HEAD];
	__u8 now[WATCH_SNAP];
};

_Static_assert(sizeof(struct watch_sighting) == 40 + WATCH_HEAD + WATCH_SNAP, "struct watch_sighting has gaps");
_Static_assert(BORA_REASONS <= WATCH_REASONS, "WATCH_REASONS is too small");

#endif
