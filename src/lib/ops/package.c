/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/package.h"

#include <string.h>

#include "base/str.h"

/* Characters allowed in a name or version after its first letter or digit. */
struct package_grammar {
	const char *name, *version;
	const char *between; /* name and version */
	const char *latest;  /* used for "" */
	bool lower;          /* a name is in lower case and may have a scope: @scope/name */
	const char *const *argv;
};

static const char *const pip[] = { "python3", "-m", "pip", "install", "--no-cache-dir", NULL };
static const char *const npm[] = { "npm",        "install",   "--global",
				   "--no-audit", "--no-fund", "--no-update-notifier",
				   NULL };
/* Arguments are name, version, name, version, ...  A version that is not the newest is
 * in the archive of the repository. */
static const char *const rscript[] = {
	"Rscript",
	"-e",
	"a <- commandArgs(trailingOnly = TRUE);"
	"for (i in seq(1, length(a), 2)) {"
	"  p <- a[i]; v <- a[i + 1];"
	"  have <- function() requireNamespace(p, quietly = TRUE) &&"
	"    (v == 'latest' || packageVersion(p) == v);"
	"  if (!have()) install.packages(p);"
	"  if (!have() && v != 'latest')"
	"    install.packages(paste0(getOption('repos')[[1]], '/src/contrib/Archive/', p, '/', p,"
	"      '_', v, '.tar.gz'), repos = NULL, type = 'source');"
	"  if (!have()) { message('cannot install ', p, ' ', v); quit(status = 1) }"
	"};"
	"for (p in a[seq(1, length(a), 2)])"
	"  cat('cay: installed', p, paste0(packageVersion(p), '\\n'))",
	NULL,
};

static const struct package_grammar grammars[] = {
	{ "._-", ".!+_-", "==", NULL, false, pip },
	{ "._-", ".+-", "@", "latest", true, npm },
	{ ".", ".-", NULL, "latest", false, rscript },
};

const struct package_manager package_managers[] = {
	{ "python", offsetof(struct packages, python) },
	{ "node", offsetof(struct packages, node) },
	{ "r", offsetof(struct packages, r) },
	{},
};
static_assert(ARRAY_SIZE(package_managers) == ARRAY_SIZE(grammars) + 1);

const struct field_map *packages_get_map(const struct packages *p, const struct package_manager *m)
{
	return (const struct field_map *)(const void *)((const char *)p + m->offset);
}

bool packages_has_any(const struct packages *p)
{
	return p->python.n || p->node.n || p->r.n;
}

static bool package_char_is_plain(char c, bool lower)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (!lower && c >= 'A' && c <= 'Z');
}

static bool package_word_is_valid(struct slice s, const char *more, bool lower, size_t max)
{
	if (!s.n || s.n > max || !package_char_is_plain(s.p[0], lower) ||
	    !package_char_is_plain(s.p[s.n - 1], lower))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!package_char_is_plain(s.p[i], lower) && !strchr(more, s.p[i]))
			return false;
	return true;
}

static bool package_name_is_valid(const struct package_grammar *g, struct slice name)
{
	struct slice scope = {};

	if (g->lower && name.n && name.p[0] == '@') {
		name = (struct slice){ name.p + 1, name.n - 1 };
		scope = slice_cut(&name, '/');
		if (!package_word_is_valid(scope, g->name, true, PACKAGE_NAME_MAX))
			return false;
	}
	return package_word_is_valid(name, g->name, g->lower, PACKAGE_NAME_MAX);
}

int packages_check(const struct packages *p, struct cay_err *err)
{
	for (const struct package_manager *m = package_managers; m->name; m++) {
		const struct package_grammar *g = &grammars[m - package_managers];
		const struct field_map *map = packages_get_map(p, m);

		for (size_t i = 0; i < map->n; i++) {
			if (!package_name_is_valid(g, slice_of(map->keys[i])))
				return cay_fail_field(err, CAY_E_INVALID, "packages",
						      "'%.64s' is no name of a %s package",
						      map->keys[i], m->name);
			if (map->values[i][0] &&
			    !package_word_is_valid(slice_of(map->values[i]), g->version, false,
						   PACKAGE_VERSION_MAX))
				return cay_fail_field(err, CAY_E_INVALID, "packages",
						      "'%.64s' is no version of %s", map->values[i],
						      map->keys[i]);
		}
	}
	return 0;
}

/* name==version, name@version, or two arguments. */
static int package_argv_append(const struct package_grammar *g, const char *name,
			       const char *version, struct arena *arena, struct field_texts *ret)
{
	auto_buf text = BUF_INIT(2 * PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX + 8);
	const char *said = version[0] ? version : g->latest;
	int r = buf_puts(&text, name);

	if (r >= 0 && said && g->between)
		r = buf_printf(&text, "%s%s", g->between, said);
	if (r < 0)
		return r;
	ret->v[ret->n++] = arena_strndup(arena, text.data, text.len);
	if (!g->between && said)
		ret->v[ret->n++] = arena_strndup(arena, said, strlen(said));
	return ret->v[ret->n - 1] && ret->v[0] ? 0 : -ENOMEM;
}

int package_install_argv(const struct package_manager *m, const struct field_map *names,
			 struct arena *arena, struct field_texts *ret)
{
	const struct package_grammar *g = &grammars[m - package_managers];
	size_t fixed = 0;
	int r = 0;

	while (g->argv[fixed])
		fixed++;
	*ret = (struct field_texts){ arena_alloc(arena, fixed + 2 * names->n, sizeof(*ret->v)), 0 };
	if (!ret->v)
		return -ENOMEM;
	while (ret->n < fixed) {
		ret->v[ret->n] = g->argv[ret->n];
		ret->n++;
	}
	for (size_t i = 0; r >= 0 && i < names->n; i++)
		r = package_argv_append(g, names->keys[i], names->values[i], arena, ret);
	return arena->full ? -ENOMEM : r;
}
