// SPDX-License-Identifier: GPL-2.0
/* tc flower: filters at ingress that give packets the high priority, in the card.
 *
 * A card has one class for each destination, which is one match of addresses, TOS and protocol. A
 * filter does not know where a packet goes, so all destinations have the same class. It is the
 * widest one that a filter needs; each is inside of or around each other one, so that any filter
 * may go. Precedence 6 and 7 are in it, unless devlink's `control_class` is off.
 */

#include <linux/rtnetlink.h>
#include <net/flow_offload.h>
#include <net/pkt_cls.h>

#include "hero.h"

/* Both `hw_tc` and `skbedit priority` name the high priority so; 0 is what packets have anyway. */
#define HERO_TC_HIGH 1

/* The words of a class. The last one has TOS and protocol. */
enum hero_class_word { HERO_CLASS_DST, HERO_CLASS_SRC, HERO_CLASS_REST };
#define HERO_CLASS_TOS		GENMASK(15, 8)
#define HERO_CLASS_PROTO	GENMASK(7, 0)

/* Precedence 6 and 7 of the TOS field, which routing protocols use (RFC 2474, 4.2.2). */
static const struct hero_class hero_class_control = {
	.value[HERO_CLASS_REST] = 0xc0 << 8,
	.mask[HERO_CLASS_REST] = 0xc0 << 8,
};

/* No packet of the line has only zeros in it. */
static const struct hero_class hero_class_none = {
	.mask = { U32_MAX, U32_MAX, U32_MAX },
};

/* A filter. */
struct hero_tc_rule {
	struct list_head list;
	unsigned long cookie;
	struct hero_class class;
};

static LIST_HEAD(hero_tc_blocks);

/* Whether all that one class matches is matched by another one, too. */
static bool hero_class_is_inside(const struct hero_class *inner, const struct hero_class *outer)
{
	unsigned int k;

	for (k = 0; k < HERO_CLASS_WORDS; k++) {
		if (outer->mask[k] & ~inner->mask[k] ||
		    (outer->value[k] ^ inner->value[k]) & outer->mask[k])
			return false;
	}
	return true;
}

/* Widens a class by another one. Returns false if one match cannot have both, and nothing else. */
static bool hero_class_widen(struct hero_class *class, const struct hero_class *other)
{
	unsigned int k, bits = 0, at = 0;

	if (hero_class_is_inside(other, class))
		return true;
	if (hero_class_is_inside(class, other)) {
		*class = *other;
		return true;
	}
	for (k = 0; k < HERO_CLASS_WORDS; k++) {
		if (class->mask[k] != other->mask[k])
			return false;
		bits += hweight32(class->value[k] ^ other->value[k]);
		if (class->value[k] != other->value[k])
			at = k;
	}
	if (bits != 1)
		return false;
	class->mask[at] &= ~(class->value[at] ^ other->value[at]);
	class->value[at] &= class->mask[at];
	return true;
}

/* The class that a filter needs. */
static int hero_tc_class(const struct hero_class *rule, bool control, struct hero_class *class,
			 struct netlink_ext_ack *extack)
{
	*class = *rule;
	if (!control || hero_class_widen(class, &hero_class_control))
		return 0;
	NL_SET_ERR_MSG(extack, "the card's class is one match, and none has these packets and precedence 6 and 7 only; see devlink's control_class");
	return -EOPNOTSUPP;
}

/* Whether a filter's match is inside of or around each other one. */
static int hero_tc_fits(const struct hero *hero, const struct hero_class *rule, bool control,
			struct netlink_ext_ack *extack)
{
	const struct hero_tc_rule *other;
	struct hero_class class, another;
	int err;

	err = hero_tc_class(rule, control, &class, extack);
	list_for_each_entry(other, &hero->tc_rules, list) {
		if (!err)
			err = hero_tc_class(&other->class, control, &another, extack);
		if (err)
			break;
		if (!hero_class_is_inside(&class, &another) &&
		    !hero_class_is_inside(&another, &class)) {
			NL_SET_ERR_MSG(extack, "the card's class is one match, and another filter has it");
			return -EOPNOTSUPP;
		}
	}
	return err;
}

/* Gives the card the widest class that a filter needs. All of them fit. */
static void hero_tc_apply(struct hero *hero)
{
	struct hero_class widest = hero->control ? hero_class_control : hero_class_none;
	const struct hero_tc_rule *rule;
	bool first = !hero->control;
	struct hero_class class;

	list_for_each_entry(rule, &hero->tc_rules, list) {
		hero_tc_class(&rule->class, hero->control, &class, NULL);
		if (first || hero_class_is_inside(&widest, &class))
			widest = class;
		first = false;
	}
	hero_card_set_class(hero, &widest);
}

/* Whether precedence 6 and 7 can be in the class, or out of it, with the filters that are there. */
int hero_tc_check_control(struct hero *hero, bool on, struct netlink_ext_ack *extack)
{
	const struct hero_tc_rule *rule;
	int err = 0;

	list_for_each_entry(rule, &hero->tc_rules, list) {
		err = hero_tc_fits(hero, &rule->class, on, extack);
		if (err)
			break;
	}
	return err;
}

/* Says whether precedence 6 and 7 are in the class. */
int hero_tc_set_control(struct hero *hero, bool on)
{
	int err = hero_tc_check_control(hero, on, NULL);

	if (err)
		return err;
	hero->control = on;
	hero_tc_apply(hero);
	return 0;
}

static int hero_tc_keys(const struct flow_rule *rule, struct netlink_ext_ack *extack)
{
	/* flower keeps addresses of IPv4 and IPv6 in one place, so it may say both */
	u64 known = BIT_ULL(FLOW_DISSECTOR_KEY_CONTROL) | BIT_ULL(FLOW_DISSECTOR_KEY_BASIC) |
		    BIT_ULL(FLOW_DISSECTOR_KEY_IPV4_ADDRS) | BIT_ULL(FLOW_DISSECTOR_KEY_IPV6_ADDRS) |
		    BIT_ULL(FLOW_DISSECTOR_KEY_IP);
	struct flow_match_control control;
	struct flow_match_ip ip;

	if (rule->match.dissector->used_keys & ~known) {
		NL_SET_ERR_MSG(extack, "the card matches src_ip, dst_ip, ip_tos and ip_proto only");
		return -EOPNOTSUPP;
	}
	if (flow_rule_match_key(rule, FLOW_DISSECTOR_KEY_CONTROL)) {
		flow_rule_match_control(rule, &control);
		if (control.mask->flags) {
			NL_SET_ERR_MSG(extack, "the card does not look at fragments");
			return -EOPNOTSUPP;
		}
	}
	if (flow_rule_match_key(rule, FLOW_DISSECTOR_KEY_IP)) {
		flow_rule_match_ip(rule, &ip);
		if (ip.mask->ttl) {
			NL_SET_ERR_MSG(extack, "the card's class does not look at the TTL");
			return -EOPNOTSUPP;
		}
	}
	return 0;
}

/* What a filter matches, as words of a class. */
static int hero_tc_match(struct flow_cls_offload *filter, struct hero_class *class)
{
	struct netlink_ext_ack *extack = filter->common.extack;
	struct flow_rule *rule = flow_cls_offload_flow_rule(filter);
	struct flow_match_ipv4_addrs addresses;
	struct flow_match_basic basic;
	struct flow_match_ip ip;
	unsigned int k;
	int err;

	if (filter->common.protocol != htons(ETH_P_IP)) {
		NL_SET_ERR_MSG(extack, "the card has classes for protocol ip only");
		return -EOPNOTSUPP;
	}
	err = hero_tc_keys(rule, extack);
	if (err)
		return err;
	memset(class, 0, sizeof(*class));
	if (flow_rule_match_key(rule, FLOW_DISSECTOR_KEY_BASIC)) {
		flow_rule_match_basic(rule, &basic);
		class->value[HERO_CLASS_REST] = FIELD_PREP(HERO_CLASS_PROTO, basic.key->ip_proto);
		class->mask[HERO_CLASS_REST] = FIELD_PREP(HERO_CLASS_PROTO, basic.mask->ip_proto);
	}
	if (flow_rule_match_key(rule, FLOW_DISSECTOR_KEY_IP)) {
		flow_rule_match_ip(rule, &ip);
		class->value[HERO_CLASS_REST] |= FIELD_PREP(HERO_CLASS_TOS, ip.key->tos);
		class->mask[HERO_CLASS_REST] |= FIELD_PREP(HERO_CLASS_TOS, ip.mask->tos);
	}
	if (flow_rule_match_key(rule, FLOW_DISSECTOR_KEY_IPV4_ADDRS)) {
		flow_rule_match_ipv4_addrs(rule, &addresses);
		class->value[HERO_CLASS_DST] = be32_to_cpu(addresses.key->dst);
		class->mask[HERO_CLASS_DST] = be32_to_cpu(addresses.mask->dst);
		class->value[HERO_CLASS_SRC] = be32_to_cpu(addresses.key->src);
		class->mask[HERO_CLASS_SRC] = be32_to_cpu(addresses.mask->src);
	}
	for (k = 0; k < HERO_CLASS_WORDS; k++)
		class->value[k] &= class->mask[k];
	return 0;
}

/* Whether a filter gives the high priority, and does nothing else. */
static bool hero_tc_is_high(const struct flow_action *action, u32 classid)
{
	const struct flow_action_entry *entry = &action->entries[0];

	if (!flow_action_has_entries(action))
		return TC_H_MIN(classid) == TC_H_MIN_PRIORITY + HERO_TC_HIGH;
	return flow_offload_has_one_action(action) && entry->id == FLOW_ACTION_PRIORITY &&
	       entry->priority == HERO_TC_HIGH && !classid;
}

static int hero_tc_action(struct flow_cls_offload *filter)
{
	const struct flow_action *action = &flow_cls_offload_flow_rule(filter)->action;
	struct netlink_ext_ack *extack = filter->common.extack;

	if (!hero_tc_is_high(action, filter->classid)) {
		NL_SET_ERR_MSG(extack, "the card does hw_tc 1 or action skbedit priority 1, the high priority, only");
		return -EOPNOTSUPP;
	}
	/* a filter that does not say how it is to be counted takes any way, and gets none */
	if (flow_action_has_entries(action) &&
	    action->entries[0].hw_stats != FLOW_ACTION_HW_STATS_ANY &&
	    !(action->entries[0].hw_stats & FLOW_ACTION_HW_STATS_DISABLED)) {
		NL_SET_ERR_MSG(extack, "the card does not count the packets of a class; see hw_stats disabled");
		return -EOPNOTSUPP;
	}
	return 0;
}

static struct hero_tc_rule *hero_tc_find(struct hero *hero, unsigned long cookie)
{
	struct hero_tc_rule *rule;

	list_for_each_entry(rule, &hero->tc_rules, list) {
		if (rule->cookie == cookie)
			return rule;
	}
	return NULL;
}

static int hero_tc_replace(struct hero *hero, struct flow_cls_offload *filter)
{
	struct netlink_ext_ack *extack = filter->common.extack;
	struct hero_tc_rule *rule;
	struct hero_class class;
	int err;

	if (filter->common.chain_index) {
		NL_SET_ERR_MSG(extack, "the card has chain 0 only");
		return -EOPNOTSUPP;
	}
	err = hero_tc_action(filter);
	if (err)
		return err;
	err = hero_tc_match(filter, &class);
	if (err)
		return err;
	if (hero_tc_find(hero, filter->cookie))
		return 0;
	err = hero_tc_fits(hero, &class, hero->control, extack);
	if (err)
		return err;
	rule = kzalloc(sizeof(*rule), GFP_KERNEL);
	if (!rule)
		return -ENOMEM;
	rule->cookie = filter->cookie;
	rule->class = class;
	list_add_tail(&rule->list, &hero->tc_rules);
	hero_tc_apply(hero);
	return 0;
}

static int hero_tc_destroy(struct hero *hero, unsigned long cookie)
{
	struct hero_tc_rule *rule = hero_tc_find(hero, cookie);

	if (!rule)
		return -ENOENT;
	list_del(&rule->list);
	kfree(rule);
	hero_tc_apply(hero);
	return 0;
}

static int hero_tc_filter(enum tc_setup_type type, void *data, void *private)
{
	struct flow_cls_offload *filter = data;
	struct hero *hero = private;

	ASSERT_RTNL();
	if (type != TC_SETUP_CLSFLOWER || !tc_can_offload(hero->dev))
		return -EOPNOTSUPP;
	switch (filter->command) {
	case FLOW_CLS_REPLACE:
		return hero_tc_replace(hero, filter);
	case FLOW_CLS_DESTROY:
		return hero_tc_destroy(hero, filter->cookie);
	default:
		return -EOPNOTSUPP;
	}
}

int hero_setup_tc(struct net_device *dev, enum tc_setup_type type, void *data)
{
	if (type != TC_SETUP_BLOCK)
		return -EOPNOTSUPP;
	return flow_block_cb_setup_simple(data, &hero_tc_blocks, hero_tc_filter, netdev_priv(dev),
					  netdev_priv(dev), true);
}

/* Filters that are in the card alone would do nothing any more. */
int hero_set_features(struct net_device *dev, netdev_features_t features)
{
	struct hero *hero = netdev_priv(dev);

	if (!(features & NETIF_F_HW_TC) && !list_empty(&hero->tc_rules)) {
		netdev_err(dev, "hw-tc-offload stays on: the card has filters of tc\n");
		return -EBUSY;
	}
	return 0;
}

void hero_tc_init(struct hero *hero)
{
	INIT_LIST_HEAD(&hero->tc_rules);
	hero->control = true;
	hero->class = hero_class_control;
}
