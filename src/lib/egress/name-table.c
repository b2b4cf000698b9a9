/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/name-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 16

struct name_table_slot {
	uint32_t host; /* which address of the network, from 1; 0: the slot is free */
	uint32_t at;   /* of the name in `names` */
};

void name_table_init(struct name_table *t, const uint8_t key[static SIPHASH_KEY_LEN], uint32_t net,
		     unsigned prefix)
{
	*t = (struct name_table){ .net = net,
				  .n_host = (UINT32_MAX >> prefix) - 1,
				  .names = BUF_INIT(NAME_TABLE_BYTES_MAX) };
	memcpy(t->key, key, sizeof(t->key));
}

void name_table_fini(struct name_table *t)
{
	free(t->slots);
	buf_fini(&t->names);
}

/* The slot of an address, or the free one where it belongs; at least half of them are free. */
static struct name_table_slot *name_table_slot(const struct name_table *t, uint32_t host)
{
	size_t i = (size_t)host * UINT32_C(2654435761) & (t->n_slots - 1);

	while (t->slots[i].host && t->slots[i].host != host)
		i = (i + 1) & (t->n_slots - 1);
	return &t->slots[i];
}

static int name_table_grow(struct name_table *t)
{
	struct name_table old = *t;

	t->n_slots = old.n_slots ? 2 * old.n_slots : SLOTS_MIN;
	t->slots = calloc(t->n_slots, sizeof(*t->slots));
	if (!t->slots) {
		*t = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].host)
			*name_table_slot(t, old.slots[i].host) = old.slots[i];
	free(old.slots);
	return 0;
}

static struct slice name_table_text(const struct name_table *t, const struct name_table_slot *slot)
{
	return (struct slice){ t->names.data + slot->at + 1, (uint8_t)t->names.data[slot->at] };
}

/* Give a name the address `host`, which is free. */
static int name_table_give(struct name_table *t, const struct host_name *name, uint32_t host)
{
	size_t at = t->names.len;

	if (t->n == NAME_TABLE_MAX || name->n + 1u > t->names.max - at)
		return -ENOSPC;
	if (2 * (t->n + 1) > t->n_slots && name_table_grow(t) < 0)
		return -ENOMEM;
	if (buf_append(&t->names, &name->n, 1) < 0 ||
	    buf_append(&t->names, name->text, name->n) < 0) {
		t->names.len = at;
		return -ENOMEM;
	}
	*name_table_slot(t, host) = (struct name_table_slot){ host, (uint32_t)at };
	t->n++;
	return 0;
}

int name_table_add(struct name_table *t, const struct host_name *name, uint32_t *ret)
{
	uint32_t host = 1 + (uint32_t)(siphash(t->key, name->text, name->n) % t->n_host);
	const struct name_table_slot *slot;
	int r = 0;

	if (!t->n_slots && name_table_grow(t) < 0)
		return -ENOMEM;
	for (;; host = host % t->n_host + 1) {
		slot = name_table_slot(t, host);
		if (!slot->host) {
			r = name_table_give(t, name, host);
			break;
		}
		if (host_name_eq(name, name_table_text(t, slot)))
			break;
	}
	if (r == 0)
		*ret = t->net + host;
	return r;
}

bool name_table_find_address(const struct name_table *t, uint32_t address, struct host_name *ret)
{
	const uint32_t host = address - t->net;
	const struct name_table_slot *slot;
	struct slice text;

	if (!t->n_slots || !host || host > t->n_host)
		return false;
	slot = name_table_slot(t, host);
	if (!slot->host)
		return false;
	text = name_table_text(t, slot);
	*ret = (struct host_name){ .n = (uint8_t)text.n };
	memcpy(ret->text, text.p, text.n);
	return true;
}
