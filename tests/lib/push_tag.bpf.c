/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Classifier for a sender's egress: gives each packet with a mark a VLAN tag, which stays in the
 * socket buffer as a VLAN device's does. Upper half of the mark: TPID, lower half: TCI.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("tc")
int push_tag(struct __sk_buff *skb)
{
	__u32 mark = skb->mark;

	if (!mark)
		return TC_ACT_OK;
	skb->mark = 0;
	return bpf_skb_vlan_push(skb, bpf_htons(mark >> 16), mark & 0xffff) ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
