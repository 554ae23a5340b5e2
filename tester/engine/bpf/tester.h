/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The signature of the tester's frames; tester/engine/src/signature.rs describes it. */
#ifndef BORA_TESTER_H
#define BORA_TESTER_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define MASK_48 0xffffffffffffULL
#define FACTOR_FIRST 0xbf58476d1ce4e5b9ULL
#define FACTOR_SECOND 0x94d049bb133111ebULL
#define MAGIC 0xb07aULL

/* Words of 16 bits, big endian. */
struct signature {
	__be16 stream;
	__be16 balance;
	__be16 sequence[3];
	__be16 stamp[3];
	__be16 check;
};

static __always_inline __u64 read_48(const __be16 *words)
{
	return (__u64)bpf_ntohs(words[0]) << 32 | (__u64)bpf_ntohs(words[1]) << 16 |
	       bpf_ntohs(words[2]);
}

static __always_inline __u16 check_of(__u64 stream, __u64 sequence, __u64 stamp)
{
	__u64 first = stream << 48 | sequence, second = stamp | MAGIC << 48;

	return (first * FACTOR_FIRST ^ second * FACTOR_SECOND) >> 48;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (sum >> 16) + (sum & 0xffff);
}

#endif
