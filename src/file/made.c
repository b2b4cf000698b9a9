/* SPDX-License-Identifier: Apache-2.0 */
#include "file/made.h"

#include "base/mem.h"

#define FIRST 256U

/* Inodes of one file system are small numbers that differ; the device goes on top. */
static uint64_t key_of(const struct stat *st)
{
	uint64_t key = (uint64_t)st->st_ino ^ (uint64_t)st->st_dev << 40;

	return key ? key : 1;
}

static unsigned slot_of(const uint64_t *slots, unsigned cap, uint64_t key)
{
	unsigned i = (unsigned)(key * 0x9e3779b97f4a7c15U >> 32) & (cap - 1);

	while (slots[i] && slots[i] != key)
		i = (i + 1) & (cap - 1);
	return i;
}

void made_fini(struct made *m)
{
	free(m->slots);
	*m = (struct made){};
}

static int grow(struct made *m)
{
	unsigned cap = m->cap ? m->cap * 2 : FIRST;
	uint64_t *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (unsigned i = 0; i < m->cap; i++)
		if (m->slots[i])
			slots[slot_of(slots, cap, m->slots[i])] = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->cap = cap;
	return 0;
}

int made_add(struct made *m, const struct stat *st)
{
	uint64_t key = key_of(st);
	unsigned i;
	int r;

	if (m->n >= MADE_MAX)
		return -ENOBUFS;
	if (m->n >= m->cap / 2) {
		r = grow(m);
		if (r < 0)
			return r;
	}
	i = slot_of(m->slots, m->cap, key);
	m->n += !m->slots[i];
	m->slots[i] = key;
	return 0;
}

bool made_has(const struct made *m, const struct stat *st)
{
	uint64_t key = key_of(st);

	return m->cap && m->slots[slot_of(m->slots, m->cap, key)] == key;
}
