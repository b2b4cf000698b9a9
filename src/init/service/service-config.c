/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/service-config.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "init/core/signals.h"
#include "init/service/shlex.h"

#define SECONDS_MAX 86400
#define COUNT_MAX 1000000 /* of priority and startretries */
#define PRIORITY_PRESET 999
#define RETRIES_PRESET 3
#define STOP_MS_PRESET 10000

static const char no_room[] = "too long";

void service_config_fini(struct service_config *p)
{
	arena_fini(&p->arena);
}

static void service_config_set_defaults(struct service_config *p)
{
	p->autostart = true;
	p->autorestart = SERVICE_UNEXPECTED;
	p->expected_exits[0] = 1;
	p->priority = PRIORITY_PRESET;
	p->start_retries = RETRIES_PRESET;
	p->stop_ms = STOP_MS_PRESET;
	p->stop_signal = SIGTERM;
	p->source = "api";
}

static const char *service_config_set_argv(struct service_config *p, struct slice value)
{
	const char **v = arena_alloc(&p->arena, SERVICE_CONFIG_ARGS_MAX + 1, sizeof(*v)),
		   *why = no_room;
	int n = v ? shlex_split(&p->arena, value, v, SERVICE_CONFIG_ARGS_MAX + 1, &why) : -EINVAL;

	if (n < 0)
		return why;
	if (!n || !v[0][0])
		return "the command is empty";
	p->argv = (struct field_texts){ v, (size_t)n };
	return NULL;
}

/* K=V pairs with commas between them. */
static const char *service_config_set_env(struct service_config *p, struct slice value)
{
	auto_buf room = BUF_INIT(value.n + 2);
	char *word = buf_reserve(&room, value.n + 1) < 0 ? NULL : room.data;
	struct field_map m = { arena_alloc(&p->arena, SERVICE_CONFIG_ENV_MAX, sizeof(char *)),
			       arena_alloc(&p->arena, SERVICE_CONFIG_ENV_MAX, sizeof(char *)), 0 };
	const char *why = no_room;

	if (!word || !m.keys || !m.values)
		return no_room;
	for (shlex_skip_space(&value, ','); value.n; shlex_skip_space(&value, ',')) {
		ptrdiff_t n = shlex_next_word(&value, word, "=,", &why);

		shlex_skip_space(&value, 0);
		/* a quoted one may contain '=' */
		if (n <= 0 || !value.n || value.p[0] != '=' || memchr(word, '=', (size_t)n))
			return n < 0 ? why : "not KEY=\"value\",KEY=\"value\"";
		value.p++;
		value.n--;
		shlex_skip_space(&value, 0);
		if (m.n == SERVICE_CONFIG_ENV_MAX)
			return "too many variables";
		m.keys[m.n] = arena_strndup(&p->arena, word, (size_t)n);
		n = shlex_next_word(&value, word, ",", &why);
		if (n < 0)
			return why;
		m.values[m.n] = arena_strndup(&p->arena, word, (size_t)n);
		if (!m.keys[m.n] || !m.values[m.n])
			return no_room;
		m.n++;
	}
	p->env = m;
	return NULL;
}

static const char *service_config_copy_value(struct service_config *p, struct slice value,
					     const char **ret)
{
	*ret = arena_strndup(&p->arena, value.p, value.n);
	return *ret ? NULL : no_room;
}

static const char *service_config_set_cwd(struct service_config *p, struct slice value)
{
	if (!value.n || value.p[0] != '/')
		return "not an absolute path";
	return service_config_copy_value(p, value, &p->cwd);
}

static const char *service_config_set_user(struct service_config *p, struct slice value)
{
	return value.n ? service_config_copy_value(p, value, &p->user) : "no user";
}

static bool config_value_is_one_of(struct slice value, const char *const *words)
{
	char low[16];

	if (value.n >= sizeof(low))
		return false;
	for (size_t i = 0; i < value.n; i++)
		low[i] = (char)(value.p[i] | (ascii_is_upper(value.p[i]) ? 0x20 : 0));
	for (; *words; words++)
		if (slice_eq((struct slice){ low, value.n }, slice_of(*words)))
			return true;
	return false;
}

static int config_value_parse_bool(struct slice value)
{
	static const char *const yes[] = { "true", "yes", "on", "t", "y", "1", NULL };
	static const char *const no[] = { "false", "no", "off", "f", "n", "0", NULL };

	return config_value_is_one_of(value, yes)  ? 1
	       : config_value_is_one_of(value, no) ? 0
						   : -EINVAL;
}

static const char *service_config_set_autostart(struct service_config *p, struct slice value)
{
	int on = config_value_parse_bool(value);

	p->autostart = on > 0;
	return on < 0 ? "must be true or false" : NULL;
}

static const char *service_config_set_autorestart(struct service_config *p, struct slice value)
{
	static const char *const unexpected[] = { "unexpected", NULL };
	int on = config_value_parse_bool(value);

	if (on >= 0)
		p->autorestart = on ? SERVICE_ALWAYS : SERVICE_NEVER;
	else if (config_value_is_one_of(value, unexpected))
		p->autorestart = SERVICE_UNEXPECTED;
	else
		return "must be true, false or unexpected";
	return NULL;
}

static const char *service_config_set_exit_codes(struct service_config *p, struct slice value)
{
	uint64_t exits[4] = {}, n;

	while (value.p) {
		if (str_parse_u64(slice_trim(slice_cut(&value, ',')), 0, 255, &n) < 0)
			return "must be exit codes separated by commas";
		exits[n / 64] |= UINT64_C(1) << n % 64;
	}
	memcpy(p->expected_exits, exits, sizeof(exits));
	return NULL;
}

static const char *config_value_parse_count(struct slice value, uint64_t *ret)
{
	bool ok = str_parse_u64(value, 0, COUNT_MAX, ret) >= 0;

	return ok ? NULL : "must be a number up to 1000000";
}

static const char *service_config_set_priority(struct service_config *p, struct slice value)
{
	return config_value_parse_count(value, &p->priority);
}

static const char *config_value_parse_seconds(struct slice value, uint64_t *ret_ms)
{
	if (str_parse_u64(value, 0, SECONDS_MAX, ret_ms) < 0)
		return "must be a number of seconds, at most a day";
	*ret_ms *= 1000;
	return NULL;
}

static const char *service_config_set_startsecs(struct service_config *p, struct slice value)
{
	return config_value_parse_seconds(value, &p->start_ms);
}

static const char *service_config_set_stopwaitsecs(struct service_config *p, struct slice value)
{
	return config_value_parse_seconds(value, &p->stop_ms);
}

static const char *service_config_set_startretries(struct service_config *p, struct slice value)
{
	return config_value_parse_count(value, &p->start_retries);
}

static const char *service_config_set_stopsignal(struct service_config *p, struct slice value)
{
	uint64_t n;

	p->stop_signal =
		str_parse_u64(value, 1, SIGNAL_LAST, &n) < 0 ? signal_parse(value) : (int)n;
	return p->stop_signal < 0 ? "unknown signal" : NULL;
}

static const char *service_config_check_numprocs(struct service_config *, struct slice value)
{
	return slice_eq(value, SLICE("1")) ? NULL : "only 1 is supported";
}

static const struct {
	const char *key;
	const char *(*take)(struct service_config *p, struct slice value); /* NULL, or the error */
} service_config_keys[] = {
	{ "command", service_config_set_argv },
	{ "directory", service_config_set_cwd },
	{ "user", service_config_set_user },
	{ "environment", service_config_set_env },
	{ "autostart", service_config_set_autostart },
	{ "autorestart", service_config_set_autorestart },
	{ "exitcodes", service_config_set_exit_codes },
	{ "priority", service_config_set_priority },
	{ "startsecs", service_config_set_startsecs },
	{ "startretries", service_config_set_startretries },
	{ "stopsignal", service_config_set_stopsignal },
	{ "stopwaitsecs", service_config_set_stopwaitsecs },
	{ "numprocs", service_config_check_numprocs },
};

struct service_parser {
	const char *file;
	const struct field_map *env;
	service_config_fn *each;
	void *arg;
	unsigned line, sections;
	bool open; /* in a program's section */
	struct service_config p;
	int key; /* being read, or -1 */
	unsigned key_line, first_line;
	struct buf value;
};

[[gnu::format(printf, 3, 4)]]
static void service_parser_refuse(struct service_parser *g, unsigned line, const char *fmt, ...)
{
	struct service_config *p = &g->p;
	va_list ap;
	int n;

	if (p->refused_why[0])
		return;
	n = snprintf(p->refused_why, sizeof(p->refused_why), "%.150s:%u: ", g->file, line);
	assert(n > 0 && (size_t)n < sizeof(p->refused_why));
	va_start(ap, fmt);
	n = vsnprintf(p->refused_why + n, sizeof(p->refused_why) - (size_t)n, fmt, ap);
	va_end(ap);
	assert(n > 0);
}

/* The value of %(name)s. */
static bool service_parser_lookup_variable(const struct service_parser *g, struct slice name,
					   struct slice *ret)
{
	const char *slash = strrchr(g->file, '/');

	if (slice_eq(name, SLICE("program_name"))) {
		*ret = slice_of(g->p.name);
		return true;
	}
	if (slice_eq(name, SLICE("here"))) {
		*ret = (struct slice){ g->file, slash ? (size_t)(slash - g->file) : 0 };
		return true;
	}
	if (name.n <= 4 || memcmp(name.p, "ENV_", 4) != 0)
		return false;
	name.p += 4;
	name.n -= 4;
	for (size_t i = 0; g->env && i < g->env->n; i++)
		if (slice_eq(name, slice_of(g->env->keys[i]))) {
			*ret = slice_of(g->env->values[i]);
			return true;
		}
	return false;
}

static const char *service_parser_expand(const struct service_parser *g, struct slice value,
					 struct buf *out)
{
	while (value.n) {
		struct slice rest = value, plain = slice_cut(&rest, '%'), name, word;

		if (buf_append(out, plain.p, plain.n) < 0)
			return no_room;
		if (!rest.p)
			return NULL;
		if (rest.n && rest.p[0] == '%') {
			word = SLICE("%");
			value = (struct slice){ rest.p + 1, rest.n - 1 };
		} else if (rest.n && rest.p[0] == '(') {
			rest.p++;
			rest.n--;
			name = slice_cut(&rest, ')');
			if (!rest.n || rest.p[0] != 's' ||
			    !service_parser_lookup_variable(g, name, &word))
				return "unknown %(name)s";
			value = (struct slice){ rest.p + 1, rest.n - 1 };
		} else {
			return "a '%' must be written as %%";
		}
		if (buf_append(out, word.p, word.n) < 0)
			return no_room;
	}
	return NULL;
}

static void service_parser_end_key(struct service_parser *g)
{
	auto_buf out = BUF_INIT(SERVICE_CONFIG_VALUE_MAX);
	struct slice value = slice_trim((struct slice){ buf_str(&g->value), g->value.len });
	const char *why;

	if (g->key < 0)
		return;
	if (memchr(value.p, 0, value.n) || !utf8_is_valid(value.p, value.n))
		why = "not UTF-8 text";
	else
		why = service_parser_expand(g, value, &out);
	if (!why)
		why = service_config_keys[g->key].take(&g->p,
						       (struct slice){ buf_str(&out), out.len });
	if (why)
		service_parser_refuse(g, g->key_line, "%s: %s", service_config_keys[g->key].key,
				      why);
	g->key = -1;
}

static void service_parser_end_section(struct service_parser *g)
{
	service_parser_end_key(g);
	if (!g->open)
		return;
	g->open = false;
	if (!g->p.argv.n)
		service_parser_refuse(g, g->first_line, "the program has no command");
	g->each(g->arg, &g->p);
}

static void service_parser_begin_section(struct service_parser *g, struct slice name)
{
	struct slice kind;

	service_parser_end_section(g);
	kind = slice_cut(&name, ':');
	if (!slice_eq(kind, SLICE("program")) || !name.p ||
	    g->sections == SERVICE_CONFIG_SECTIONS_MAX)
		return;
	g->sections++;
	name = slice_trim(name);
	g->open = true;
	g->p = (struct service_config){ .arena = ARENA_INIT(SERVICE_CONFIG_POOL) };
	service_config_set_defaults(&g->p);
	g->first_line = g->line;
	if (op_name_is_valid(name)) {
		memcpy(g->p.name, name.p, name.n);
	} else {
		int n = snprintf(g->p.name, sizeof(g->p.name), "line-%u", g->line);

		assert(n > 0 && (size_t)n < sizeof(g->p.name));
		service_parser_refuse(g, g->line,
				      "a name must have 1 to %d letters, digits, '.', '_' or '-'",
				      OP_NAME_MAX);
	}
	g->p.source = arena_strndup(&g->p.arena, g->file, strlen(g->file));
	if (!g->p.source)
		g->p.source = "file";
}

static int service_parser_find_key(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(service_config_keys); i++)
		if (config_value_is_one_of(
			    name, (const char *const[]){ service_config_keys[i].key, NULL }))
			return (int)i;
	return -1;
}

static void service_parser_read_pair(struct service_parser *g, struct slice line)
{
	size_t i = 0;

	service_parser_end_key(g);
	while (i < line.n && line.p[i] != '=' && line.p[i] != ':')
		i++;
	if (i == line.n) {
		service_parser_refuse(g, g->line, "expected a section or KEY=VALUE");
		return;
	}
	g->key = service_parser_find_key(slice_trim((struct slice){ line.p, i }));
	g->key_line = g->line;
	buf_clear(&g->value);
	if (g->key >= 0 && buf_append(&g->value, line.p + i + 1, line.n - i - 1) < 0)
		service_parser_refuse(g, g->line, "%s", no_room);
}

/* Without a comment and trailing white space. */
static struct slice config_line_strip_comment(struct slice line)
{
	for (size_t i = 0; i < line.n; i++)
		if ((line.p[i] == ';' || line.p[i] == '#') && (!i || shlex_is_space(line.p[i - 1])))
			line.n = i;
	while (line.n && shlex_is_space(line.p[line.n - 1]))
		line.n--;
	return line;
}

static void service_parser_read_line(struct service_parser *g, struct slice line)
{
	bool goes_on;

	line = config_line_strip_comment(line);
	goes_on = line.n && shlex_is_space(line.p[0]);
	if (!line.n || (goes_on && g->key < 0))
		return;
	if (line.p[0] == '[' && memchr(line.p, ']', line.n)) {
		line.p++;
		line.n--;
		service_parser_begin_section(g, slice_cut(&line, ']'));
	} else if (goes_on) {
		if (buf_putc(&g->value, '\n') < 0 || buf_append(&g->value, line.p, line.n) < 0)
			service_parser_refuse(g, g->line, "%s", no_room);
	} else if (g->open) {
		service_parser_read_pair(g, line);
	}
}

void service_config_parse_file(struct slice text, const char *file, const struct field_map *env,
			       service_config_fn *each, void *arg)
{
	struct service_parser g = { .file = file,
				    .env = env,
				    .each = each,
				    .arg = arg,
				    .key = -1,
				    .value = BUF_INIT(SERVICE_CONFIG_VALUE_MAX) };

	while (text.p) {
		struct slice line = slice_cut(&text, '\n');

		g.line++;
		service_parser_read_line(&g, line);
	}
	service_parser_end_section(&g);
	buf_fini(&g.value);
}

const char *config_text_copy(struct arena *p, const char *s, bool *ok)
{
	const char *to = s ? arena_strndup(p, s, strlen(s)) : NULL;

	*ok &= !s || to;
	return to;
}

static bool service_config_copy_argv(struct arena *p, const struct field_texts *from,
				     struct field_texts *to)
{
	bool ok = true;

	to->v = arena_alloc(p, from->n + 1, sizeof(*to->v));
	for (size_t i = 0; to->v && i < from->n; i++)
		to->v[i] = config_text_copy(p, from->v[i], &ok);
	to->n = from->n;
	return to->v && ok;
}

bool config_map_copy(struct arena *p, const struct field_map *from, struct field_map *to)
{
	bool ok = true;

	to->keys = arena_alloc(p, from->n, sizeof(char *));
	to->values = arena_alloc(p, from->n, sizeof(char *));
	for (size_t i = 0; to->keys && to->values && i < from->n; i++) {
		to->keys[i] = config_text_copy(p, from->keys[i], &ok);
		to->values[i] = config_text_copy(p, from->values[i], &ok);
	}
	to->n = from->n;
	return to->keys && to->values && ok;
}

static int config_fail_field(struct cay_err *err, const char *field, const char *why)
{
	return why ? cay_fail_field(err, CAY_E_INVALID, field, "%s", why) : 0;
}

int service_config_from_request(const char *name, const struct service_put *q,
				struct service_config *ret, struct cay_err *err)
{
	struct service_config p = { .arena = ARENA_INIT(SERVICE_CONFIG_POOL) };
	bool ok = true;
	int r = 0;

	service_config_set_defaults(&p);
	assert(strlen(name) < sizeof(p.name));
	memcpy(p.name, name, strlen(name) + 1);
	p.autostart = q->autostart;
	p.autorestart = q->autorestart;
	p.priority = q->priority;
	p.start_ms = q->start_ms;
	p.start_retries = q->start_retries;
	p.stop_ms = q->stop_ms;
	p.cwd = config_text_copy(&p.arena, q->cwd, &ok);
	p.user = config_text_copy(&p.arena, q->user, &ok);
	ok &= config_map_copy(&p.arena, &q->env, &p.env) &&
	      (!q->has_argv || service_config_copy_argv(&p.arena, &q->argv, &p.argv));
	if (!ok)
		r = cay_fail(err, CAY_E_TOO_LARGE,
			     "the service's configuration is larger than %zu bytes",
			     SERVICE_CONFIG_POOL);
	if (r >= 0 && q->has_argv == (q->command != NULL))
		r = cay_fail_field(err, CAY_E_INVALID, "argv",
				   "exactly one of argv and command is required");
	if (r >= 0 && q->command)
		r = config_fail_field(err, "command",
				      service_config_set_argv(&p, slice_of(q->command)));
	if (r >= 0 && !p.argv.v[0][0])
		r = cay_fail_field(err, CAY_E_INVALID, "argv", "the program's name is empty");
	if (r >= 0 && q->exit_codes)
		r = config_fail_field(err, "exit_codes",
				      service_config_set_exit_codes(&p, slice_of(q->exit_codes)));
	if (r >= 0 && q->stop_signal)
		r = config_fail_field(err, "stop_signal",
				      service_config_set_stopsignal(&p, slice_of(q->stop_signal)));
	if (r < 0) {
		service_config_fini(&p);
		return r;
	}
	*ret = p;
	return 0;
}
