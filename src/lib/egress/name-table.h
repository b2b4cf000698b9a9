/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_NAME_TABLE_H
#define CAY_EGRESS_NAME_TABLE_H
/*
 * name-table - the addresses that names have inside one sandbox
 *
 * A name has one address of a network, and keeps it: programs inside remember addresses for as long
 * as they like.  The address follows from the name and a key by a hash; of two names with one hash
 * the second gets the next address, so the same names in the same order have the same addresses.
 * The first and the last address of the network belong to no name.
 *
 * Without names it takes no memory.  Bounded: NAME_TABLE_MAX names of NAME_TABLE_BYTES_MAX
 * together.  Pure.
 */
#include "base/buf.h"
#include "base/siphash.h"
#include "egress/host-name.h"

#define NAME_TABLE_MAX 16384
#define NAME_TABLE_BYTES_MAX KIB(512)

struct name_table_slot;

struct name_table {
	uint8_t key[SIPHASH_KEY_LEN];
	uint32_t net;    /* in host byte order, as all addresses here */
	uint32_t n_host; /* addresses that names may have */
	struct name_table_slot *slots;
	size_t n_slots; /* a power of 2, or 0 */
	size_t n;
	struct buf names; /* a byte of length and the text, each */
};

/* prefix is 8 to 16. */
void name_table_init(struct name_table *t, const uint8_t key[static SIPHASH_KEY_LEN], uint32_t net,
		     unsigned prefix);
void name_table_fini(struct name_table *t);
/* The address of a name, which it gets if it has none.  -ENOSPC when the table is full. */
[[nodiscard]] int name_table_add(struct name_table *t, const struct host_name *name, uint32_t *ret);
/* The name of an address, if it is one of a name. */
bool name_table_find_address(const struct name_table *t, uint32_t address, struct host_name *ret);
#endif
