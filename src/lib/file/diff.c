/* SPDX-License-Identifier: Apache-2.0 */
#include "file/diff.h"

#include <stdint.h>
#include <string.h>

#define CONTEXT ((size_t)3)
#define LINES_MAX 1000000 /* to be compared one by one, of either side */
#define MYERS_MAX 1024    /* lines that differ between two anchors */
#define PATIENCE_MAX 12   /* times a stretch is split again */

struct diff_line {
	const char *p;
	size_t n;    /* with its line feed */
	uint32_t id; /* equal lines have equal ids */
};

struct diff_side {
	struct diff_line *v;
	bool *changed; /* one more than lines, always false: an end mark */
	size_t n;
};

struct diff {
	struct diff_side a, b;
	uint32_t n_ids;
	/* of one stretch: how often an id occurs, and where last */
	uint32_t *count_a, *count_b, *at_b;
	int32_t *trace; /* Myers' furthest points, one row a step */
};

static void diff_fini(struct diff *d)
{
	free(d->a.v);
	free(d->a.changed);
	free(d->b.v);
	free(d->b.changed);
	free(d->count_a);
	free(d->count_b);
	free(d->at_b);
	free(d->trace);
}

static size_t diff_line_len(struct slice s)
{
	const char *lf = s.n ? memchr(s.p, '\n', s.n) : NULL;

	return lf ? (size_t)(lf - s.p) + 1 : s.n;
}

static int diff_split_lines(struct slice s, struct diff_side *ret)
{
	size_t n = 0;

	for (const char *p = s.p; n <= LINES_MAX && s.n && p < s.p + s.n; n++)
		p += diff_line_len((struct slice){ p, s.n - (size_t)(p - s.p) });
	if (n > LINES_MAX)
		return -E2BIG;
	ret->v = calloc(n + 1, sizeof(*ret->v));
	ret->changed = calloc(n + 1, sizeof(*ret->changed));
	if (!ret->v || !ret->changed)
		return -ENOMEM;
	for (; s.n; ret->n++) {
		size_t len = diff_line_len(s);

		ret->v[ret->n] = (struct diff_line){ .p = s.p, .n = len };
		s.p += len;
		s.n -= len;
	}
	return 0;
}

static int diff_compare_lines(const void *pa, const void *pb)
{
	const struct diff_line *a = *(struct diff_line *const *)pa,
			       *b = *(struct diff_line *const *)pb;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return memcmp(a->p, b->p, a->n);
}

/* By sorting: no hash that can be made to collide. */
static int diff_assign_line_ids(struct diff *d)
{
	size_t n = d->a.n + d->b.n;
	auto_free struct diff_line **all = calloc(n + 1, sizeof(struct diff_line *));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		all[i] = i < d->a.n ? &d->a.v[i] : &d->b.v[i - d->a.n];
	qsort(all, n, sizeof(struct diff_line *), diff_compare_lines);
	for (size_t i = 0; i < n; i++) {
		if (i && diff_compare_lines(&all[i - 1], &all[i]) != 0)
			d->n_ids++;
		all[i]->id = d->n_ids;
	}
	d->n_ids++;
	d->count_a = calloc(d->n_ids, sizeof(*d->count_a));
	d->count_b = calloc(d->n_ids, sizeof(*d->count_b));
	d->at_b = calloc(d->n_ids, sizeof(*d->at_b));
	d->trace = calloc(MYERS_MAX + 1, (size_t)(2 * MYERS_MAX + 3) * sizeof(*d->trace));
	return d->count_a && d->count_b && d->at_b && d->trace ? 0 : -ENOMEM;
}

/* Lines [a0, a1) of one side against [b0, b1) of the other. */
struct diff_range {
	size_t a0, a1, b0, b1;
};

static bool diff_lines_are_equal(const struct diff *d, size_t a, size_t b)
{
	return d->a.v[a].id == d->b.v[b].id;
}

static void diff_trim_equal_ends(const struct diff *d, struct diff_range *s)
{
	while (s->a0 < s->a1 && s->b0 < s->b1 && diff_lines_are_equal(d, s->a0, s->b0)) {
		s->a0++;
		s->b0++;
	}
	while (s->a0 < s->a1 && s->b0 < s->b1 && diff_lines_are_equal(d, s->a1 - 1, s->b1 - 1)) {
		s->a1--;
		s->b1--;
	}
}

static void diff_mark_all_changed(struct diff *d, const struct diff_range *s)
{
	memset(d->a.changed + s->a0, 1, s->a1 - s->a0);
	memset(d->b.changed + s->b0, 1, s->b1 - s->b0);
}

static int32_t *diff_trace_row(const struct diff *d, long step)
{
	return d->trace + step * (2 * MYERS_MAX + 3) + MYERS_MAX + 1;
}

/* Where the path came from on diagonal k: from above (an added line) or from the left. */
static bool diff_step_is_insert(const int32_t *v, long k, long step)
{
	return k == -step || (k != step && v[k - 1] < v[k + 1]);
}

/* The steps of the shortest path, or MYERS_MAX + 1 when it has more. */
static long diff_find_shortest_path(struct diff *d, const struct diff_range *s)
{
	long n = (long)(s->a1 - s->a0), m = (long)(s->b1 - s->b0);

	for (long step = 0; step <= MYERS_MAX; step++) {
		int32_t *v = diff_trace_row(d, step);

		if (step)
			memcpy(v - MYERS_MAX - 1, diff_trace_row(d, step - 1) - MYERS_MAX - 1,
			       (2 * MYERS_MAX + 3) * sizeof(*v));
		else
			memset(v - MYERS_MAX - 1, 0, (2 * MYERS_MAX + 3) * sizeof(*v));
		for (long k = -step; k <= step; k += 2) {
			long x = !step                             ? 0
				 : diff_step_is_insert(v, k, step) ? v[k + 1]
								   : v[k - 1] + 1;

			while (x < n && x - k < m && x - k >= 0 &&
			       diff_lines_are_equal(d, s->a0 + (size_t)x, s->b0 + (size_t)(x - k)))
				x++;
			v[k] = (int32_t)x;
			if (x >= n && x - k >= m)
				return step;
		}
	}
	return MYERS_MAX + 1;
}

static void diff_compare_myers(struct diff *d, const struct diff_range *s)
{
	long x = (long)(s->a1 - s->a0), y = (long)(s->b1 - s->b0);
	long step = diff_find_shortest_path(d, s);

	if (step > MYERS_MAX) {
		diff_mark_all_changed(d, s);
		return;
	}
	for (; step > 0; step--) {
		const int32_t *v = diff_trace_row(d, step - 1);
		long k = x - y;

		if (diff_step_is_insert(v, k, step)) {
			x = v[k + 1];
			y = x - (k + 1);
			d->b.changed[s->b0 + (size_t)y] = true;
		} else {
			x = v[k - 1];
			y = x - (k - 1);
			d->a.changed[s->a0 + (size_t)x] = true;
		}
	}
}

struct diff_anchor {
	uint32_t a, b;
	uint32_t before; /* index + 1 of the one in front in the longest chain, or 0 */
};

/* Lines that occur once on both sides, in the order of a. */
static size_t diff_find_unique_lines(struct diff *d, const struct diff_range *s,
				     struct diff_anchor *ret)
{
	size_t n = 0;

	for (size_t i = s->a0; i < s->a1; i++)
		d->count_a[d->a.v[i].id]++;
	for (size_t i = s->b0; i < s->b1; i++) {
		d->count_b[d->b.v[i].id]++;
		d->at_b[d->b.v[i].id] = (uint32_t)i;
	}
	for (size_t i = s->a0; i < s->a1; i++) {
		uint32_t id = d->a.v[i].id;

		if (d->count_a[id] == 1 && d->count_b[id] == 1)
			ret[n++] = (struct diff_anchor){ (uint32_t)i, d->at_b[id], 0 };
	}
	for (size_t i = s->a0; i < s->a1; i++)
		d->count_a[d->a.v[i].id] = 0;
	for (size_t i = s->b0; i < s->b1; i++)
		d->count_b[d->b.v[i].id] = 0;
	return n;
}

/* The longest chain that also ascends in b: moved to the front of v, in order. */
static size_t diff_find_longest_chain(struct diff_anchor *v, size_t n, uint32_t *ends)
{
	size_t len = 0;
	uint32_t at;

	for (size_t i = 0; i < n; i++) {
		size_t lo = 0, hi = len;

		while (lo < hi) {
			size_t mid = (lo + hi) / 2;

			if (v[ends[mid]].b < v[i].b)
				lo = mid + 1;
			else
				hi = mid;
		}
		v[i].before = lo ? ends[lo - 1] + 1 : 0;
		ends[lo] = (uint32_t)i;
		if (lo == len)
			len++;
	}
	at = len ? ends[len - 1] : 0;
	for (size_t i = len; i-- > 0;) {
		ends[i] = at;
		at = v[at].before - 1;
	}
	for (size_t i = 0; i < len; i++)
		v[i] = v[ends[i]]; /* ends[i] >= i */
	return len;
}

static int diff_compare_range(struct diff *d, struct diff_range s, unsigned depth);

/* v and ends are room for the anchors.  It is PATIENCE_MAX deep. */
static int diff_compare_gaps(struct diff *d, const struct diff_range *s, struct diff_anchor *v,
			     uint32_t *ends, unsigned depth)
{
	size_t n = depth < PATIENCE_MAX
			   ? diff_find_longest_chain(v, diff_find_unique_lines(d, s, v), ends)
			   : 0;

	if (!n)
		diff_compare_myers(d, s);
	for (size_t i = 0; n && i <= n; i++) {
		struct diff_range gap = *s;
		int r;

		if (i) {
			gap.a0 = v[i - 1].a + 1;
			gap.b0 = v[i - 1].b + 1;
		}
		if (i < n) {
			gap.a1 = v[i].a;
			gap.b1 = v[i].b;
		}
		r = diff_compare_range(d, gap, depth + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

static int diff_compare_range(struct diff *d, struct diff_range s, unsigned depth)
{
	struct diff_anchor *v;
	uint32_t *ends;
	size_t most;
	int r;

	diff_trim_equal_ends(d, &s);
	if (s.a0 == s.a1 || s.b0 == s.b1) {
		diff_mark_all_changed(d, &s);
		return 0;
	}
	most = s.a1 - s.a0 < s.b1 - s.b0 ? s.a1 - s.a0 : s.b1 - s.b0;
	v = calloc(most + 1, sizeof(*v));
	ends = calloc(most + 1, sizeof(*ends));
	r = v && ends ? diff_compare_gaps(d, &s, v, ends, depth) : -ENOMEM;
	free(v);
	free(ends);
	return r;
}

static int diff_write_line(struct buf *ret, char sign, const struct diff_line *l)
{
	int r = buf_putc(ret, sign);

	if (r >= 0)
		r = buf_append(ret, l->p, l->n);
	if (r >= 0 && l->p[l->n - 1] != '\n')
		r = buf_puts(ret, "\n\\ No newline at end of file\n");
	return r;
}

/* A name for a header; one with special characters is quoted as patch(1) expects. */
static int diff_write_name(struct buf *ret, const char *front, struct slice name)
{
	bool quote = !utf8_is_valid(name.p, name.n);
	int r = buf_puts(ret, front);

	for (size_t i = 0; i < name.n; i++)
		quote = quote || (unsigned char)name.p[i] < ' ' || strchr("\"\\\x7f", name.p[i]);
	if (r >= 0 && !quote)
		r = buf_append(ret, name.p, name.n);
	if (r >= 0 && quote)
		r = buf_putc(ret, '"');
	for (size_t i = 0; r >= 0 && quote && i < name.n; i++) {
		unsigned char c = (unsigned char)name.p[i];

		if (c < ' ' || c >= 0x7f || c == '"' || c == '\\')
			r = buf_printf(ret, "\\%03o", (unsigned)c);
		else
			r = buf_putc(ret, (char)c);
	}
	if (r >= 0 && quote)
		r = buf_putc(ret, '"');
	return r < 0 ? r : buf_putc(ret, '\n');
}

/* "3,4"; an empty range names the line before it. */
static int diff_write_range(struct buf *ret, char sign, size_t from, size_t n)
{
	if (n == 1)
		return buf_printf(ret, "%c%zu", sign, from + 1);
	return buf_printf(ret, "%c%zu,%zu", sign, n ? from + 1 : from, n);
}

/* Lines of a stretch in order: equal lines, else removed before added. */
static int diff_write_hunk(const struct diff *d, const struct diff_range *s, size_t skipped,
			   struct buf *ret)
{
	size_t i = s->a0, k = s->b0;
	int r = buf_puts(ret, "@@ ");

	if (r >= 0)
		r = diff_write_range(ret, '-', s->a0 + skipped, s->a1 - s->a0);
	if (r >= 0)
		r = buf_putc(ret, ' ');
	if (r >= 0)
		r = diff_write_range(ret, '+', s->b0 + skipped, s->b1 - s->b0);
	if (r >= 0)
		r = buf_puts(ret, " @@\n");
	while (r >= 0 && (i < s->a1 || k < s->b1)) {
		if (d->a.changed[i]) {
			r = diff_write_line(ret, '-', &d->a.v[i++]);
		} else if (d->b.changed[k]) {
			r = diff_write_line(ret, '+', &d->b.v[k++]);
		} else {
			r = diff_write_line(ret, ' ', &d->a.v[i++]);
			k++;
		}
	}
	return r;
}

static size_t diff_size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Hunks: runs of changes that are no further apart than their context. */
static int diff_write_hunks(const struct diff *d, size_t skipped, struct buf *ret)
{
	size_t i = 0, k = 0;

	while (i < d->a.n || k < d->b.n) {
		struct diff_range s;
		size_t lead, equal = 0;
		int r;

		if (!d->a.changed[i] && !d->b.changed[k]) {
			i++;
			k++;
			continue;
		}
		lead = diff_size_min(diff_size_min(i, k), CONTEXT);
		s = (struct diff_range){ .a0 = i - lead, .b0 = k - lead };
		while ((i < d->a.n || k < d->b.n) && equal <= 2 * CONTEXT) {
			bool a = d->a.changed[i], b = d->b.changed[k];

			equal = a || b ? 0 : equal + 1;
			i += a || !b;
			k += a ? 0 : 1;
		}
		s.a1 = i - (equal > CONTEXT ? equal - CONTEXT : 0);
		s.b1 = k - (equal > CONTEXT ? equal - CONTEXT : 0);
		r = diff_write_hunk(d, &s, skipped, ret);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Cut whole lines equal at both ends, except CONTEXT of them; returns the number cut in front. */
static size_t diff_cut_equal_ends(struct slice *a, struct slice *b)
{
	size_t front = 0, lines = 0, back = 0, most = diff_size_min(a->n, b->n), lf;

	while (front < most && a->p[front] == b->p[front])
		front++;
	/* back to the begin of the line, and of CONTEXT more */
	for (lf = 0; front && (a->p[front - 1] != '\n' || ++lf <= CONTEXT);)
		front--;
	for (size_t i = 0; i < front; i++)
		lines += a->p[i] == '\n';
	most -= front;
	while (back < most && a->p[a->n - 1 - back] == b->p[b->n - 1 - back])
		back++;
	/* on to the end of the line, and of CONTEXT more */
	for (lf = 0; back && lf <= CONTEXT; back--)
		lf += a->p[a->n - back] == '\n';
	*a = (struct slice){ a->p + front, a->n - front - back };
	*b = (struct slice){ b->p + front, b->n - front - back };
	return lines;
}

static int diff_find_changes(struct diff *d, struct slice before, struct slice after)
{
	int r = diff_split_lines(before, &d->a);

	if (r >= 0)
		r = diff_split_lines(after, &d->b);
	if (r == -E2BIG) /* the diff of a million lines is of no use */
		return -ENOBUFS;
	if (r >= 0)
		r = diff_assign_line_ids(d);
	return r < 0 ? r : diff_compare_range(d, (struct diff_range){ 0, d->a.n, 0, d->b.n }, 0);
}

int diff_unified(struct slice before, struct slice after, struct slice name, struct buf *ret)
{
	struct diff d = {};
	size_t was = ret->len, skipped;
	int r;

	if (slice_eq(before, after))
		return 0;
	skipped = diff_cut_equal_ends(&before, &after);
	r = diff_find_changes(&d, before, after);
	if (r >= 0)
		r = diff_write_name(ret, "--- a/", name);
	if (r >= 0)
		r = diff_write_name(ret, "+++ b/", name);
	if (r >= 0)
		r = diff_write_hunks(&d, skipped, ret);
	if (r < 0)
		buf_truncate(ret, was);
	diff_fini(&d);
	return r;
}
