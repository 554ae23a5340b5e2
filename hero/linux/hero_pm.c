// SPDX-License-Identifier: GPL-2.0
/* A card is left alone and comes back: suspend, function level resets, errors of the bus. */

#include <linux/rtnetlink.h>

#include "hero.h"

/* Leaves the card alone, until hero_back(). */
static void hero_away(struct hero *hero)
{
	rtnl_lock();
	netif_device_detach(hero->dev);
	hero_down(hero);
	rtnl_unlock();
}

static int hero_back(struct hero *hero)
{
	int err = 0;

	rtnl_lock();
	if (netif_running(hero->dev))
		err = hero_up(hero);
	else
		hero_card_set_mac(hero);
	/* a card that does not come back can be set down and up later */
	netif_device_attach(hero->dev);
	rtnl_unlock();
	hero_fib_look();
	return err;
}

static int hero_suspend(struct device *device)
{
	hero_away(dev_get_drvdata(device));
	return 0;
}

static int hero_resume(struct device *device)
{
	return hero_back(dev_get_drvdata(device));
}

DEFINE_SIMPLE_DEV_PM_OPS(hero_pm_ops, hero_suspend, hero_resume);

static void hero_reset_prepare(struct pci_dev *pdev)
{
	hero_away(pci_get_drvdata(pdev));
}

static void hero_reset_done(struct pci_dev *pdev)
{
	hero_back(pci_get_drvdata(pdev));
}

static pci_ers_result_t hero_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	hero_away(pci_get_drvdata(pdev));
	if (state == pci_channel_io_perm_failure)
		return PCI_ERS_RESULT_DISCONNECT;
	pci_disable_device(pdev);
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t hero_slot_reset(struct pci_dev *pdev)
{
	if (pci_enable_device_mem(pdev))
		return PCI_ERS_RESULT_DISCONNECT;
	pci_restore_state(pdev);
	/* older kernels restore only once what was saved once */
	pci_save_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static void hero_error_resume(struct pci_dev *pdev)
{
	hero_back(pci_get_drvdata(pdev));
}

const struct pci_error_handlers hero_error_handlers = {
	.error_detected = hero_error_detected,
	.slot_reset = hero_slot_reset,
	.resume = hero_error_resume,
	.reset_prepare = hero_reset_prepare,
	.reset_done = hero_reset_done,
};
