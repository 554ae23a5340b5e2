/* DPDK's rte_acl for dpdk.rs. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_acl.h>

enum { PROTOCOL, SOURCE, DESTINATION, SOURCE_PORT, DESTINATION_PORT, FIELDS };

RTE_ACL_RULE_DEF(bench_rule, FIELDS);

/* lab/bench/src/acl/dpdk.rs has the same value */
struct rule {
	uint32_t source, destination;
	uint16_t source_first, source_last, destination_first, destination_last;
	uint8_t source_length, destination_length, protocol, any_protocol;
};

static const struct rte_acl_field_def fields[FIELDS] = {
	{.type = RTE_ACL_FIELD_TYPE_BITMASK, .size = 1, .field_index = PROTOCOL, .input_index = 0, .offset = 9},
	{.type = RTE_ACL_FIELD_TYPE_MASK, .size = 4, .field_index = SOURCE, .input_index = 1, .offset = 12},
	{.type = RTE_ACL_FIELD_TYPE_MASK, .size = 4, .field_index = DESTINATION, .input_index = 2, .offset = 16},
	{.type = RTE_ACL_FIELD_TYPE_RANGE, .size = 2, .field_index = SOURCE_PORT, .input_index = 3, .offset = 20},
	{.type = RTE_ACL_FIELD_TYPE_RANGE, .size = 2, .field_index = DESTINATION_PORT, .input_index = 3, .offset = 22},
};

/* The rules, the first one of highest priority; each answers with its number plus 1. NULL if there is no memory. */
struct rte_acl_ctx *dpdk_acl_new(const struct rule *rules, uint32_t count)
{
	static unsigned int made;
	char name[32];
	struct rte_acl_param param = {
		.name = name,
		.rule_size = RTE_ACL_RULE_SZ(FIELDS),
		.max_rule_num = count,
	};
	struct rte_acl_config config = {.num_categories = 1, .num_fields = FIELDS};
	struct rte_acl_ctx *acl;

	snprintf(name, sizeof(name), "acl%u", made++);
	acl = rte_acl_create(&param);
	if (!acl)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		const struct rule *rule = &rules[i];
		struct bench_rule one = {
			.data = {.category_mask = 1, .priority = RTE_ACL_MAX_PRIORITY - (int32_t)i, .userdata = i + 1},
		};

		one.field[PROTOCOL].value.u8 = rule->protocol;
		one.field[PROTOCOL].mask_range.u8 = rule->any_protocol ? 0 : 0xff;
		one.field[SOURCE].value.u32 = rule->source;
		one.field[SOURCE].mask_range.u32 = rule->source_length;
		one.field[DESTINATION].value.u32 = rule->destination;
		one.field[DESTINATION].mask_range.u32 = rule->destination_length;
		one.field[SOURCE_PORT].value.u16 = rule->source_first;
		one.field[SOURCE_PORT].mask_range.u16 = rule->source_last;
		one.field[DESTINATION_PORT].value.u16 = rule->destination_first;
		one.field[DESTINATION_PORT].mask_range.u16 = rule->destination_last;
		if (rte_acl_add_rules(acl, (struct rte_acl_rule *)&one, 1))
			goto failed;
	}
	for (int i = 0; i < FIELDS; i++)
		config.defs[i] = fields[i];
	if (rte_acl_build(acl, &config))
		goto failed;
	/* the widest vectors that this CPU has */
	if (rte_acl_set_ctx_classify(acl, RTE_ACL_CLASSIFY_AVX512X32) &&
	    rte_acl_set_ctx_classify(acl, RTE_ACL_CLASSIFY_AVX2))
		rte_acl_set_ctx_classify(acl, RTE_ACL_CLASSIFY_DEFAULT);
	return acl;
failed:
	rte_acl_free(acl);
	return NULL;
}

void dpdk_acl_classify(const struct rte_acl_ctx *acl, const uint8_t **headers, uint32_t *results, uint32_t count)
{
	rte_acl_classify(acl, headers, results, count, 1);
}

void dpdk_acl_free(struct rte_acl_ctx *acl)
{
	rte_acl_free(acl);
}
