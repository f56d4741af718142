/* What of DPDK 22.11 a live port needs, as functions that can be called: DPDK's own are inline, or take structures whose
 * layout is its business. Nothing here keeps state but the log. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* As `Mbuf` in ffi.rs has it. */
_Static_assert(offsetof(struct rte_mbuf, buf_addr) == 0, "buf_addr");
_Static_assert(offsetof(struct rte_mbuf, data_off) == 16, "data_off");
_Static_assert(offsetof(struct rte_mbuf, refcnt) == 18, "refcnt");
_Static_assert(offsetof(struct rte_mbuf, nb_segs) == 20, "nb_segs");
_Static_assert(offsetof(struct rte_mbuf, ol_flags) == 24, "ol_flags");
_Static_assert(offsetof(struct rte_mbuf, pkt_len) == 36, "pkt_len");
_Static_assert(offsetof(struct rte_mbuf, data_len) == 40, "data_len");
_Static_assert(offsetof(struct rte_mbuf, buf_len) == 54, "buf_len");
_Static_assert(sizeof(struct rte_mbuf) == 128, "size");

/* As `Description` and `Counts` in ffi.rs have them. */
struct description {
	uint64_t rss;
	int32_t socket;
	uint32_t interface;
	uint32_t reta_size;
	uint32_t key_size;
	uint16_t max_rx;
	uint16_t max_tx;
	char driver[36];
};
_Static_assert(sizeof(struct description) == 64, "description");

struct counts {
	uint64_t missed;
	uint64_t no_memory;
	uint64_t rx_errors;
	uint64_t tx_errors;
};

/* The last messages of DPDK's, instead of on the terminal. */
static char log_text[2048];
static size_t log_len;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t keep(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	const char *from = text;
	size_t kept = len;
	if (kept > sizeof(log_text)) {
		from += kept - sizeof(log_text);
		kept = sizeof(log_text);
	}
	pthread_mutex_lock(&log_lock);
	if (log_len + kept > sizeof(log_text)) {
		size_t gone = log_len + kept - sizeof(log_text);
		memmove(log_text, log_text + gone, log_len - gone);
		log_len -= gone;
	}
	memcpy(log_text + log_len, from, kept);
	log_len += kept;
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)len;
}

size_t anabranch_dpdk_take_log(char *to, size_t room)
{
	pthread_mutex_lock(&log_lock);
	size_t len = log_len < room ? log_len : room;
	memcpy(to, log_text, len);
	log_len = 0;
	pthread_mutex_unlock(&log_lock);
	return len;
}

/* As libbpf and libxdp, by which net_af_xdp works, have what they say written; the lowest level is a warning. */
typedef int (*writer)(int level, const char *format, va_list words);

static int keep_warning(int level, const char *format, va_list words)
{
	char text[512];
	int len;
	if (level > 0)
		return 0;
	len = vsnprintf(text, sizeof(text), format, words);
	if (len > 0)
		keep(NULL, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
	return len;
}

/* They write to the terminal by themselves. Nothing is loaded that no driver has loaded. */
static void take_words_of(const char *library, const char *setter)
{
	writer (*set)(writer);
	void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	if (loaded == NULL)
		return;
	*(void **)&set = dlsym(loaded, setter);
	if (set != NULL)
		set(keep_warning);
}

const char *anabranch_dpdk_version(void)
{
	return rte_version();
}

/* EAL pins the thread that starts it to a core; it is to stay where it was. */
int anabranch_dpdk_start_eal(int argc, char **argv)
{
	cpu_set_t before;
	cookie_io_functions_t functions = { .write = keep };
	FILE *log = fopencookie(NULL, "w", functions);
	if (log == NULL || rte_openlog_stream(log) != 0)
		return -ENOMEM;
	setvbuf(log, NULL, _IOLBF, 512);
	int asked = pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	int done = rte_eal_init(argc, argv);
	take_words_of("libbpf.so.1", "libbpf_set_print");
	take_words_of("libxdp.so.1", "libxdp_set_print");
	if (asked == 0)
		pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	if (done >= 0)
		return 0;
	return rte_errno ? -rte_errno : -EIO;
}

int anabranch_dpdk_first_core(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &set))
			return core;
	return 0;
}

int anabranch_dpdk_register_thread(void)
{
	if (rte_thread_register() == 0)
		return 0;
	return rte_errno ? -rte_errno : -EIO;
}

void anabranch_dpdk_unregister_thread(void)
{
	rte_thread_unregister();
}

int anabranch_dpdk_probe(const char *devargs, const char *name, uint16_t *port)
{
	struct rte_dev_iterator iterator;
	int done;
	/* Probing what is there already succeeds, and gives somebody else's port. */
	if (rte_eth_dev_get_port_by_name(name, port) == 0)
		return -EEXIST;
	done = rte_dev_probe(devargs);
	if (done < 0)
		return done;
	if (rte_eth_dev_get_port_by_name(name, port) == 0)
		return 0;
	RTE_ETH_FOREACH_MATCHING_DEV(*port, devargs, &iterator) {
		rte_eth_iterator_cleanup(&iterator);
		return 0;
	}
	return -ENODEV;
}

int anabranch_dpdk_describe(uint16_t port, struct description *to)
{
	struct rte_eth_dev_info info;
	int done = rte_eth_dev_info_get(port, &info);
	if (done != 0)
		return done;
	memset(to, 0, sizeof(*to));
	to->rss = info.flow_type_rss_offloads;
	to->socket = rte_eth_dev_socket_id(port);
	to->interface = info.if_index;
	to->reta_size = info.reta_size;
	to->key_size = info.hash_key_size;
	to->max_rx = info.max_rx_queues;
	to->max_tx = info.max_tx_queues;
	snprintf(to->driver, sizeof(to->driver), "%s", info.driver_name ? info.driver_name : "");
	return 0;
}

struct rte_mempool *anabranch_dpdk_make_pool(const char *name, unsigned count, unsigned cache,
					     uint16_t room, int socket)
{
	return rte_pktmbuf_pool_create(name, count, cache, 0, room, socket);
}

void anabranch_dpdk_free_pool(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

struct bounds {
	uintptr_t start;
	uintptr_t end;
};

static void extend(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *memory,
		   unsigned number)
{
	struct bounds *bounds = opaque;
	uintptr_t start = (uintptr_t)memory->addr;
	(void)pool;
	(void)number;
	if (start < bounds->start)
		bounds->start = start;
	if (start + memory->len > bounds->end)
		bounds->end = start + memory->len;
}

/* Where a pool lies. */
void anabranch_dpdk_bounds(struct rte_mempool *pool, uintptr_t *start, uintptr_t *end)
{
	struct bounds bounds = { UINTPTR_MAX, 0 };
	rte_mempool_mem_iter(pool, extend, &bounds);
	*start = bounds.start;
	*end = bounds.end;
}

int anabranch_dpdk_start(uint16_t port, uint16_t queues, uint16_t rx_room, uint16_t tx_room,
			 struct rte_mempool *pool)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int socket = rte_eth_dev_socket_id(port);
	int done = rte_eth_dev_info_get(port, &info);
	if (done != 0)
		return done;
	memset(&conf, 0, sizeof(conf));
	if (queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			info.flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
	}
	done = rte_eth_dev_configure(port, queues, queues, &conf);
	if (done == 0)
		done = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_room, &tx_room);
	for (uint16_t queue = 0; done == 0 && queue < queues; queue++)
		done = rte_eth_rx_queue_setup(port, queue, rx_room, socket, NULL, pool);
	for (uint16_t queue = 0; done == 0 && queue < queues; queue++)
		done = rte_eth_tx_queue_setup(port, queue, tx_room, socket, NULL);
	if (done == 0)
		done = rte_eth_dev_start(port);
	return done;
}

int anabranch_dpdk_set_promiscuous(uint16_t port, int on)
{
	return on ? rte_eth_promiscuous_enable(port) : rte_eth_promiscuous_disable(port);
}

/* Longest frame, without FCS and VLAN tag. */
uint32_t anabranch_dpdk_longest(uint16_t port)
{
	uint16_t mtu = RTE_ETHER_MTU;
	rte_eth_dev_get_mtu(port, &mtu);
	return (uint32_t)mtu + RTE_ETHER_HDR_LEN;
}

int anabranch_dpdk_has_link(uint16_t port)
{
	struct rte_eth_link link;
	return rte_eth_link_get_nowait(port, &link) != 0 || link.link_status == RTE_ETH_LINK_UP;
}

int anabranch_dpdk_counts(uint16_t port, struct counts *to)
{
	struct rte_eth_stats stats;
	int done = rte_eth_stats_get(port, &stats);
	if (done != 0)
		return done;
	to->missed = stats.imissed;
	to->no_memory = stats.rx_nombuf;
	to->rx_errors = stats.ierrors;
	to->tx_errors = stats.oerrors;
	return 0;
}

void anabranch_dpdk_close(uint16_t port)
{
	struct rte_eth_dev_info info;
	int known = rte_eth_dev_info_get(port, &info);
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	/* So that a device of this name can be made again. */
	if (known == 0 && info.device != NULL)
		rte_dev_remove(info.device);
}

int anabranch_dpdk_hash(uint16_t port, uint8_t *key, uint8_t len, uint64_t *fields)
{
	struct rte_eth_rss_conf conf = { .rss_key = key, .rss_key_len = len };
	int done = rte_eth_dev_rss_hash_conf_get(port, &conf);
	*fields = conf.rss_hf;
	return done;
}

int anabranch_dpdk_set_hash(uint16_t port, uint8_t *key, uint8_t len, uint64_t fields)
{
	struct rte_eth_rss_conf conf = { .rss_key = key, .rss_key_len = len, .rss_hf = fields };
	return rte_eth_dev_rss_hash_update(port, &conf);
}

#define GROUPS (RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE)

static int select_all(struct rte_eth_rss_reta_entry64 *groups, uint16_t size)
{
	if (size > RTE_ETH_RSS_RETA_SIZE_512)
		return -ENOTSUP;
	memset(groups, 0, GROUPS * sizeof(*groups));
	for (uint16_t entry = 0; entry < size; entry++)
		groups[entry / RTE_ETH_RETA_GROUP_SIZE].mask |=
			RTE_BIT64(entry % RTE_ETH_RETA_GROUP_SIZE);
	return 0;
}

int anabranch_dpdk_table(uint16_t port, uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 groups[GROUPS];
	int done = select_all(groups, size);
	if (done == 0)
		done = rte_eth_dev_rss_reta_query(port, groups, size);
	for (uint16_t entry = 0; done == 0 && entry < size; entry++)
		queues[entry] = groups[entry / RTE_ETH_RETA_GROUP_SIZE]
					.reta[entry % RTE_ETH_RETA_GROUP_SIZE];
	return done;
}

int anabranch_dpdk_set_table(uint16_t port, const uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 groups[GROUPS];
	int done = select_all(groups, size);
	for (uint16_t entry = 0; done == 0 && entry < size; entry++)
		groups[entry / RTE_ETH_RETA_GROUP_SIZE].reta[entry % RTE_ETH_RETA_GROUP_SIZE] =
			queues[entry];
	return done == 0 ? rte_eth_dev_rss_reta_update(port, groups, size) : done;
}

uint16_t anabranch_dpdk_receive(uint16_t port, uint16_t queue, struct rte_mbuf **to, uint16_t most)
{
	return rte_eth_rx_burst(port, queue, to, most);
}

uint16_t anabranch_dpdk_send(uint16_t port, uint16_t queue, struct rte_mbuf **from, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, from, count);
}

int anabranch_dpdk_allocate(struct rte_mempool *pool, struct rte_mbuf **to, unsigned count)
{
	return rte_pktmbuf_alloc_bulk(pool, to, count);
}

void anabranch_dpdk_free(struct rte_mbuf **from, unsigned count)
{
	rte_pktmbuf_free_bulk(from, count);
}

/* A packet in one piece, in memory of the pool; the argument is freed. NULL: there is no memory, or it is too long. */
struct rte_mbuf *anabranch_dpdk_gather(struct rte_mbuf *packet, struct rte_mempool *pool)
{
	struct rte_mbuf *copy = rte_pktmbuf_copy(packet, pool, 0, UINT32_MAX);
	rte_pktmbuf_free(packet);
	if (copy != NULL && copy->nb_segs != 1) {
		rte_pktmbuf_free(copy);
		copy = NULL;
	}
	return copy;
}
