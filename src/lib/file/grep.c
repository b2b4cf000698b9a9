/* SPDX-License-Identifier: Apache-2.0 */
#include "file/grep.h"

#include <dirent.h>
#include <fcntl.h>
#include <regex.h>
#include <sys/stat.h>

#include "file/path-at.h"
#include "file/walk.h"

#define BLOCK (2 * GREP_LINE_MAX)
#define ENOUGH 1 /* the limit is reached */

/* A line that was passed, in case the next is a hit. */
struct grep_context_line {
	uint64_t line;
	size_t n;
	bool cut;
	char text[GREP_WIDTH_MAX];
};

struct grep {
	const struct grep_request *ask;
	struct grep_result *done;
	struct glob globs[GREP_INCLUDES_MAX];
	struct buf texts[GREP_INCLUDES_MAX]; /* which those point into */
	size_t n_globs;
	regex_t re;
	bool has_re;
	char needle[GREP_PATTERN_MAX]; /* small letters, when case is ignored */
	char lower[GREP_LINE_MAX];     /* a line in small letters */
	/* of the file at hand */
	struct slice path;
	uint64_t line, hits;
	unsigned after; /* lines of context still to come */
	struct grep_context_line *context_lines;
	unsigned n_context, first_context;
	char block[BLOCK + 1]; /* the last is 0: ASan's regexec() does not support REG_STARTEND */
};

static void grep_free(struct grep *g)
{
	for (size_t i = 0; i < g->n_globs; i++)
		glob_fini(&g->globs[i]);
	for (size_t i = 0; i < GREP_INCLUDES_MAX; i++)
		buf_fini(&g->texts[i]);
	if (g->has_re)
		regfree(&g->re);
	free(g->context_lines);
	free(g);
}

static void grep_text_to_lower(const char *in, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = ascii_to_lower(in[i]);
}

/* Where in the line the first match is, and how long. */
static bool grep_line_match(struct grep *g, struct slice l, size_t *ret_at, size_t *ret_n)
{
	struct slice what = g->ask->pattern;
	regmatch_t m = { .rm_so = 0, .rm_eo = (regoff_t)l.n };
	const char *p;

	if (!g->ask->fixed) {
		if (regexec(&g->re, l.p, 1, &m, REG_STARTEND) != 0)
			return false;
		*ret_at = (size_t)m.rm_so;
		*ret_n = (size_t)(m.rm_eo - m.rm_so);
		return true;
	}
	if (g->ask->ignore_case) {
		grep_text_to_lower(l.p, l.n, g->lower);
		p = memmem(g->lower, l.n, g->needle, what.n);
		*ret_at = p ? (size_t)(p - g->lower) : 0;
	} else {
		p = memmem(l.p, l.n, what.p, what.n);
		*ret_at = p ? (size_t)(p - l.p) : 0;
	}
	*ret_n = what.n;
	return p;
}

/* The front of a line, or the part around a match further back.  No character is cut in half. */
static struct slice grep_line_excerpt(const struct grep *g, struct slice l, size_t at, size_t n)
{
	size_t width = g->ask->width, from = 0, len;

	if (l.n <= width)
		return l;
	if (at + n > width)
		from = at > width / 4 ? at - width / 4 : 0;
	while (from && from < at && ((unsigned char)l.p[from] & 0xc0) == 0x80)
		from++;
	len = l.n - from < width ? l.n - from : width;
	if (from + len < l.n)
		len = utf8_whole_prefix_len(l.p + from, len);
	return (struct slice){ l.p + from, len };
}

static int grep_report_line(struct grep *g, uint64_t line, uint64_t column, struct slice text,
			    bool cut)
{
	struct grep_hit h = { g->path, line, column, text, cut };

	return g->ask->on_hit(g->ask->arg, &h);
}

static void grep_context_save(struct grep *g, struct slice l, bool cut)
{
	struct slice part = grep_line_excerpt(g, l, 0, 0);
	struct grep_context_line *p;

	if (!g->ask->context)
		return;
	if (g->n_context == g->ask->context) {
		g->first_context = (g->first_context + 1) % g->ask->context;
		g->n_context--;
	}
	p = &g->context_lines[(g->first_context + g->n_context++) % g->ask->context];
	p->line = g->line;
	p->n = part.n;
	p->cut = cut || part.n < l.n;
	memcpy(p->text, part.p, part.n);
}

static int grep_context_report(struct grep *g)
{
	int r = 0;

	while (r >= 0 && g->n_context) {
		const struct grep_context_line *p = &g->context_lines[g->first_context];

		r = grep_report_line(g, p->line, 0, (struct slice){ p->text, p->n }, p->cut);
		g->first_context = (g->first_context + 1) % g->ask->context;
		g->n_context--;
	}
	return r;
}

/* One line without its end; long: there is more of it than this. */
static int grep_scan_line(struct grep *g, struct slice l, bool is_long)
{
	size_t at, n;
	struct slice part;
	int r;

	g->line++;
	if (l.n && l.p[l.n - 1] == '\r')
		l.n--;
	if (g->done->hits >= g->ask->limit || !grep_line_match(g, l, &at, &n)) {
		if (g->after) {
			g->after--;
			part = grep_line_excerpt(g, l, 0, 0);
			return grep_report_line(g, g->line, 0, part, is_long || part.n < l.n);
		}
		grep_context_save(g, l, is_long);
		return g->done->hits >= g->ask->limit ? ENOUGH : 0;
	}
	r = grep_context_report(g);
	part = grep_line_excerpt(g, l, at, n);
	if (r >= 0)
		r = grep_report_line(g, g->line, at + 1, part, is_long || part.n < l.n);
	if (r < 0)
		return r;
	g->after = g->ask->context;
	g->done->hits++;
	g->hits++;
	if (g->ask->per_file && g->hits >= g->ask->per_file)
		return ENOUGH;
	return 0;
}

/* No match in these lines: only count them.  This is the common case. */
static bool grep_skip_lines(struct grep *g, struct slice lines)
{
	if (!g->ask->fixed || g->ask->ignore_case || g->ask->context ||
	    memmem(lines.p, lines.n, g->ask->pattern.p, g->ask->pattern.n))
		return false;
	for (const char *p = lines.p; (p = memchr(p, '\n', lines.n - (size_t)(p - lines.p))); p++)
		g->line++;
	return true;
}

/* All whole lines at the front of the block; *ret is how many bytes they are. */
static int grep_scan_lines(struct grep *g, size_t n, size_t *ret)
{
	const char *last = memrchr(g->block, '\n', n);
	size_t end = last ? (size_t)(last - g->block) + 1 : 0, at = 0;

	*ret = end;
	if (!end || grep_skip_lines(g, (struct slice){ g->block, end }))
		return 0;
	while (at < end) {
		const char *lf = memchr(g->block + at, '\n', end - at);
		struct slice l = { g->block + at, (size_t)(lf - g->block) - at };
		bool is_long = l.n > GREP_LINE_MAX;
		int r;

		at += l.n + 1;
		if (is_long)
			l.n = GREP_LINE_MAX;
		r = grep_scan_line(g, l, is_long);
		if (r != 0)
			return r;
	}
	return 0;
}

/* Length of the rest of a line beyond GREP_LINE_MAX in this block. */
static size_t grep_skip_line_rest(const char *p, size_t n, bool *in_rest)
{
	const char *lf = memchr(p, '\n', n);

	*in_rest = !lf;
	return lf ? (size_t)(lf - p) + 1 : n;
}

static int grep_scan_fd(struct grep *g, int fd)
{
	bool first = true, in_rest = false;
	size_t held = 0;

	for (;;) {
		ssize_t n = read(fd, g->block + held, BLOCK - held);
		size_t done = 0;
		int r = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) { /* a disk, or /proc: no reason to end all of it */
			g->done->skipped++;
			return 0;
		}
		if (n == 0)
			return held && !in_rest
				       ? grep_scan_line(g, (struct slice){ g->block, held }, false)
				       : 0;
		held += (size_t)n;
		if (first && memchr(g->block, '\0', held)) {
			g->done->binary++;
			return 0;
		}
		first = false;
		if (in_rest)
			done = grep_skip_line_rest(g->block, held, &in_rest);
		memmove(g->block, g->block + done, held - done);
		held -= done;
		done = 0;
		if (held)
			r = grep_scan_lines(g, held, &done);
		if (r != 0)
			return r;
		memmove(g->block, g->block + done, held - done);
		held -= done;
		if (held >= GREP_LINE_MAX) {
			r = grep_scan_line(g, (struct slice){ g->block, GREP_LINE_MAX }, true);
			if (r != 0)
				return r;
			in_rest = true;
			held = 0;
		}
	}
}

static bool grep_path_is_included(const struct grep *g, struct slice path)
{
	for (size_t i = 0; i < g->n_globs; i++)
		if (glob_match_path(&g->globs[i], path, false))
			return true;
	return !g->n_globs;
}

/* 0, or an error; the walk ends with -ECANCELED when there is enough. */
static int grep_search_file(struct grep *g, int fd, struct slice path)
{
	int r;

	g->path = path;
	g->line = g->hits = 0;
	g->after = g->n_context = g->first_context = 0;
	g->done->files++;
	if (g->ask->on_file)
		g->ask->on_file(g->ask->arg);
	r = grep_scan_fd(g, fd);
	if (r < 0)
		return r;
	return g->done->hits >= g->ask->limit ? -ECANCELED : 0;
}

static int on_grep_walk_entry(void *arg, const struct walk_entry *e)
{
	struct grep *g = arg;
	auto_close int fd = -EBADF;
	struct stat st;

	if (e->name[0] == '.' && !g->ask->hidden)
		return WALK_PRUNE;
	if ((e->type != DT_REG && e->type != DT_UNKNOWN) || !grep_path_is_included(g, e->path))
		return 0;
	fd = openat(e->dirfd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		g->done->skipped++;
		return 0;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return grep_search_file(g, fd, e->path);
}

static int grep_prepare_includes(struct grep *g, struct cay_err *err)
{
	if (g->ask->n_include > GREP_INCLUDES_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "include", "has at most %d",
				      GREP_INCLUDES_MAX);
	for (size_t i = 0; i < g->ask->n_include; i++) {
		struct buf *text = &g->texts[i];
		const char *p = g->ask->include[i];
		int r;

		*text = BUF_INIT(GLOB_PATTERN_MAX);
		r = buf_printf(text, "%s%s", strchr(p, '/') ? "" : "**/", p);
		if (r < 0)
			return cay_fail_field(err, CAY_E_INVALID, "include", "is too long");
		r = glob_init(&g->globs[g->n_globs++], (struct slice){ text->data, text->len },
			      true, err);
		if (r < 0) {
			cay_err_prefix_field(err, "include");
			return r;
		}
	}
	return 0;
}

static int grep_prepare(struct grep *g, struct cay_err *err)
{
	const struct grep_request *a = g->ask;
	char text[GREP_PATTERN_MAX + 1] = {};
	int r;

	if (!a->pattern.n || a->pattern.n > GREP_PATTERN_MAX || a->context > GREP_CONTEXT_MAX ||
	    !a->width || a->width > GREP_WIDTH_MAX || memchr(a->pattern.p, '\0', a->pattern.n))
		return cay_fail_field(err, CAY_E_INVALID, "pattern", "cannot be searched for");
	if (a->fixed && memchr(a->pattern.p, '\n', a->pattern.n))
		return cay_fail_field(err, CAY_E_INVALID, "pattern", "has a line feed");
	g->context_lines = calloc(a->context + 1, sizeof(*g->context_lines));
	if (!g->context_lines)
		return cay_no_memory(err);
	grep_text_to_lower(a->pattern.p, a->pattern.n, g->needle);
	if (!a->fixed) {
		memcpy(text, a->pattern.p, a->pattern.n);
		r = regcomp(&g->re, text, REG_EXTENDED | (a->ignore_case ? REG_ICASE : 0));
		if (r != 0) {
			(void)regerror(r, &g->re, text, sizeof(text));
			return cay_fail_field(err, CAY_E_INVALID, "pattern", "%s", text);
		}
		g->has_re = true;
	}
	return grep_prepare_includes(g, err);
}

static int grep_search_path(struct grep *g, struct cay_err *err)
{
	const char *path = g->ask->path;
	struct walk w = { .fn = on_grep_walk_entry, .arg = g };
	auto_close int fd = -EBADF;
	struct stat st;
	int r = grep_prepare(g, err);

	if (r < 0)
		return r;
	fd = file_open(AT_FDCWD, path, O_PATH, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return file_fail_lookup(err, fd < 0 ? -fd : errno, path);
	if (S_ISDIR(st.st_mode)) {
		r = walk_tree(&w, path, err);
		g->done->skipped += w.skipped;
	} else {
		auto_close int file = -EBADF;

		r = file_open_regular(path, &st, &file, err);
		if (r >= 0)
			r = grep_search_file(g, file, SLICE(""));
	}
	g->done->more = r == -ECANCELED;
	if (r == -ECANCELED)
		return 0;
	if (r < 0 && err && !err->code)
		return cay_no_memory(err);
	return r;
}

int grep_run(const struct grep_request *ask, struct grep_result *ret, struct cay_err *err)
{
	struct grep *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return cay_no_memory(err);
	*ret = (struct grep_result){};
	g->ask = ask;
	g->done = ret;
	r = grep_search_path(g, err);
	grep_free(g);
	return r;
}
