// SPDX-License-Identifier: GPL-2.0
/* The card as a PCI device and as a network device: from probe to removal, link, resets. */

#include <linux/dma-mapping.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>

#include "hero.h"

#define HERO_WATCH HZ
/* The counters are read so often, if no event asks for it. */
#define HERO_COUNTERS_AGE (8 * HZ)

static int debug = -1;
module_param(debug, int, 0);
MODULE_PARM_DESC(debug, "Messages, as bits or -1 for the default");

/* Cards with a network device. */
LIST_HEAD(hero_cards);
/* The list, and its cards' numbers. */
DEFINE_MUTEX(hero_cards_lock);
/* Resets, watches, and the choice of routes. */
struct workqueue_struct *hero_queue;

/* Asks for a reset of the card, from any context. */
void hero_reset_later(struct hero *hero, const char *why)
{
	if (!test_bit(HERO_UP, &hero->flags))
		return;
	if (queue_work(hero_queue, &hero->reset))
		netdev_err(hero->dev, "%s; it is reset\n", why);
}

/* Looks at the link, of which no event tells, and at events that need more than a handler. */
static void hero_watch(struct work_struct *work)
{
	struct hero *hero = container_of(to_delayed_work(work), struct hero, watch);
	u8 events = hero_irq_take_events(hero);
	u32 status = hero_read(hero, HERO_STATUS);
	bool link = status & HERO_STATUS_LINK;

	if (!test_bit(HERO_UP, &hero->flags))
		return;
	if (hero_is_gone(status)) {
		hero_card_gone(hero);
		return;
	}
	if (link != netif_carrier_ok(hero->dev)) {
		netif_info(hero, link, hero->dev, "link is %s\n", link ? "up" : "down");
		if (link)
			netif_carrier_on(hero->dev);
		else
			netif_carrier_off(hero->dev);
		hero_fib_look();
	}
	if (status & HERO_STATUS_BROKEN)
		hero_reset_later(hero, "memory refused completions of the card");
	else if (!(status & HERO_STATUS_READY) || !hero_card_is_set_up(hero))
		hero_reset_later(hero, "the card was reset by somebody else");
	else if (hero_rx_lost_buffers(hero))
		hero_reset_later(hero, "the card lost its receive buffers");
	else if (hero_card_has_other_peers(hero))
		hero_reset_later(hero, "the cards of its bus are others");
	if (events || time_after_eq64(get_jiffies_64(), hero->stale)) {
		hero_card_read_counters(hero);
		hero->stale = get_jiffies_64() + HERO_COUNTERS_AGE;
	}
	hero_irq_unmask(hero, HERO_EVENTS_OTHER);
	queue_delayed_work(hero_queue, &hero->watch, HERO_WATCH);
}

/* Starts the card, whose memory and interrupts are there. Needs the RTNL. */
int hero_up(struct hero *hero)
{
	int err;

	pci_set_master(hero->pdev);
	err = hero_card_reset(hero);
	if (err)
		return err;
	hero_card_find_peers(hero);
	hero_ring_init(&hero->tx.ring);
	hero->tx.filled = 0;
	hero->tx.full = false;
	hero_rx_start(hero);
	napi_enable(&hero->rx_napi);
	napi_enable(&hero->tx_napi);
	hero_card_start(hero);
	set_bit(HERO_UP, &hero->flags);
	hero_irq_unmask(hero, HERO_EVENTS_RX | HERO_EVENTS_TX | HERO_EVENTS_OTHER);
	netif_tx_wake_all_queues(hero->dev);
	queue_delayed_work(hero_queue, &hero->watch, 0);
	return 0;
}

/* Stops the card. What it held is lost. Needs the RTNL. */
void hero_down(struct hero *hero)
{
	/* while the others can still hear of it */
	hero_fib_card_down(hero);
	if (!test_and_clear_bit(HERO_UP, &hero->flags))
		return;
	/* in this order, because the watch sets the carrier and the poll wakes the queue */
	cancel_delayed_work_sync(&hero->watch);
	netif_carrier_off(hero->dev);
	napi_disable(&hero->rx_napi);
	napi_disable(&hero->tx_napi);
	/* from here on nobody gives the card a frame */
	netif_tx_disable(hero->dev);
	hero_irq_off(hero);
	hero_card_read_counters(hero);
	/* memory may be used for something else only if the card is quiet */
	if (hero_card_reset(hero))
		pci_clear_master(hero->pdev);
	else
		hero_card_set_mac(hero);
	hero_rx_stop(hero);
	hero_tx_stop(hero);
}

static void hero_reset_work(struct work_struct *work)
{
	struct hero *hero = container_of(work, struct hero, reset);

	rtnl_lock();
	if (test_bit(HERO_UP, &hero->flags)) {
		hero_down(hero);
		hero->resets++;
		if (hero_up(hero))
			netdev_err(hero->dev, "the card is not used until it is set down and up\n");
		hero_fib_look();
	}
	rtnl_unlock();
}

static int hero_open(struct net_device *dev)
{
	struct hero *hero = netdev_priv(dev);
	int err;

	netif_carrier_off(dev);
	err = hero_rx_open(hero);
	if (err)
		return err;
	err = hero_irq_request(hero);
	if (err)
		goto close;
	err = hero_up(hero);
	if (err)
		goto free;
	hero_fib_look();
	return 0;

free:
	hero_irq_free(hero);
close:
	hero_rx_close(hero);
	return err;
}

static int hero_stop(struct net_device *dev)
{
	struct hero *hero = netdev_priv(dev);

	hero_down(hero);
	hero_irq_free(hero);
	hero_rx_close(hero);
	return 0;
}

/* A card takes what is for any group, so only the promiscuous mode is a matter of the card. */
static void hero_set_rx_mode(struct net_device *dev)
{
	hero_card_set_promiscuous(netdev_priv(dev), dev->flags & IFF_PROMISC);
}

static int hero_set_mac_address(struct net_device *dev, void *address)
{
	int err = eth_mac_addr(dev, address);

	if (!err)
		hero_card_set_mac(netdev_priv(dev));
	return err;
}

static void hero_tx_timeout(struct net_device *dev, unsigned int queue)
{
	struct hero *hero = netdev_priv(dev);
	struct hero_tx *tx = &hero->tx;
	u64 word;

	netdev_err(dev, "%u frames wait, the card has %u of them, %s\n",
		   tx->filled - tx->ring.done, tx->ring.given - tx->ring.done,
		   hero_ring_next(&tx->ring, &word) ? "and told of one in vain" :
						      "and has sent none");
	hero_reset_later(hero, "the card sends nothing");
}

static void hero_rx_sum(const struct hero_rx *rx, struct rtnl_link_stats64 *sum)
{
	u64 packets, bytes, errors, no_buffer, dropped;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&rx->stats.sync);
		packets = u64_stats_read(&rx->stats.packets);
		bytes = u64_stats_read(&rx->stats.bytes);
		errors = u64_stats_read(&rx->stats.errors);
		no_buffer = u64_stats_read(&rx->stats.no_buffer);
		dropped = u64_stats_read(&rx->stats.xdp_drop);
	} while (u64_stats_fetch_retry(&rx->stats.sync, start));
	sum->rx_packets += packets;
	sum->rx_bytes += bytes;
	sum->rx_errors += errors;
	sum->rx_dropped += no_buffer + dropped;
}

/* What went through the host; packets of the fast path are among those of `ethtool -S`. The card's
 * counters are as old as the last look of the watch.
 */
static void hero_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *sum)
{
	struct hero *hero = netdev_priv(dev);
	const struct hero_tx *tx = &hero->tx;
	const u64 *count = hero->counters;
	unsigned int start, k;

	for (k = 0; k < HERO_PRIORITIES; k++)
		hero_rx_sum(&hero->rx[k], sum);
	do {
		start = u64_stats_fetch_begin(&tx->stats.sync);
		sum->tx_packets = u64_stats_read(&tx->stats.packets);
		sum->tx_bytes = u64_stats_read(&tx->stats.bytes);
		sum->tx_errors = u64_stats_read(&tx->stats.errors);
	} while (u64_stats_fetch_retry(&tx->stats.sync, start));
	sum->tx_dropped = u64_stats_read(&tx->dropped);
	spin_lock_bh(&hero->cmd_lock);
	sum->rx_crc_errors = count[HERO_COUNT_BAD_FCS];
	sum->rx_length_errors = count[HERO_COUNT_RUNT] + count[HERO_COUNT_GIANT];
	sum->rx_fifo_errors = count[HERO_COUNT_INPUT_FULL];
	sum->rx_missed_errors = count[HERO_COUNT_HOST_FULL];
	spin_unlock_bh(&hero->cmd_lock);
	sum->rx_errors += sum->rx_crc_errors + sum->rx_length_errors + sum->rx_fifo_errors;
}

const struct net_device_ops hero_netdev_ops = {
	.ndo_open = hero_open,
	.ndo_stop = hero_stop,
	.ndo_start_xmit = hero_tx_xmit,
	.ndo_set_rx_mode = hero_set_rx_mode,
	.ndo_set_mac_address = hero_set_mac_address,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_tx_timeout = hero_tx_timeout,
	.ndo_get_stats64 = hero_get_stats64,
	.ndo_bpf = hero_xdp,
	.ndo_xdp_xmit = hero_xdp_xmit,
};

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
	for (k = 0; k < HERO_PRIORITIES; k++)
		u64_stats_init(&hero->rx[k].stats.sync);
	u64_stats_init(&hero->tx.stats.sync);
	INIT_DELAYED_WORK(&hero->watch, hero_watch);
	INIT_WORK(&hero->reset, hero_reset_work);
	netif_napi_add(dev, &hero->rx_napi, hero_rx_poll);
	netif_napi_add_tx(dev, &hero->tx_napi, hero_tx_poll);
	dev->netdev_ops = &hero_netdev_ops;
	dev->ethtool_ops = &hero_ethtool_ops;
	dev->watchdog_timeo = 5 * HZ;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = HERO_MTU;
	/* most frames are copied, and that sums them up and gathers them, too */
	dev->hw_features = NETIF_F_SG | NETIF_F_HW_CSUM;
	dev->features = dev->hw_features | NETIF_F_HIGHDMA;
	dev->vlan_features = dev->hw_features;
	hero_xdp_features(dev);
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
	netif_info(hero, probe, dev, "card %u of its bus, %lu routes, %s\n", hero->index,
		   FIELD_GET(HERO_STATUS_ROUTES, (unsigned long)hero_read(hero, HERO_STATUS)),
		   hero->fast_path ? "fast path" : "no fast path");
	hero_join(hero);
	pci_save_state(pdev);
	return 0;

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

static DEFINE_SIMPLE_DEV_PM_OPS(hero_pm_ops, hero_suspend, hero_resume);

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

static const struct pci_error_handlers hero_error_handlers = {
	.error_detected = hero_error_detected,
	.slot_reset = hero_slot_reset,
	.resume = hero_error_resume,
	.reset_prepare = hero_reset_prepare,
	.reset_done = hero_reset_done,
};

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
	err = pci_register_driver(&hero_driver);
	if (err)
		goto fib;
	return 0;

fib:
	hero_fib_exit();
queue:
	destroy_workqueue(hero_queue);
	return err;
}

static void __exit hero_module_exit(void)
{
	pci_unregister_driver(&hero_driver);
	hero_fib_exit();
	destroy_workqueue(hero_queue);
}

module_init(hero_module_init);
module_exit(hero_module_exit);

MODULE_AUTHOR("The Bora developers");
MODULE_DESCRIPTION("HERO network cards, which forward by themselves");
MODULE_LICENSE("GPL");
