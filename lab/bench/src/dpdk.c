/* Wrappers of DPDK's tables for dpdk.rs, because Rust cannot call inline functions.
 * Functions return 0 or a negative errno value; addresses are in host order (IPv4) and in network
 * order (IPv6). */
#include <stdint.h>
#include <stdio.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_malloc.h>
#include <rte_version.h>

/* The first fields of DPDK's private table structures, for the number of groups of 256 entries in use. */
struct dir24_8_head {
	uint32_t groups;
	uint32_t reserved;
	uint32_t used;
};

struct trie_head {
	uint32_t groups;
	uint32_t reserved;
	uint32_t unused; /* says always 0 */
	uint64_t default_next_hop;
	enum rte_fib_trie_nh_sz next_hop_size;
	void *entries;
	void *pool;
	uint32_t used;
};

/* What an IPv6 address is to rte_fib6. */
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
#define ADDRESS6(ip) ((const struct rte_ipv6_addr *)(ip))
#define ADDRESSES6(ips) ((const struct rte_ipv6_addr *)(ips))
#else
#define ADDRESS6(ip) (ip)
#define ADDRESSES6(ips) ((uint8_t(*)[16])(uintptr_t)(ips))
#endif

static const char *unique(void)
{
	static char name[32];
	static unsigned int count;
	snprintf(name, sizeof(name), "bench%u", count++);
	return name;
}

int dpdk_start(int huge_pages)
{
	char *with[] = {"bench-fib", "--in-memory", "--no-pci", "--no-telemetry",
			"--iova-mode=va", "--log-level=error", "--force-max-simd-bitwidth=512",
			"--lcores=0", NULL};
	/* without huge pages DPDK refuses --in-memory */
	char *without[] = {"bench-fib", "--no-shconf", "--no-pci", "--no-telemetry",
			   "--iova-mode=va", "--log-level=error",
			   "--force-max-simd-bitwidth=512", "--lcores=0", "--no-huge", "-m",
			   "3072", NULL};
	int result = huge_pages ? rte_eal_init(8, with) : rte_eal_init(11, without);
	return result < 0 ? -rte_errno : 0;
}

const char *dpdk_version(void)
{
	return rte_version();
}

/* Octets that DPDK has allocated. */
uint64_t dpdk_allocated(void)
{
	struct rte_malloc_socket_stats stats;
	return rte_malloc_get_socket_stats(0, &stats) == 0 ? stats.heap_allocsz_bytes : 0;
}

/* Next hops of 2 octets: 15 bits, and a bit that marks a group. */
struct rte_fib *dpdk_fib_new(uint32_t routes, uint32_t groups)
{
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8,
		.max_routes = routes,
		.dir24_8 = {.nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = groups},
	};
	return rte_fib_create(unique(), 0, &conf);
}

int dpdk_fib_add(struct rte_fib *fib, uint32_t ip, uint8_t depth, uint32_t next_hop)
{
	return rte_fib_add(fib, ip, depth, next_hop);
}

int dpdk_fib_delete(struct rte_fib *fib, uint32_t ip, uint8_t depth)
{
	return rte_fib_delete(fib, ip, depth);
}

/* Selects AVX-512 if it is wanted and available, otherwise DPDK's default without vectors. */
int dpdk_fib_select(struct rte_fib *fib, int avx512)
{
	if (avx512 && rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512) == 0)
		return 0;
	return rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
}

void dpdk_fib_lookup(struct rte_fib *fib, const uint32_t *ips, uint64_t *next_hops, uint32_t n)
{
	rte_fib_lookup_bulk(fib, (uint32_t *)(uintptr_t)ips, next_hops, (int)n);
}

uint32_t dpdk_fib_groups(struct rte_fib *fib)
{
	return ((const struct dir24_8_head *)rte_fib_get_dp(fib))->used;
}

void dpdk_fib_free(struct rte_fib *fib)
{
	rte_fib_free(fib);
}

/* Next hops of 4 octets: 2 octets can name no more than 32767 groups, fewer than a full table
 * needs. */
struct rte_fib6 *dpdk_fib6_new(uint32_t routes, uint32_t groups)
{
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE,
		.max_routes = routes,
		.trie = {.nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = groups},
	};
	return rte_fib6_create(unique(), 0, &conf);
}

int dpdk_fib6_add(struct rte_fib6 *fib, const uint8_t ip[16], uint8_t depth, uint32_t next_hop)
{
	return rte_fib6_add(fib, ADDRESS6(ip), depth, next_hop);
}

/* DPDK does not give back the groups a deleted prefix had reserved, and after enough deletes it
 * refuses to add (seen by others too: DPDK/grout pull request 620). So we correct the count. */
int dpdk_fib6_delete(struct rte_fib6 *fib, const uint8_t ip[16], uint8_t depth)
{
	struct trie_head *head = rte_fib6_get_dp(fib);
	int result = rte_fib6_delete(fib, ADDRESS6(ip), depth);
	head->reserved = head->used;
	return result;
}

int dpdk_fib6_select(struct rte_fib6 *fib, int avx512)
{
	if (avx512 && rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512) == 0)
		return 0;
	return rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_SCALAR);
}

void dpdk_fib6_lookup(struct rte_fib6 *fib, const uint8_t ips[][16], uint64_t *next_hops,
		      uint32_t n)
{
	rte_fib6_lookup_bulk(fib, ADDRESSES6(ips), next_hops, (int)n);
}

uint32_t dpdk_fib6_groups(struct rte_fib6 *fib)
{
	return ((const struct trie_head *)rte_fib6_get_dp(fib))->used;
}

void dpdk_fib6_free(struct rte_fib6 *fib)
{
	rte_fib6_free(fib);
}

struct rte_lpm *dpdk_lpm_new(uint32_t routes, uint32_t groups)
{
	struct rte_lpm_config conf = {.max_rules = routes, .number_tbl8s = groups};
	return rte_lpm_create(unique(), 0, &conf);
}

int dpdk_lpm_add(struct rte_lpm *lpm, uint32_t ip, uint8_t depth, uint32_t next_hop)
{
	return rte_lpm_add(lpm, ip, depth, next_hop);
}

int dpdk_lpm_delete(struct rte_lpm *lpm, uint32_t ip, uint8_t depth)
{
	return rte_lpm_delete(lpm, ip, depth);
}

/* A next hop has RTE_LPM_LOOKUP_SUCCESS set if there is a route. */
void dpdk_lpm_lookup(const struct rte_lpm *lpm, const uint32_t *ips, uint32_t *next_hops,
		     uint32_t n)
{
	rte_lpm_lookup_bulk(lpm, ips, next_hops, n);
}

uint32_t dpdk_lpm_groups(const struct rte_lpm *lpm, uint32_t groups)
{
	uint32_t used = 0;
	for (uint32_t group = 0; group < groups; group++)
		used += lpm->tbl8[group * RTE_LPM_TBL8_GROUP_NUM_ENTRIES].valid_group;
	return used;
}

void dpdk_lpm_free(struct rte_lpm *lpm)
{
	rte_lpm_free(lpm);
}
