/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_ADDRESS_CACHE_H
#define CAY_EGRESS_ADDRESS_CACHE_H
/*
 * address-cache - the addresses that name servers gave, for as long as they said
 *
 * Each tenant has entries of its own: how fast a name resolves must not show what other tenants
 * look up.  A name has ADDRESS_CACHE_WAYS places by a hash with a random key; the entry that
 * expires first makes room for a new one.  Pure.
 */
#include "base/id.h"
#include "base/siphash.h"
#include "egress/dns-message.h"

#define ADDRESS_CACHE_SETS 512
#define ADDRESS_CACHE_WAYS 4
#define ADDRESS_CACHE_TTL_MAX_S 300

struct address_cache_entry {
	uint64_t until_ns; /* 0: the place is free */
	struct id tenant;
	struct host_name name;
	uint8_t n;
	uint8_t addresses[DNS_ADDRESSES_MAX][16];
};

struct address_cache {
	uint8_t key[SIPHASH_KEY_LEN]; /* random */
	struct address_cache_entry entries[ADDRESS_CACHE_SETS][ADDRESS_CACHE_WAYS];
};

/* NULL unless name servers gave addresses of the name to this tenant, and they are still good. */
const struct address_cache_entry *address_cache_find(const struct address_cache *c,
						     const struct id *tenant,
						     const struct host_name *name, uint64_t now_ns);
/* response has addresses. */
void address_cache_add(struct address_cache *c, const struct id *tenant,
		       const struct host_name *name, const struct dns_response *response,
		       uint64_t now_ns);
#endif
