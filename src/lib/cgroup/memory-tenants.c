/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/memory-tenants.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/path.h"
#include "cgroup/cgroup.h"

#define TENANTS_MAX 80000 /* more than there can be */

static int memory_tenant_compare(const void *a, const void *b)
{
	static_assert(offsetof(struct memory_tenant, id) == 0);
	return memcmp(a, b, sizeof(struct id));
}

static const struct memory_tenant *memory_tenant_find(const struct memory_tenants *t,
						      const struct id *id)
{
	return t->n ? bsearch(id, t->of, t->n, sizeof(*t->of), memory_tenant_compare) : NULL;
}

static int memory_tenant_read(int dir, bool v1, struct memory_tenant *d)
{
	struct stat st;
	int r = cgroup_read_memory_usage(dir, v1, &d->usage);

	if (r >= 0)
		r = cgroup_read_memory_cache(dir, v1, &d->cache);
	if (r < 0 || fstat(dir, &st) < 0)
		return r < 0 ? r : -errno;
	if (d->cache > d->usage)
		d->cache = d->usage;
	d->need = d->usage - d->cache;
	d->in_use = st.st_nlink > 2;
	return 0;
}

static int memory_tenants_append(struct memory_tenants *t, const struct memory_tenant *d)
{
	size_t cap = t->cap ? 2 * t->cap : 64;
	struct memory_tenant *more;

	if (t->n == t->cap) {
		more = cap > 2 * (size_t)TENANTS_MAX ? NULL : realloc(t->of, cap * sizeof(*d));
		if (!more)
			return -ENOMEM;
		t->of = more;
		t->cap = cap;
	}
	t->of[t->n++] = *d;
	t->n_in_use += d->in_use;
	return 0;
}

struct memory_tenants_pass {
	const struct memory_tenants *before;
	struct memory_tenants now;
};

static int on_memory_tenant(void *arg, int top, const char *name)
{
	struct memory_tenants_pass *p = arg;
	const struct memory_tenant *old;
	struct memory_tenant d = {};
	auto_close int dir = -EBADF;

	if (id_parse(ID_TENANT, slice_of(name), &d.id) < 0)
		return 0;
	dir = path_open(top, name, O_RDONLY | O_DIRECTORY, 0);
	old = memory_tenant_find(p->before, &d.id);
	if (old)
		d = *old;
	d.seen_before = old;
	if (dir < 0 || memory_tenant_read(dir, p->now.v1, &d) < 0)
		return 0; /* removed meanwhile */
	return memory_tenants_append(&p->now, &d);
}

int memory_tenants_read(struct memory_tenants *t)
{
	struct memory_tenants_pass p = { t, { .top = t->top, .v1 = t->v1 } };
	int r = path_for_each_entry(t->top, on_memory_tenant, &p);

	if (r >= 0 && p.now.n) {
		qsort(p.now.of, p.now.n, sizeof(*p.now.of), memory_tenant_compare);
		p.now.shares = calloc(p.now.n, sizeof(*p.now.shares));
		r = p.now.shares ? 0 : -ENOMEM;
	}
	if (r < 0) {
		memory_tenants_fini(&p.now);
		return r;
	}
	for (size_t i = 0; i < p.now.n; i++)
		p.now.shares[i].need = p.now.of[i].need;
	memory_tenants_fini(t);
	*t = p.now;
	return 0;
}

void memory_tenants_fini(struct memory_tenants *t)
{
	free(t->of);
	free(t->shares);
	*t = (struct memory_tenants){ .top = t->top, .v1 = t->v1 };
}

bool memory_tenant_is_largest(const struct memory_tenants *t, size_t i)
{
	return t->shares[i].slow == MEMORY_SHARE_NONE;
}

struct memory_tenant memory_tenant_settle(const struct memory_tenants *t, size_t i, uint64_t all,
					  uint64_t used)
{
	const struct memory_share *s = &t->shares[i];
	uint64_t margin = memory_share_margin(all);
	struct memory_tenant want = t->of[i];

	want.low = (all - margin) / (t->n_in_use ? t->n_in_use : 1); /* an equal part */
	want.slow = MEMORY_SHARE_NONE;
	want.ceiling = s->ceiling;
	if (memory_tenant_is_largest(t, i)) {
		/* with less free, the kernel has to take the cache back */
		if (used + 2 * margin <= all)
			want.ceiling += want.cache;
		return want;
	}
	want.slow = want.cache + s->slow;
	/* it waits, on v2 above memory.high and on v1 at the limit of all: nothing kills it within
	 * its part */
	if (t->v1)
		want.ceiling = MEMORY_SHARE_NONE;
	else
		want.ceiling = want.cache + (s->ceiling > want.low ? s->ceiling : want.low);
	return want;
}
