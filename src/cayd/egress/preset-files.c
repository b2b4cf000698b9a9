/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/preset-files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/path.h"
#include "life/egress-preset.h"

#define NAME_MAX_LEN 63
#define HELP_MAX 255
#define SUFFIX ".conf"

struct preset_reader {
	struct arena *arena;
	struct egress_preset *rows;
	size_t n;
	struct cay_err *err;
};

static bool preset_name_is_valid(struct slice name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_lower(name.p[i]) && !ascii_is_digit(name.p[i]) && name.p[i] != '_' &&
		    name.p[i] != '-')
			return false;
	return name.n && name.n <= NAME_MAX_LEN && !slice_eq(name, SLICE("none"));
}

static int preset_parse(struct preset_reader *p, struct slice name, struct slice text)
{
	struct egress_preset *row = &p->rows[p->n];
	auto_free struct egress_rule *rules = calloc(EGRESS_PRESET_RULES_MAX, sizeof(*rules));
	struct egress_rule *kept;
	struct slice help;
	size_t n;

	if (!rules)
		return cay_no_memory(p->err);
	if (egress_preset_read(text, rules, EGRESS_PRESET_RULES_MAX, &n, &help, p->err) < 0)
		return -EINVAL;
	if (help.n > HELP_MAX)
		help.n = utf8_whole_prefix_len(help.p, HELP_MAX);
	kept = arena_alloc(p->arena, n + 1, sizeof(*kept));
	*row = (struct egress_preset){ .name = arena_strndup(p->arena, name.p, name.n),
				       .help = arena_strndup(p->arena, help.p, help.n),
				       .rules = kept,
				       .n_rules = n };
	if (!kept || !row->name || !row->help)
		return cay_no_memory(p->err);
	memcpy(kept, rules, n * sizeof(*kept));
	p->n++;
	return 0;
}

static int on_preset_file(void *arg, int dir, const char *file)
{
	struct preset_reader *p = arg;
	auto_buf text = BUF_INIT(EGRESS_PRESET_FILE_MAX);
	struct slice name = slice_of(file);
	int r;

	if (name.n <= strlen(SUFFIX) || !str_eq(file + name.n - strlen(SUFFIX), SUFFIX))
		return 0;
	name.n -= strlen(SUFFIX);
	if (p->n == PRESETS_MAX)
		return cay_fail(p->err, CAY_E_INVALID, "there are more than %d presets",
				PRESETS_MAX);
	if (!preset_name_is_valid(name))
		return cay_fail(p->err, CAY_E_INVALID,
				"%s: a preset is named by lower-case letters, digits, '-' and '_', "
				"and not 'none'",
				file);
	r = path_read(dir, file, &text);
	if (r < 0)
		return cay_fail_sys(p->err, CAY_E_INVALID, -r, "read %s", file);
	r = preset_parse(p, name, (struct slice){ buf_str(&text), text.len });
	return r < 0 ? cay_err_wrap(p->err, r, "%s", file) : 0;
}

static int preset_compare(const void *a, const void *b)
{
	return strcmp(((const struct egress_preset *)a)->name,
		      ((const struct egress_preset *)b)->name);
}

int preset_files_read(const char *dir, struct arena *arena, struct egress_presets *ret,
		      struct cay_err *err)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct preset_reader p = { .arena = arena, .err = err };
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open %s", dir);
	p.rows = arena_alloc(arena, PRESETS_MAX, sizeof(*p.rows));
	if (!p.rows)
		return cay_no_memory(err);
	r = path_for_each_entry(fd, on_preset_file, &p);
	if (r < 0)
		return err->code ? cay_err_wrap(err, r, "%s", dir)
				 : cay_fail_sys(err, CAY_E_INVALID, -r, "read %s", dir);
	qsort(p.rows, p.n, sizeof(*p.rows), preset_compare);
	*ret = (struct egress_presets){ p.rows, p.n };
	return 0;
}
