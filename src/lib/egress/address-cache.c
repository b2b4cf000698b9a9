/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/address-cache.h"

#include "base/clock.h"

static size_t address_cache_set(const struct address_cache *c, const struct id *tenant,
				const struct host_name *name)
{
	uint8_t both[sizeof(*tenant) + HOST_NAME_MAX_LEN];

	memcpy(both, tenant, sizeof(*tenant));
	memcpy(both + sizeof(*tenant), name->text, name->n);
	return siphash(c->key, both, sizeof(*tenant) + name->n) % ADDRESS_CACHE_SETS;
}

static bool address_cache_entry_is(const struct address_cache_entry *entry, const struct id *tenant,
				   const struct host_name *name)
{
	return entry->until_ns && id_eq(&entry->tenant, tenant) &&
	       host_name_eq(&entry->name, (struct slice){ name->text, name->n });
}

const struct address_cache_entry *address_cache_find(const struct address_cache *c,
						     const struct id *tenant,
						     const struct host_name *name, uint64_t now_ns)
{
	const struct address_cache_entry *set = c->entries[address_cache_set(c, tenant, name)];

	for (size_t i = 0; i < ADDRESS_CACHE_WAYS; i++)
		if (address_cache_entry_is(&set[i], tenant, name) && now_ns < set[i].until_ns)
			return &set[i];
	return NULL;
}

void address_cache_add(struct address_cache *c, const struct id *tenant,
		       const struct host_name *name, const struct dns_response *response,
		       uint64_t now_ns)
{
	struct address_cache_entry *set = c->entries[address_cache_set(c, tenant, name)];
	struct address_cache_entry *at = &set[0];
	uint64_t ttl_s =
		response->ttl < ADDRESS_CACHE_TTL_MAX_S ? response->ttl : ADDRESS_CACHE_TTL_MAX_S;

	for (size_t i = 1; i < ADDRESS_CACHE_WAYS; i++)
		if (set[i].until_ns < at->until_ns)
			at = &set[i];
	for (size_t i = 0; i < ADDRESS_CACHE_WAYS; i++)
		if (address_cache_entry_is(&set[i], tenant, name))
			at = &set[i];
	*at = (struct address_cache_entry){ .until_ns = now_ns + ttl_s * NS_PER_S,
					    .tenant = *tenant,
					    .name = *name,
					    .n = response->n };
	static_assert(sizeof(at->addresses) == sizeof(response->addresses));
	memcpy(at->addresses, response->addresses, sizeof(at->addresses));
}
