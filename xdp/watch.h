/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * For `bora capture` and `bora trace`: looks at packets before and after the program has decided. While nobody
 * watches it costs two tests of a variable.
 */
#ifndef BORA_WATCH_H
#define BORA_WATCH_H

#include "watch_types.h"

/* Whether this kernel's verifier takes what follows; set before loading. */
const volatile bool watch_possible;
/* Who watches: a bit each; written by Bora (mmap). */
volatile __u32 watching;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WATCHERS);
	__type(key, __u32);
	__type(value, struct watcher);
} watchers SEC(".maps");

/* How many more packets each may see now; Bora writes it again and again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WATCHERS);
	__type(key, __u32);
	__type(value, __s64);
} watch_allowed SEC(".maps");

/* Packets that each was to see and did not. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WATCHERS);
	__type(key, __u32);
	__type(value, __u64);
} watch_lost SEC(".maps");

/* What was found of a packet before the program, for after it. */
struct note {
	__u32 wanted;
	__u32 port;
	__u32 length;
	__u64 to_engine;
	__u64 reasons[BORA_REASONS];
	__u8 head[WATCH_HEAD + 4]; /* the last octets end a word that begins at any of them */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WATCHERS);
	__type(key, __u32);
	__type(value, struct note);
} notes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} seen SEC(".maps");

/* crates/watch/src/filter.rs is the same machine, and checks programs. */
struct machine {
	struct note *note;
	struct watcher *watcher;
	__u32 a;
	__u32 x;
	__u32 place;
	__u32 result;
	__u32 memory[16];
};

enum { END = 1, GO_ON = 0 };

static __always_inline bool octets_at(struct machine *m, __u64 offset, __u32 count, __u32 *value)
{
	const __u8 *octets;

	if (offset + count > m->note->length || offset + count > WATCH_HEAD)
		return false;
	octets = m->note->head + (offset & (WATCH_HEAD - 1));
	if (count == 4)
		*value = bpf_ntohl(*(const __be32 *)octets);
	else if (count == 2)
		*value = bpf_ntohs(*(const __be16 *)octets);
	else
		*value = *octets;
	return true;
}

static __always_inline bool load(struct machine *m, __u16 code, __u32 k, __u32 *value)
{
	__u32 size = (code & 0x18) == BPF_W ? 4 : (code & 0x18) == BPF_H ? 2 : 1;

	switch (code & 0xe0) {
	case BPF_IMM:
		*value = k;
		return true;
	case BPF_ABS:
		return octets_at(m, k, size, value);
	case BPF_IND:
		return octets_at(m, (__u64)m->x + k, size, value);
	case BPF_MEM:
		*value = m->memory[k & 15];
		return true;
	case 0x80: /* BPF_LEN */
		*value = m->note->length;
		return true;
	default: /* BPF_MSH */
		if (!octets_at(m, k, 1, value))
			return false;
		*value = (*value & 0xf) * 4;
		return true;
	}
}

static __always_inline bool calculate(struct machine *m, __u16 code, __u32 operand)
{
	switch (code & 0xf0) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		if (operand)
			m->a /= operand;
		return operand;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_LSH:
		m->a = operand < 32 ? m->a << operand : 0;
		return true;
	case BPF_RSH:
		m->a = operand < 32 ? m->a >> operand : 0;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	case BPF_MOD:
		if (operand)
			m->a %= operand;
		return operand;
	default:
		m->a ^= operand;
		return true;
	}
}

static __always_inline __u32 jump(struct machine *m, const struct watch_instruction *one, __u32 operand)
{
	bool holds;

	switch (one->code & 0xf0) {
	case BPF_JA:
		return one->k;
	case BPF_JEQ:
		holds = m->a == operand;
		break;
	case BPF_JGT:
		holds = m->a > operand;
		break;
	case BPF_JGE:
		holds = m->a >= operand;
		break;
	default:
		holds = m->a & operand;
	}
	return holds ? one->jt : one->jf;
}

/* One instruction; END when the filter has ended. */
static long step(__u32 number, struct machine *m)
{
	const struct watch_instruction *one = &m->watcher->filter[m->place & (WATCH_INSTRUCTIONS - 1)];
	__u16 code = one->code;
	__u32 k = one->k, operand = code & BPF_X ? m->x : k, value = 0;

	m->place++;
	switch (BPF_CLASS(code)) {
	case BPF_LD:
	case BPF_LDX:
		if (!load(m, code, k, &value))
			return END;
		if (code & 1)
			m->x = value;
		else
			m->a = value;
		return GO_ON;
	case BPF_ST:
		m->memory[k & 15] = m->a;
		return GO_ON;
	case BPF_STX:
		m->memory[k & 15] = m->x;
		return GO_ON;
	case BPF_ALU:
		return calculate(m, code, operand) ? GO_ON : END;
	case BPF_JMP:
		m->place += jump(m, one, operand);
		return GO_ON;
	case 6: /* BPF_RET */
		m->result = code & 0x10 ? m->a : k;
		return END;
	default: /* BPF_MISC: TXA, TAX */
		if (code & 0x80)
			m->a = m->x;
		else
			m->x = m->a;
		return GO_ON;
	}
}

static __always_inline struct note *note_of(__u32 watcher)
{
	return bpf_map_lookup_elem(&notes, &watcher);
}

/* Whether a watcher's filter takes the packet that is noted. Not static: the verifier looks at it once. */
__noinline int watch_filter(__u32 number)
{
	struct watcher *watcher = bpf_map_lookup_elem(&watchers, &number);
	struct machine m = { .note = note_of(number), .watcher = watcher };

	if (!m.note || !watcher)
		return 0;
	if (watcher->length == 1) /* the filter that takes everything */
		return watcher->filter[0].k != 0;
	bpf_loop(WATCH_INSTRUCTIONS, step, &m, 0);
	return m.result != 0;
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
	__u64 *lost = bpf_map_lookup_elem(&watch_lost, &watcher);

	if (lost)
		__sync_fetch_and_add(lost, 1);
}

static __always_inline bool is_allowed(__u32 watcher)
{
	__s64 *allowed = bpf_map_lookup_elem(&watch_allowed, &watcher);

	return allowed && *(volatile __s64 *)allowed > 0 && __sync_fetch_and_add(allowed, -1) > 0;
}

/* Notes a packet, if this one wants to see it. */
__noinline int watch_note(struct xdp_md *ctx, __u32 number)
{
	struct watcher *watcher = bpf_map_lookup_elem(&watchers, &number);
	struct bora_port *port = port_of_interface(ctx->ingress_ifindex);
	struct note *note = note_of(number);
	struct bora_counters *count;
	__u32 octets;

	if (!watcher || !note || !port)
		return 0;
	note->wanted = false;
	if (watcher->one_in > 1 && bpf_get_prandom_u32() % watcher->one_in)
		return 0;
	note->length = ctx->data_end - ctx->data;
	note->port = port->index;
	octets = octets_within(note->length, WATCH_HEAD, WATCH_HEAD - 1);
	if (bpf_xdp_load_bytes(ctx, 0, note->head, octets))
		return 0;
	if (!watch_filter(number))
		return 0;
	if (!is_allowed(number)) {
		lose(number);
		return 0;
	}
	count = counters_of(note->port);
	if (!count)
		return 0;
	note->to_engine = count->to_engine;
	__builtin_memcpy(note->reasons, count->reasons, sizeof(note->reasons));
	note->wanted = true;
	return 0;
}

/* What the program counted the packet as. */
static __always_inline __u32 reason_of(const struct note *note, const struct bora_counters *count)
{
	for (int reason = 0; reason < BORA_REASONS; reason++)
		if (note->reasons[reason] != count->reasons[reason])
			return reason;
	return WATCH_REASONS;
}

/* Shows a noted packet, and what became of it. */
__noinline int watch_show(struct xdp_md *ctx, __u32 number, int verdict)
{
	struct watcher *watcher = bpf_map_lookup_elem(&watchers, &number);
	struct note *note = note_of(number);
	struct watch_sighting *found;
	struct bora_counters *count;
	__u32 octets;

	if (!watcher || !note || !note->wanted)
		return 0;
	note->wanted = false;
	count = counters_of(note->port);
	if (!count)
		return 0;
	found = bpf_ringbuf_reserve(&seen, sizeof(*found), 0);
	if (!found) {
		lose(number);
		return 0;
	}
	found->time = bpf_ktime_get_ns();
	found->watcher = number;
	found->port = note->port;
	found->length = note->length;
	found->length_now = ctx->data_end - ctx->data;
	found->verdict = verdict;
	found->reason = reason_of(note, count);
	found->output = count->output;
	found->to_engine = note->to_engine != count->to_engine;
	__builtin_memcpy(found->head, note->head, sizeof(found->head));
	octets = octets_within(found->length_now, watcher->snap, 2047);
	if (octets > WATCH_SNAP || bpf_xdp_load_bytes(ctx, 0, found->now, octets))
		found->length_now = 0;
	bpf_ringbuf_submit(found, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Before the program decides. */
__noinline int watch_before(struct xdp_md *ctx)
{
	for (__u32 number = 0; number < WATCHERS; number++)
		if (watching >> number & 1)
			watch_note(ctx, number);
	return 0;
}

/* After it. */
__noinline int watch_after(struct xdp_md *ctx, int verdict)
{
	for (__u32 number = 0; number < WATCHERS; number++)
		if (watching >> number & 1)
			watch_show(ctx, number, verdict);
	return verdict;
}

#endif
