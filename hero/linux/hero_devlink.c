// SPDX-License-Identifier: GPL-2.0
/* devlink: what the card and the driver are, and how routes and classes are chosen. */

#include <linux/rtnetlink.h>
#include <net/devlink.h>

#include "hero_fib.h"

/* What devlink has allocated for a card. */
struct hero_devlink {
	struct hero *hero;
};

enum hero_param {
	HERO_PARAM_POLICY = DEVLINK_PARAM_GENERIC_ID_MAX + 1,
	HERO_PARAM_MIN_RATE,
	HERO_PARAM_CONTROL,
};

/* Packets per second of a line of 1 Gbit/s, in the shortest frames. */
#define HERO_RATE_MOST 1488095

static const char *const hero_policy_names[] = {
	[HERO_POLICY_PREFIX] = "prefix",
	[HERO_POLICY_RATE] = "rate",
};

static struct hero *hero_of(struct devlink *devlink)
{
	return ((struct hero_devlink *)devlink_priv(devlink))->hero;
}

static int hero_info_get(struct devlink *devlink, struct devlink_info_req *req,
			 struct netlink_ext_ack *extack)
{
	char text[12];
	int err;

	err = hero_info_driver(req, KBUILD_MODNAME);
	if (err)
		return err;
	snprintf(text, sizeof(text), "%d", HERO_VERSION);
	err = devlink_info_version_fixed_put(req, "interface", text);
	if (err)
		return err;
	snprintf(text, sizeof(text), "%u", hero_of(devlink)->routes);
	return devlink_info_version_fixed_put(req, "routes", text);
}

static int hero_param_get(HERO_PARAM_GET_ARGUMENTS)
{
	const struct hero *hero = hero_of(devlink);

	switch (id) {
	case HERO_PARAM_POLICY:
		strscpy(ctx->val.vstr, hero_policy_names[hero->policy], sizeof(ctx->val.vstr));
		return 0;
	case HERO_PARAM_MIN_RATE:
		ctx->val.vu32 = hero->min_rate;
		return 0;
	case HERO_PARAM_CONTROL:
		ctx->val.vbool = hero->control;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int hero_param_set_control(struct hero *hero, bool on)
{
	int err;

	rtnl_lock();
	err = hero_tc_set_control(hero, on);
	rtnl_unlock();
	return err;
}

static int hero_param_set(HERO_PARAM_SET_ARGUMENTS)
{
	struct hero *hero = hero_of(devlink);

	if (id == HERO_PARAM_CONTROL)
		return hero_param_set_control(hero, ctx->val.vbool);
	spin_lock_bh(&hero_fib_lock);
	if (id == HERO_PARAM_POLICY)
		hero->policy = match_string(hero_policy_names, ARRAY_SIZE(hero_policy_names),
					    ctx->val.vstr);
	else
		hero->min_rate = ctx->val.vu32;
	spin_unlock_bh(&hero_fib_lock);
	hero_fib_look();
	return 0;
}

/* Only here does Linux 6.1 take a message for the user. */
static int hero_param_check_control(HERO_PARAM_CHECK_ARGUMENTS)
{
	int err;

	rtnl_lock();
	err = hero_tc_check_control(hero_of(devlink), HERO_PARAM_VALUE(val)->vbool, extack);
	rtnl_unlock();
	return err;
}

static int hero_param_check_policy(HERO_PARAM_CHECK_ARGUMENTS)
{
	if (match_string(hero_policy_names, ARRAY_SIZE(hero_policy_names),
			 HERO_PARAM_VALUE(val)->vstr) >= 0)
		return 0;
	NL_SET_ERR_MSG(extack, "the policies are prefix and rate");
	return -EINVAL;
}

static int hero_param_check_min_rate(HERO_PARAM_CHECK_ARGUMENTS)
{
	if (HERO_PARAM_VALUE(val)->vu32 <= HERO_RATE_MOST)
		return 0;
	NL_SET_ERR_MSG(extack, "no card receives as many packets per second");
	return -ERANGE;
}

static const struct devlink_param hero_params[] = {
	DEVLINK_PARAM_DRIVER(HERO_PARAM_POLICY, "route_policy", DEVLINK_PARAM_TYPE_STRING,
			     BIT(DEVLINK_PARAM_CMODE_RUNTIME), hero_param_get, hero_param_set,
			     hero_param_check_policy),
	DEVLINK_PARAM_DRIVER(HERO_PARAM_MIN_RATE, "route_min_rate", DEVLINK_PARAM_TYPE_U32,
			     BIT(DEVLINK_PARAM_CMODE_RUNTIME), hero_param_get, hero_param_set,
			     hero_param_check_min_rate),
	DEVLINK_PARAM_DRIVER(HERO_PARAM_CONTROL, "control_class", DEVLINK_PARAM_TYPE_BOOL,
			     BIT(DEVLINK_PARAM_CMODE_RUNTIME), hero_param_get, hero_param_set,
			     hero_param_check_control),
};

static const struct devlink_ops hero_devlink_ops = {
	.info_get = hero_info_get,
};

/**
 * hero_devlink_open() - Shows a card to devlink
 * @hero: the card
 *
 * Return: 0 or an error, after which nothing is left of it.
 */
int hero_devlink_open(struct hero *hero)
{
	struct devlink *devlink;
	int err;

	devlink = devlink_alloc(&hero_devlink_ops, sizeof(struct hero_devlink), &hero->pdev->dev);
	if (!devlink)
		return -ENOMEM;
	((struct hero_devlink *)devlink_priv(devlink))->hero = hero;
	err = devlink_params_register(devlink, hero_params, ARRAY_SIZE(hero_params));
	if (err) {
		devlink_free(devlink);
		return err;
	}
	hero->devlink = devlink;
	devlink_register(devlink);
	return 0;
}

void hero_devlink_close(struct hero *hero)
{
	devlink_unregister(hero->devlink);
	devlink_params_unregister(hero->devlink, hero_params, ARRAY_SIZE(hero_params));
	devlink_free(hero->devlink);
}
