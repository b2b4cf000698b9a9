/* SPDX-License-Identifier: Apache-2.0 */
#include "file/inode-set.h"

#include "base/mem.h"

#define FIRST 256U

/* Inodes of one file system are small numbers that differ; the device goes on top. */
static uint64_t inode_key(const struct stat *st)
{
	uint64_t key = (uint64_t)st->st_ino ^ (uint64_t)st->st_dev << 40;

	return key ? key : 1;
}

static unsigned inode_set_find_slot(const uint64_t *slots, unsigned cap, uint64_t key)
{
	unsigned i = (unsigned)(key * 0x9e3779b97f4a7c15U >> 32) & (cap - 1);

	while (slots[i] && slots[i] != key)
		i = (i + 1) & (cap - 1);
	return i;
}

void inode_set_fini(struct inode_set *m)
{
	free(m->slots);
	*m = (struct inode_set){};
}

static int inode_set_grow(struct inode_set *m)
{
	unsigned cap = m->cap ? m->cap * 2 : FIRST;
	uint64_t *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (unsigned i = 0; i < m->cap; i++)
		if (m->slots[i])
			slots[inode_set_find_slot(slots, cap, m->slots[i])] = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->cap = cap;
	return 0;
}

int inode_set_add(struct inode_set *m, const struct stat *st)
{
	uint64_t key = inode_key(st);
	unsigned i;
	int r;

	if (m->n >= INODE_SET_MAX)
		return -ENOBUFS;
	if (m->n >= m->cap / 2) {
		r = inode_set_grow(m);
		if (r < 0)
			return r;
	}
	i = inode_set_find_slot(m->slots, m->cap, key);
	m->n += !m->slots[i];
	m->slots[i] = key;
	return 0;
}

bool inode_set_has(const struct inode_set *m, const struct stat *st)
{
	uint64_t key = inode_key(st);

	return m->cap && m->slots[inode_set_find_slot(m->slots, m->cap, key)] == key;
}
