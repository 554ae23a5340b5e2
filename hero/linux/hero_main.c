// SPDX-License-Identifier: GPL-2.0
/* The module, and the card as a PCI device: from probe to removal. */

#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "hero.h"

/* Packets per second; with less, a place is not worth a change. */
#define HERO_MIN_RATE 100

static int debug = -1;
module_param(debug, int, 0);
MODULE_PARM_DESC(debug, "Messages, as bits or -1 for the default");

/* Cards with a network device. */
LIST_HEAD(hero_cards);
/* The list, and its cards' numbers. */
DEFINE_MUTEX(hero_cards_lock);
/* Resets, watches, and the choice of routes. */
struct workqueue_struct *hero_queue;

/* The card has no address of its own, but keeps what it was told. */
static void hero_find_mac(struct hero *hero)
{
	u8 mac[ETH_ALEN];

	put_unaligned_le32(hero_read(hero, HERO_MAC_LOW), mac);
	put_unaligned_le16(hero_read(hero, HERO_MAC_HIGH), mac + 4);
	if (is_valid_ether_addr(mac))
		eth_hw_addr_set(hero->dev, mac);
	else if (device_get_ethdev_address(&hero->pdev->dev, hero->dev))
		eth_hw_addr_random(hero->dev);
}

static void hero_init(struct hero *hero, struct net_device *dev, struct pci_dev *pdev)
{
	unsigned int k;

	hero->dev = dev;
	hero->pdev = pdev;
	hero->msg_enable = netif_msg_init(debug, NETIF_MSG_DRV | NETIF_MSG_PROBE | NETIF_MSG_LINK);
	hero->rx_limit = 4 * HERO_VECTOR;
	hero->tx_limit = HERO_SLOTS;
	spin_lock_init(&hero->irq_lock);
	spin_lock_init(&hero->cmd_lock);
	spin_lock_init(&hero->sampler.lock);
	hero->policy = HERO_POLICY_RATE;
	hero->min_rate = HERO_MIN_RATE;
	for (k = 0; k < HERO_PRIORITIES; k++)
		u64_stats_init(&hero->rx[k].stats.sync);
	u64_stats_init(&hero->tx.stats.sync);
	INIT_DELAYED_WORK(&hero->watch, hero_watch);
	INIT_WORK(&hero->reset, hero_reset_work);
	hero_tc_init(hero);
	hero_netdev_init(hero);
}

static void hero_join(struct hero *hero)
{
	mutex_lock(&hero_cards_lock);
	list_add_tail(&hero->list, &hero_cards);
	mutex_unlock(&hero_cards_lock);
	hero_fib_look();
}

static int hero_probe_bus(struct pci_dev *pdev)
{
	int err;

	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(32));
	if (err)
		return dev_err_probe(&pdev->dev, err, "no memory below 4 GiB\n");
	/* a card's buffers stay in their pages in bounce buffers, too */
	dma_set_min_align_mask(&pdev->dev, HERO_PAGE - 1);
	err = pci_request_mem_regions(pdev, KBUILD_MODNAME);
	if (err)
		return dev_err_probe(&pdev->dev, err, "its memory is somebody else's\n");
	err = pci_alloc_irq_vectors(pdev, HERO_VECTORS, HERO_VECTORS, PCI_IRQ_MSIX);
	if (err < 0) {
		pci_release_mem_regions(pdev);
		return dev_err_probe(&pdev->dev, err, "no %u MSI-X vectors\n", HERO_VECTORS);
	}
	return 0;
}

static int hero_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct net_device *dev;
	struct hero *hero;
	int err;

	err = pci_enable_device_mem(pdev);
	if (err)
		return dev_err_probe(&pdev->dev, err, "the card cannot be enabled\n");
	err = hero_probe_bus(pdev);
	if (err)
		goto disable;
	err = -ENOMEM;
	dev = alloc_etherdev(sizeof(*hero));
	if (!dev)
		goto release;
	SET_NETDEV_DEV(dev, &pdev->dev);
	hero = netdev_priv(dev);
	hero_init(hero, dev, pdev);
	pci_set_drvdata(pdev, hero);
	hero->registers = pci_iomap(pdev, HERO_BAR_REGISTERS, 0);
	if (!hero->registers)
		goto free;
	err = hero_card_check(hero);
	if (err)
		goto unmap;
	hero_find_mac(hero);
	pci_set_master(pdev);
	err = hero_card_reset(hero);
	if (err)
		goto unmap;
	hero_card_find_peers(hero);
	hero_card_set_mac(hero);
	err = hero_rings_alloc(hero);
	if (err)
		goto rings;
	err = register_netdev(dev);
	if (err)
		goto rings;
	err = hero_devlink_open(hero);
	if (err)
		goto netdev;
	hero_debug_open(hero);
	netif_info(hero, probe, dev, "card %u of its bus, %u routes, %s\n", hero->index,
		   hero->routes, hero->fast_path ? "fast path" : "no fast path");
	hero_join(hero);
	pci_save_state(pdev);
	return 0;

netdev:
	unregister_netdev(dev);
	cancel_work_sync(&hero->reset);
rings:
	hero_rings_free(hero);
unmap:
	pci_clear_master(pdev);
	pci_iounmap(pdev, hero->registers);
free:
	free_netdev(dev);
release:
	pci_free_irq_vectors(pdev);
	pci_release_mem_regions(pdev);
disable:
	pci_disable_device(pdev);
	return err;
}

static void hero_remove(struct pci_dev *pdev)
{
	struct hero *hero = pci_get_drvdata(pdev);

	hero_debug_close(hero);
	hero_devlink_close(hero);
	mutex_lock(&hero_cards_lock);
	list_del(&hero->list);
	mutex_unlock(&hero_cards_lock);
	unregister_netdev(hero->dev);
	cancel_work_sync(&hero->reset);
	pci_clear_master(pdev);
	hero_rings_free(hero);
	pci_iounmap(pdev, hero->registers);
	free_netdev(hero->dev);
	pci_free_irq_vectors(pdev);
	pci_release_mem_regions(pdev);
	/* an error that nothing recovered from has left it disabled */
	if (pci_is_enabled(pdev))
		pci_disable_device(pdev);
}

static const struct pci_device_id hero_ids[] = {
	{ PCI_DEVICE(HERO_PCI_VENDOR, HERO_PCI_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, hero_ids);

static struct pci_driver hero_driver = {
	.name = KBUILD_MODNAME,
	.id_table = hero_ids,
	.probe = hero_probe,
	.remove = hero_remove,
	.driver.pm = pm_sleep_ptr(&hero_pm_ops),
	.err_handler = &hero_error_handlers,
};

static int __init hero_module_init(void)
{
	int err;

	hero_queue = alloc_workqueue("hero", WQ_UNBOUND, 0);
	if (!hero_queue)
		return -ENOMEM;
	err = hero_fib_init();
	if (err)
		goto queue;
	hero_debug_init();
	err = pci_register_driver(&hero_driver);
	if (err)
		goto fib;
	return 0;

fib:
	hero_debug_exit();
	hero_fib_exit();
queue:
	destroy_workqueue(hero_queue);
	return err;
}

static void __exit hero_module_exit(void)
{
	pci_unregister_driver(&hero_driver);
	hero_debug_exit();
	hero_fib_exit();
	destroy_workqueue(hero_queue);
}

module_init(hero_module_init);
module_exit(hero_module_exit);

MODULE_AUTHOR("The Bora developers");
MODULE_DESCRIPTION("HERO network cards, which forward by themselves");
MODULE_LICENSE("GPL");
