/* SPDX-License-Identifier: Apache-2.0 */
#include "file/glob-find.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"

struct glob_search {
	const struct glob_find_request *ask;
	struct glob_find_result *found;
	struct glob glob;
	struct glob_position at[WALK_DEPTH_MAX + 1]; /* before the entries of each depth */
};

/* Whether a comes before b in the answer. */
static int glob_find_compare(const void *pa, const void *pb)
{
	const struct glob_find_entry *a = pa, *b = pb;

	if (a->mtime_ns != b->mtime_ns)
		return a->mtime_ns > b->mtime_ns ? -1 : 1;
	return strcmp(a->path, b->path);
}

/* The top of the heap is the entry that comes last in the reply. */
static void glob_find_heap_sift_down(struct glob_find_entry *v, size_t n)
{
	size_t i = 0;

	for (;;) {
		size_t last = i, l = 2 * i + 1;
		struct glob_find_entry tmp = v[i];

		if (l < n && glob_find_compare(&v[l], &v[last]) > 0)
			last = l;
		if (l + 1 < n && glob_find_compare(&v[l + 1], &v[last]) > 0)
			last = l + 1;
		if (last == i)
			return;
		v[i] = v[last];
		v[last] = tmp;
		i = last;
	}
}

static void glob_find_heap_sift_up(struct glob_find_entry *v, size_t i)
{
	while (i && glob_find_compare(&v[i], &v[(i - 1) / 2]) > 0) {
		struct glob_find_entry tmp = v[i];

		v[i] = v[(i - 1) / 2];
		v[(i - 1) / 2] = tmp;
		i = (i - 1) / 2;
	}
}

static uint64_t stat_mtime_ns(const struct stat *st)
{
	if (st->st_mtim.tv_sec < 0) /* before 1970: as old as can be */
		return 0;
	return (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

static int glob_find_add_entry(struct glob_search *s, const struct walk_entry *e,
			       const struct stat *st)
{
	struct glob_find_result *f = s->found;
	size_t front = s->glob.absolute;
	struct glob_find_entry one = {
		.path = malloc(e->path.n + front + 1),
		.n = e->path.n + front,
		.mtime_ns = stat_mtime_ns(st),
		.size = (uint64_t)st->st_size,
		.type = (unsigned char)IFTODT(st->st_mode),
	};

	if (!one.path)
		return -ENOMEM;
	one.path[0] = '/';
	memcpy(one.path + front, e->path.p, e->path.n + 1);
	f->total++;
	if (f->n < s->ask->limit) {
		f->v[f->n] = one;
		glob_find_heap_sift_up(f->v, f->n++);
		return 0;
	}
	if (glob_find_compare(&one, &f->v[0]) > 0) {
		free(one.path);
		return 0;
	}
	free(f->v[0].path);
	f->v[0] = one;
	glob_find_heap_sift_down(f->v, f->n);
	return 0;
}

static int on_glob_find_entry(void *arg, const struct walk_entry *e)
{
	struct glob_search *s = arg;
	struct glob_position *next = &s->at[e->depth + 1];
	bool dir = e->type == DT_DIR;
	struct stat st;

	glob_step(&s->glob, &s->at[e->depth], slice_of(e->name), next);
	if (glob_is_match(&s->glob, next, dir) &&
	    (s->ask->type == GLOB_FIND_ANY || dir == (s->ask->type == GLOB_FIND_DIR)) &&
	    fstatat(e->dirfd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		int r = glob_find_add_entry(s, e, &st);

		if (r < 0)
			return r;
	}
	return dir && !glob_can_match_below(&s->glob, next) ? WALK_PRUNE : 0;
}

static int glob_find_walk(struct glob_search *s, struct cay_err *err)
{
	const struct glob_find_request *ask = s->ask;
	struct glob_find_result *f = s->found;
	struct walk w = { .fn = on_glob_find_entry, .arg = s };
	int r = glob_init(&s->glob, ask->pattern, ask->hidden, err);

	if (r < 0)
		return r;
	f->v = calloc(ask->limit, sizeof(*f->v));
	if (!f->v)
		return cay_no_memory(err);
	glob_start(&s->glob, &s->at[0]);
	r = walk_tree(&w, s->glob.absolute ? "/" : ask->dir, err);
	if (r == -ENOMEM)
		r = cay_no_memory(err);
	f->skipped = w.skipped;
	qsort(f->v, f->n, sizeof(*f->v), glob_find_compare);
	return r;
}

int glob_find_run(const struct glob_find_request *ask, struct glob_find_result *ret,
		  struct cay_err *err)
{
	struct glob_search *s;
	int r;

	if (ask->limit < 1 || ask->limit > GLOB_FIND_LIMIT_MAX)
		return cay_fail(err, CAY_E_INVALID, "cannot search");
	s = calloc(1, sizeof(*s));
	if (!s)
		return cay_fail(err, CAY_E_NO_MEMORY, "cannot search");
	s->ask = ask;
	s->found = ret;
	r = glob_find_walk(s, err);
	glob_fini(&s->glob);
	free(s);
	return r;
}

void glob_find_fini(struct glob_find_result *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->v[i].path);
	free(f->v);
}
