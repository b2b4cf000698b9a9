/* SPDX-License-Identifier: Apache-2.0 */
#include "text/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

#include "text/quantity.h"
#include "text/time.h"

static const struct {
	const char *name; /* in messages and the man page */
	int (*parse)(struct slice s, uint64_t *ret);
} types[] = {
	[CONF_U64] = { "a number", NULL },
	[CONF_BYTES] = { "a size such as 512Mi", quantity_parse_bytes },
	[CONF_DURATION] = { "a duration such as 15m", duration_parse },
	[CONF_BOOL] = { "yes or no", NULL },
	[CONF_CHOICE] = { "one of", NULL },
	[CONF_PATH] = { "an absolute path", NULL },
	[CONF_WORD] = { "a word of a-z, 0-9, hyphens and underscores", NULL },
	[CONF_TEXT] = { "words with one space between them", NULL },
};
static_assert(ARRAY_SIZE(types) == CONF_NUM_TYPES);

static int conf_set_number(const struct conf_key *k, struct slice s, void *at)
{
	uint64_t v;
	int r = types[k->type].parse ? types[k->type].parse(s, &v)
				     : str_parse_u64(s, 0, UINT64_MAX, &v);

	if (r < 0)
		return r;
	if (v < k->min || v > k->max)
		return -ERANGE;
	memcpy(at, &v, sizeof(v));
	return 0;
}

static int conf_set_bool(struct slice s, void *at)
{
	bool yes = slice_eq(s, SLICE("yes"));

	if (!yes && !slice_eq(s, SLICE("no")))
		return -EINVAL;
	memcpy(at, &yes, sizeof(yes));
	return 0;
}

static bool conf_is_word(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_lower(s.p[i]) && !ascii_is_digit(s.p[i]) && s.p[i] != '-' &&
		    s.p[i] != '_')
			return false;
	return s.n > 0;
}

static bool conf_is_text(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~' ||
		    (s.p[i] == ' ' && (!i || i + 1 == s.n || s.p[i + 1] == ' ')))
			return false;
	return true;
}

static int conf_set_text(const struct conf_key *k, struct slice s, char *at)
{
	if (k->type == CONF_PATH   ? !s.n || s.p[0] != '/'
	    : k->type == CONF_TEXT ? !conf_is_text(s)
				   : !conf_is_word(s))
		return -EINVAL;
	if (s.n < k->min || s.n > k->max)
		return -ERANGE;
	memcpy(at, s.p, s.n);
	at[s.n] = 0;
	return 0;
}

static int conf_set_value(const struct conf_key *k, struct slice s, void *settings)
{
	char *at = (char *)settings + k->offset;

	switch (k->type) {
	case CONF_U64:
	case CONF_BYTES:
	case CONF_DURATION:
		return conf_set_number(k, s, at);
	case CONF_BOOL:
		return conf_set_bool(s, at);
	case CONF_CHOICE:
		return str_find_choice(s, k->choices, (unsigned *)(void *)at);
	case CONF_PATH:
	case CONF_WORD:
	case CONF_TEXT:
		return conf_set_text(k, s, at);
	case CONF_NUM_TYPES:
		break;
	}
	assert(false);
	return -EINVAL;
}

/* "a number from 1 to 100000", "one of text, json" */
int conf_describe(const struct conf_key *k, struct buf *b)
{
	int r = buf_puts(b, types[k->type].name);

	if (r >= 0 && k->type == CONF_U64)
		r = buf_printf(b, " from %" PRIu64 " to %" PRIu64, k->min, k->max);
	if (r >= 0 && k->type == CONF_BYTES) {
		char lo[QUANTITY_TEXT_MAX], hi[QUANTITY_TEXT_MAX];

		quantity_format(k->min, lo);
		quantity_format(k->max, hi);
		r = buf_printf(b, ", %s to %s", lo, hi);
	}
	if (r >= 0 && k->type == CONF_DURATION) {
		char lo[DURATION_TEXT_MAX], hi[DURATION_TEXT_MAX];

		duration_format(k->min, lo);
		duration_format(k->max, hi);
		r = buf_printf(b, ", %s to %s", lo, hi);
	}
	for (unsigned i = 0; r >= 0 && k->type == CONF_CHOICE && k->choices[i]; i++)
		r = buf_printf(b, "%s %s", i ? "," : "", k->choices[i]);
	if (r >= 0 && (k->type == CONF_PATH || k->type == CONF_WORD || k->type == CONF_TEXT))
		r = buf_printf(b, " of at most %" PRIu64 " bytes", k->max);
	return r;
}

static int conf_refuse_value(const struct conf_key *k, struct slice v, const char *where,
			     struct cay_err *err)
{
	auto_buf want = BUF_INIT(512);

	if (conf_describe(k, &want) < 0)
		buf_clear(&want);
	return cay_fail(err, CAY_E_INVALID, "%s: %s = '%.*s' is not %s", where, k->key,
			(int)(v.n > 64 ? 64 : v.n), v.p, buf_str(&want));
}

void conf_set_defaults(const struct conf_table *t, void *settings)
{
	assert(t->n <= CONF_KEYS_MAX);
	for (size_t i = 0; i < t->n; i++) {
		int r = conf_set_value(&t->keys[i], slice_of(t->keys[i].value), settings);

		assert(r == 0);
	}
}

static bool conf_has_section(const struct conf_table *t, struct slice s)
{
	for (size_t i = 0; i < t->n; i++)
		if (slice_eq(s, slice_of(t->keys[i].section)))
			return true;
	return false;
}

static const struct conf_key *conf_find_key(const struct conf_table *t, struct slice section,
					    struct slice key)
{
	for (size_t i = 0; i < t->n; i++)
		if (slice_eq(section, slice_of(t->keys[i].section)) &&
		    slice_eq(key, slice_of(t->keys[i].key)))
			return &t->keys[i];
	return NULL;
}

static bool conf_is_printable(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') || s.p[i] == 0x7F)
			return false;
	return utf8_is_valid(s.p, s.n);
}

struct conf_reader {
	const struct conf_table *t;
	void *settings;
	struct slice section;
	unsigned line;
	struct conf_origin *origins; /* or NULL */
	bool seen[CONF_KEYS_MAX];
};

static int conf_parse_key(struct conf_reader *rd, struct slice line, const char *where,
			  struct cay_err *err)
{
	struct slice key = slice_trim(slice_cut(&line, '=')), value = slice_trim(line);
	const struct conf_key *k;

	if (!line.p)
		return cay_fail(err, CAY_E_INVALID, "%s: neither [section] nor key = value", where);
	if (!rd->section.p)
		return cay_fail(err, CAY_E_INVALID, "%s: '%.*s' comes before any [section]", where,
				(int)(key.n > 64 ? 64 : key.n), key.p);
	k = conf_find_key(rd->t, rd->section, key);
	if (!k)
		return cay_fail(err, CAY_E_INVALID, "%s: there is no key '%.*s' in [%.*s]", where,
				(int)(key.n > 64 ? 64 : key.n), key.p, (int)rd->section.n,
				rd->section.p);
	if (rd->seen[k - rd->t->keys])
		return cay_fail(err, CAY_E_INVALID, "%s: '%s' is set twice", where, k->key);
	rd->seen[k - rd->t->keys] = true;
	if (rd->origins)
		rd->origins[k - rd->t->keys] = (struct conf_origin){ CONF_FROM_FILE, rd->line };
	return conf_set_value(k, value, rd->settings) < 0 ? conf_refuse_value(k, value, where, err)
							  : 0;
}

static int conf_parse_line(struct conf_reader *rd, struct slice line, const char *where,
			   struct cay_err *err)
{
	if (!conf_is_printable(line))
		return cay_fail(err, CAY_E_INVALID, "%s: not plain UTF-8 text", where);
	line = slice_trim(line);
	if (!line.n || line.p[0] == '#')
		return 0;
	if (line.p[0] != '[')
		return conf_parse_key(rd, line, where, err);
	if (line.p[line.n - 1] != ']')
		return cay_fail(err, CAY_E_INVALID, "%s: a section ends in ']'", where);
	rd->section = (struct slice){ line.p + 1, line.n - 2 };
	if (!conf_has_section(rd->t, rd->section))
		return cay_fail(err, CAY_E_INVALID, "%s: there is no section [%.*s]", where,
				(int)(rd->section.n > 64 ? 64 : rd->section.n), rd->section.p);
	return 0;
}

int conf_parse_traced(const struct conf_table *t, struct slice text, const char *name,
		      void *settings, struct conf_origin *origins, struct cay_err *err)
{
	struct conf_reader rd = { .t = t, .settings = settings, .line = 1, .origins = origins };

	for (; text.n; rd.line++) {
		auto_buf where = BUF_INIT(128);
		int r = buf_printf(&where, "%.64s:%u", name, rd.line);

		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, r, "read '%s'", name);
		r = conf_parse_line(&rd, slice_cut(&text, '\n'), where.data, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int conf_parse(const struct conf_table *t, struct slice text, const char *name, void *settings,
	       struct cay_err *err)
{
	return conf_parse_traced(t, text, name, settings, NULL, err);
}

int conf_env_name(const struct conf_key *k, struct buf *b)
{
	int r = buf_printf(b, "CAY_%s_%s", k->section, k->key);

	for (size_t i = 0; r >= 0 && i < b->len; i++) {
		if (ascii_is_lower(b->data[i]))
			b->data[i] = (char)(b->data[i] - 'a' + 'A');
		else if (b->data[i] == '-')
			b->data[i] = '_';
	}
	return r;
}

int conf_apply_env_traced(const struct conf_table *t, const char *const *env, void *settings,
			  struct conf_origin *origins, struct cay_err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		auto_buf name = BUF_INIT(128);
		int r = conf_env_name(&t->keys[i], &name);

		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, r, "name of a variable");
		for (size_t e = 0; env[e]; e++) {
			struct slice value = slice_of(env[e]), key = slice_cut(&value, '=');

			if (!slice_eq(key, (struct slice){ name.data, name.len }))
				continue;
			if (!value.p || !conf_is_printable(value) ||
			    conf_set_value(&t->keys[i], value, settings) < 0)
				return conf_refuse_value(
					&t->keys[i],
					(struct slice){ value.p ? value.p : "", value.n },
					name.data, err);
			if (origins)
				origins[i] = (struct conf_origin){ .from = CONF_FROM_VARIABLE };
		}
	}
	return 0;
}

int conf_apply_env(const struct conf_table *t, const char *const *env, void *settings,
		   struct cay_err *err)
{
	return conf_apply_env_traced(t, env, settings, NULL, err);
}

int conf_value_format(const struct conf_key *k, const void *settings, struct buf *b)
{
	const char *at = (const char *)settings + k->offset;
	char text[QUANTITY_TEXT_MAX + DURATION_TEXT_MAX];
	uint64_t v = 0;
	unsigned choice = 0;

	switch (k->type) {
	case CONF_U64:
	case CONF_BYTES:
	case CONF_DURATION:
		memcpy(&v, at, sizeof(v));
		if (k->type == CONF_U64)
			return buf_printf(b, "%" PRIu64, v);
		if (k->type == CONF_BYTES)
			quantity_format(v, text);
		else
			duration_format(v, text);
		return buf_puts(b, text);
	case CONF_BOOL:
		return buf_puts(b, *(const bool *)(const void *)at ? "yes" : "no");
	case CONF_CHOICE:
		memcpy(&choice, at, sizeof(choice));
		return buf_puts(b, k->choices[choice]);
	case CONF_PATH:
	case CONF_WORD:
	case CONF_TEXT:
		return buf_puts(b, at);
	case CONF_NUM_TYPES:
		break;
	}
	assert(false);
	return -EINVAL;
}

static bool conf_key_begins_section(const struct conf_table *t, size_t i)
{
	return i == 0 || !str_eq(t->keys[i].section, t->keys[i - 1].section);
}

int conf_write_sample(const struct conf_table *t, struct buf *b)
{
	int r = buf_puts(b, "# Cay's settings.  Each line below is the default; remove the '#' to "
			    "change it.\n# A variable CAY_SECTION_KEY overrides it.  cay.conf(5) "
			    "has the same list.\n");

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		const struct conf_key *k = &t->keys[i];

		if (conf_key_begins_section(t, i))
			r = buf_printf(b, "\n[%s]\n", k->section);
		if (r >= 0)
			r = buf_printf(b, "# %s (", k->help);
		if (r >= 0)
			r = conf_describe(k, b);
		if (r >= 0)
			r = buf_printf(b, k->value[0] ? "%s)\n#%s = %s\n" : "%s)\n#%s =%s\n",
				       k->live ? "; applied on SIGHUP" : "", k->key, k->value);
	}
	return r;
}

int conf_write_man(const struct conf_table *t, struct buf *b)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		const struct conf_key *k = &t->keys[i];
		auto_buf env = BUF_INIT(128);

		if (conf_key_begins_section(t, i))
			r = buf_printf(b, "\n## [%s]\n", k->section);
		if (r >= 0)
			r = conf_env_name(k, &env);
		if (r >= 0)
			r = buf_printf(b,
				       k->value[0] ? "\n*%s* = _%s_\n\t%s: " : "\n*%s* =%s\n\t%s: ",
				       k->key, k->value, k->help);
		if (r >= 0)
			r = conf_describe(k, b);
		/* scdoc reads '_' as underline */
		for (size_t c = 0; r >= 0 && c < env.len; c++)
			r = c == 0 ? buf_printf(b, ".%s Variable: %c",
						k->live ? " Applied on SIGHUP." : "", env.data[c])
				   : buf_printf(b, "%s%c", env.data[c] == '_' ? "\\" : "",
						env.data[c]);
		if (r >= 0)
			r = buf_puts(b, ".\n");
	}
	return r;
}
