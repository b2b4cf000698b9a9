/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdckdint.h>
#include <stdint.h>
#include <string.h>

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	max_align_t data[];
};

static constexpr size_t BLOCK_SIZE = 4096 - sizeof(struct arena_block);

void arena_fini(struct arena *p)
{
	while (p->blocks) {
		struct arena_block *b = p->blocks;

		p->blocks = b->next;
		free(b);
	}
	p->left = 0;
}

void *arena_alloc(struct arena *p, size_t count, size_t size)
{
	struct arena_block *b = p->blocks;
	size_t n;
	void *ret;

	if (ckd_mul(&n, count, size) || n > SIZE_MAX - alignof(max_align_t))
		n = SIZE_MAX - alignof(max_align_t);
	n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (n > p->left) {
		p->full = true;
		return NULL;
	}
	if (!b || n > b->size - b->used) {
		size_t least = p->block ? p->block : BLOCK_SIZE, room = n > least ? n : least;

		b = calloc(1, sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct arena_block){ .next = p->blocks, .size = room };
		p->blocks = b;
	}
	ret = (char *)b->data + b->used;
	b->used += n;
	p->left -= n;
	return ret;
}

size_t arena_get_size(const struct arena *p)
{
	size_t n = 0;

	for (const struct arena_block *b = p->blocks; b; b = b->next)
		n += sizeof(*b) + b->size;
	return n;
}

char *arena_strndup(struct arena *p, const char *s, size_t n)
{
	char *ret = n < SIZE_MAX ? arena_alloc(p, n + 1, 1) : NULL;

	if (ret && n)
		memcpy(ret, s, n);
	return ret;
}
