/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer-limit.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include "base/str.h"

#define BUCKETS 4096

struct peer_limit {
	struct peer_limit *next;
	unsigned bucket, conns;
	size_t n;
	uint8_t key[16];
};

struct peer_limits {
	uint64_t seed;
	struct peer_limit *buckets[BUCKETS];
};

/* The address as bytes (IPv6: the network); returns their number, 0 for other families. */
static size_t peer_limit_key(const struct sockaddr_storage *at, uint8_t ret[static 16])
{
	if (at->ss_family == AF_INET) {
		memcpy(ret, &((const struct sockaddr_in *)(const void *)at)->sin_addr, 4);
		return 4;
	}
	if (at->ss_family != AF_INET6)
		return 0;
	memcpy(ret, &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr, 8);
	return 8;
}

struct peer_limits *peer_limits_new(void)
{
	struct peer_limits *all = calloc(1, sizeof(*all));

	if (all && getrandom(&all->seed, sizeof(all->seed), GRND_NONBLOCK) < 0)
		all->seed = (uint64_t)(uintptr_t)all;
	return all;
}

void peer_limits_free(struct peer_limits *all)
{
	for (unsigned i = 0; all && i < BUCKETS; i++)
		while (all->buckets[i]) {
			struct peer_limit *p = all->buckets[i];

			all->buckets[i] = p->next;
			free(p);
		}
	free(all);
}

struct peer_limit *peer_limit_add_conn(struct peer_limits *all, const struct sockaddr_storage *at)
{
	uint8_t key[16] = {};
	size_t n = peer_limit_key(at, key);
	struct peer_limit *p;
	uint64_t h;

	if (!n)
		return NULL;
	h = hash_bytes(all->seed, key, n);
	h = (h ^ h >> 29) % BUCKETS;
	for (p = all->buckets[h]; p; p = p->next)
		if (p->n == n && memcmp(p->key, key, n) == 0)
			break;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		*p = (struct peer_limit){ .next = all->buckets[h], .bucket = (unsigned)h, .n = n };
		memcpy(p->key, key, n);
		all->buckets[h] = p;
	}
	p->conns++;
	return p;
}

void peer_limit_remove_conn(struct peer_limits *all, struct peer_limit *p)
{
	struct peer_limit **at;

	if (!p || --p->conns)
		return;
	for (at = &all->buckets[p->bucket]; *at != p;)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

unsigned peer_limit_count_conns(const struct peer_limit *p)
{
	return p ? p->conns : 0;
}
