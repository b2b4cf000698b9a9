/* SPDX-License-Identifier: Apache-2.0 */
#include "init/program.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "init/signals.h"
#include "init/words.h"

#define SECONDS_MAX 86400
#define PRIORITY_MAX 1000000
#define PRIORITY_PRESET 999
#define RETRIES_PRESET 3
#define STOP_MS_PRESET 10000

static const char no_room[] = "too long";

void program_fini(struct program *p)
{
	pool_fini(&p->pool);
}

static void preset(struct program *p)
{
	p->autostart = true;
	p->autorestart = SERVICE_UNEXPECTED;
	p->exits[0] = 1;
	p->priority = PRIORITY_PRESET;
	p->start_retries = RETRIES_PRESET;
	p->stop_ms = STOP_MS_PRESET;
	p->stop_signal = SIGTERM;
	p->source = "api";
}

/* Values */

static const char *take_argv(struct program *p, struct slice value)
{
	const char **v = pool_take(&p->pool, PROGRAM_ARGS_MAX + 1, sizeof(*v)), *why = no_room;
	int n = v ? words_split(&p->pool, value, v, PROGRAM_ARGS_MAX + 1, &why) : -EINVAL;

	if (n < 0)
		return why;
	if (!n || !v[0][0])
		return "it names no program";
	p->argv = (struct field_texts){ v, (size_t)n };
	return NULL;
}

/* K=V pairs with commas between them. */
static const char *take_env(struct program *p, struct slice value)
{
	auto_buf room = BUF_INIT(value.n + 2);
	char *word = buf_reserve(&room, value.n + 1) < 0 ? NULL : room.data;
	struct field_map m = { pool_take(&p->pool, PROGRAM_ENV_MAX, sizeof(char *)),
			       pool_take(&p->pool, PROGRAM_ENV_MAX, sizeof(char *)), 0 };
	const char *why = no_room;

	if (!word || !m.keys || !m.values)
		return no_room;
	for (words_skip(&value, ','); value.n; words_skip(&value, ',')) {
		ptrdiff_t n = word_take(&value, word, "=,", &why);

		words_skip(&value, 0);
		/* one in quotes may have it inside */
		if (n <= 0 || !value.n || value.p[0] != '=' || memchr(word, '=', (size_t)n))
			return n < 0 ? why : "not KEY=\"value\",KEY=\"value\"";
		value.p++;
		value.n--;
		words_skip(&value, 0);
		if (m.n == PROGRAM_ENV_MAX)
			return "too many variables";
		m.keys[m.n] = pool_strn(&p->pool, word, (size_t)n);
		n = word_take(&value, word, ",", &why);
		if (n < 0)
			return why;
		m.values[m.n] = pool_strn(&p->pool, word, (size_t)n);
		if (!m.keys[m.n] || !m.values[m.n])
			return no_room;
		m.n++;
	}
	p->env = m;
	return NULL;
}

static const char *take_text(struct program *p, struct slice value, const char **ret)
{
	*ret = pool_strn(&p->pool, value.p, value.n);
	return *ret ? NULL : no_room;
}

static const char *take_cwd(struct program *p, struct slice value)
{
	if (!value.n || value.p[0] != '/')
		return "not an absolute path";
	return take_text(p, value, &p->cwd);
}

static const char *take_user(struct program *p, struct slice value)
{
	return value.n ? take_text(p, value, &p->user) : "no user";
}

static bool is_word(struct slice value, const char *const *words)
{
	char low[16];

	if (value.n >= sizeof(low))
		return false;
	for (size_t i = 0; i < value.n; i++)
		low[i] = (char)(value.p[i] | (ascii_upper(value.p[i]) ? 0x20 : 0));
	for (; *words; words++)
		if (slice_eq((struct slice){ low, value.n }, slice_of(*words)))
			return true;
	return false;
}

static int parse_bool(struct slice value)
{
	static const char *const yes[] = { "true", "yes", "on", "t", "y", "1", NULL };
	static const char *const no[] = { "false", "no", "off", "f", "n", "0", NULL };

	return is_word(value, yes) ? 1 : is_word(value, no) ? 0 : -EINVAL;
}

static const char *take_autostart(struct program *p, struct slice value)
{
	int on = parse_bool(value);

	p->autostart = on > 0;
	return on < 0 ? "neither true nor false" : NULL;
}

static const char *take_autorestart(struct program *p, struct slice value)
{
	static const char *const unexpected[] = { "unexpected", NULL };
	int on = parse_bool(value);

	if (on >= 0)
		p->autorestart = on ? SERVICE_ALWAYS : SERVICE_NEVER;
	else if (is_word(value, unexpected))
		p->autorestart = SERVICE_UNEXPECTED;
	else
		return "none of true, false and unexpected";
	return NULL;
}

static const char *take_exits(struct program *p, struct slice value)
{
	uint64_t exits[4] = {}, n;

	while (value.p) {
		if (str_u64(slice_trim(slice_cut(&value, ',')), 0, 255, &n) < 0)
			return "not exit codes with commas between them";
		exits[n / 64] |= UINT64_C(1) << n % 64;
	}
	memcpy(p->exits, exits, sizeof(exits));
	return NULL;
}

static const char *take_priority(struct program *p, struct slice value)
{
	return str_u64(value, 0, PRIORITY_MAX, &p->priority) < 0 ? "not a number up to 1000000"
								 : NULL;
}

static const char *seconds(struct slice value, uint64_t *ret_ms)
{
	if (str_u64(value, 0, SECONDS_MAX, ret_ms) < 0)
		return "not a number of seconds up to a day";
	*ret_ms *= 1000;
	return NULL;
}

static const char *take_startsecs(struct program *p, struct slice value)
{
	return seconds(value, &p->start_ms);
}

static const char *take_stopwaitsecs(struct program *p, struct slice value)
{
	return seconds(value, &p->stop_ms);
}

static const char *take_startretries(struct program *p, struct slice value)
{
	return str_u64(value, 0, PRIORITY_MAX, &p->start_retries) < 0 ? "not a number up to 1000000"
								      : NULL;
}

static const char *take_stopsignal(struct program *p, struct slice value)
{
	uint64_t n;

	p->stop_signal = str_u64(value, 1, SIGNAL_LAST, &n) < 0 ? signal_parse(value) : (int)n;
	return p->stop_signal < 0 ? "no such signal" : NULL;
}

static const char *take_numprocs(struct program *, struct slice value)
{
	return slice_eq(value, SLICE("1")) ? NULL : "only one process a program is supported";
}

static const struct {
	const char *key;
	const char *(*take)(struct program *p, struct slice value); /* NULL, or what is wrong */
} keys[] = {
	{ "command", take_argv },
	{ "directory", take_cwd },
	{ "user", take_user },
	{ "environment", take_env },
	{ "autostart", take_autostart },
	{ "autorestart", take_autorestart },
	{ "exitcodes", take_exits },
	{ "priority", take_priority },
	{ "startsecs", take_startsecs },
	{ "startretries", take_startretries },
	{ "stopsignal", take_stopsignal },
	{ "stopwaitsecs", take_stopwaitsecs },
	{ "numprocs", take_numprocs },
};

/* Files */

struct parsing {
	const char *file;
	const struct field_map *env;
	program_fn *each;
	void *arg;
	unsigned line, sections;
	bool open; /* a program's section */
	struct program p;
	int key; /* that is being read, or -1 */
	unsigned key_line, first_line;
	struct buf value;
};

__attribute__((format(printf, 3, 4))) static void refuse(struct parsing *g, unsigned line,
							 const char *fmt, ...)
{
	struct program *p = &g->p;
	va_list ap;
	int n;

	if (p->refused[0])
		return;
	n = snprintf(p->refused, sizeof(p->refused), "%.150s:%u: ", g->file, line);
	assert(n > 0 && (size_t)n < sizeof(p->refused));
	va_start(ap, fmt);
	n = vsnprintf(p->refused + n, sizeof(p->refused) - (size_t)n, fmt, ap);
	va_end(ap);
	assert(n > 0);
}

/* %(name)s: what it stands for. */
static bool meaning(const struct parsing *g, struct slice name, struct slice *ret)
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

static const char *expand(const struct parsing *g, struct slice value, struct buf *out)
{
	while (value.n) {
		struct slice rest = value, plain = slice_cut(&rest, '%'), name, word;

		if (buf_add(out, plain.p, plain.n) < 0)
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
			if (!rest.n || rest.p[0] != 's' || !meaning(g, name, &word))
				return "a %(name)s that is not known";
			value = (struct slice){ rest.p + 1, rest.n - 1 };
		} else {
			return "a '%' that begins nothing; write %%";
		}
		if (buf_add(out, word.p, word.n) < 0)
			return no_room;
	}
	return NULL;
}

static void end_key(struct parsing *g)
{
	auto_buf out = BUF_INIT(PROGRAM_VALUE_MAX);
	struct slice value = slice_trim((struct slice){ buf_str(&g->value), g->value.len });
	const char *why;

	if (g->key < 0)
		return;
	if (memchr(value.p, 0, value.n) || !utf8_valid(value.p, value.n))
		why = "not UTF-8 text";
	else
		why = expand(g, value, &out);
	if (!why)
		why = keys[g->key].take(&g->p, (struct slice){ buf_str(&out), out.len });
	if (why)
		refuse(g, g->key_line, "%s: %s", keys[g->key].key, why);
	g->key = -1;
}

static void end_section(struct parsing *g)
{
	end_key(g);
	if (!g->open)
		return;
	g->open = false;
	if (!g->p.argv.n)
		refuse(g, g->first_line, "it has no command");
	g->each(g->arg, &g->p);
}

static void begin_section(struct parsing *g, struct slice name)
{
	struct slice kind;

	end_section(g);
	kind = slice_cut(&name, ':');
	if (!slice_eq(kind, SLICE("program")) || !name.p || g->sections == PROGRAM_SECTIONS_MAX)
		return;
	g->sections++;
	name = slice_trim(name);
	g->open = true;
	g->p = (struct program){ .pool = POOL_INIT(PROGRAM_POOL) };
	preset(&g->p);
	g->first_line = g->line;
	if (op_name_valid(name)) {
		memcpy(g->p.name, name.p, name.n);
	} else {
		int n = snprintf(g->p.name, sizeof(g->p.name), "line-%u", g->line);

		assert(n > 0 && (size_t)n < sizeof(g->p.name));
		refuse(g, g->line, "a name has 1 to %d letters, digits, '.', '_' and '-'",
		       OP_NAME_MAX);
	}
	g->p.source = pool_strn(&g->p.pool, g->file, strlen(g->file));
	if (!g->p.source)
		g->p.source = "file";
}

static int find_key(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (is_word(name, (const char *const[]){ keys[i].key, NULL }))
			return (int)i;
	return -1;
}

static void take_pair(struct parsing *g, struct slice line)
{
	size_t i = 0;

	end_key(g);
	while (i < line.n && line.p[i] != '=' && line.p[i] != ':')
		i++;
	if (i == line.n) {
		refuse(g, g->line, "neither a section nor KEY=VALUE");
		return;
	}
	g->key = find_key(slice_trim((struct slice){ line.p, i }));
	g->key_line = g->line;
	buf_clear(&g->value);
	if (g->key >= 0 && buf_add(&g->value, line.p + i + 1, line.n - i - 1) < 0)
		refuse(g, g->line, "%s", no_room);
}

/* Without what a comment says, and without the white space behind the rest. */
static struct slice bare(struct slice line)
{
	for (size_t i = 0; i < line.n; i++)
		if ((line.p[i] == ';' || line.p[i] == '#') && (!i || word_space(line.p[i - 1])))
			line.n = i;
	while (line.n && word_space(line.p[line.n - 1]))
		line.n--;
	return line;
}

static void take_line(struct parsing *g, struct slice line)
{
	bool goes_on;

	line = bare(line);
	goes_on = line.n && word_space(line.p[0]);
	if (!line.n || (goes_on && g->key < 0))
		return;
	if (line.p[0] == '[' && memchr(line.p, ']', line.n)) {
		line.p++;
		line.n--;
		begin_section(g, slice_cut(&line, ']'));
	} else if (goes_on) {
		if (buf_putc(&g->value, '\n') < 0 || buf_add(&g->value, line.p, line.n) < 0)
			refuse(g, g->line, "%s", no_room);
	} else if (g->open) {
		take_pair(g, line);
	}
}

void program_parse(struct slice text, const char *file, const struct field_map *env,
		   program_fn *each, void *arg)
{
	struct parsing g = { .file = file,
			     .env = env,
			     .each = each,
			     .arg = arg,
			     .key = -1,
			     .value = BUF_INIT(PROGRAM_VALUE_MAX) };

	while (text.p) {
		struct slice line = slice_cut(&text, '\n');

		g.line++;
		take_line(&g, line);
	}
	end_section(&g);
	buf_fini(&g.value);
}

/* Requests */

static const char *copy(struct pool *p, const char *s, bool *ok)
{
	const char *to = s ? pool_strn(p, s, strlen(s)) : NULL;

	*ok &= !s || to;
	return to;
}

static bool copy_texts(struct pool *p, const struct field_texts *from, struct field_texts *to)
{
	bool ok = true;

	to->v = pool_take(p, from->n + 1, sizeof(*to->v));
	for (size_t i = 0; to->v && i < from->n; i++)
		to->v[i] = copy(p, from->v[i], &ok);
	to->n = from->n;
	return to->v && ok;
}

static bool copy_map(struct pool *p, const struct field_map *from, struct field_map *to)
{
	bool ok = true;

	to->keys = pool_take(p, from->n, sizeof(char *));
	to->values = pool_take(p, from->n, sizeof(char *));
	for (size_t i = 0; to->keys && to->values && i < from->n; i++) {
		to->keys[i] = copy(p, from->keys[i], &ok);
		to->values[i] = copy(p, from->values[i], &ok);
	}
	to->n = from->n;
	return to->keys && to->values && ok;
}

static int check(const char *field, const char *why, struct cay_err *err)
{
	return why ? cay_fail_field(err, CAY_E_INVALID, field, "%s", why) : 0;
}

int program_from(const char *name, const struct service_put *q, struct program *ret,
		 struct cay_err *err)
{
	struct program p = { .pool = POOL_INIT(PROGRAM_POOL) };
	bool ok = true;
	int r = 0;

	preset(&p);
	assert(strlen(name) < sizeof(p.name));
	memcpy(p.name, name, strlen(name) + 1);
	p.autostart = q->autostart;
	p.autorestart = q->autorestart;
	p.priority = q->priority;
	p.start_ms = q->start_ms;
	p.start_retries = q->start_retries;
	p.stop_ms = q->stop_ms;
	p.cwd = copy(&p.pool, q->cwd, &ok);
	p.user = copy(&p.pool, q->user, &ok);
	ok &= copy_map(&p.pool, &q->env, &p.env) &&
	      (!q->has_argv || copy_texts(&p.pool, &q->argv, &p.argv));
	if (!ok)
		r = cay_fail(err, CAY_E_TOO_LARGE, "a service has at most %zu bytes", PROGRAM_POOL);
	if (r >= 0 && q->has_argv == (q->command != NULL))
		r = cay_fail_field(err, CAY_E_INVALID, "argv", "give one of argv and command");
	if (r >= 0 && q->command)
		r = check("command", take_argv(&p, slice_of(q->command)), err);
	if (r >= 0 && !p.argv.v[0][0])
		r = cay_fail_field(err, CAY_E_INVALID, "argv", "the program has no name");
	if (r >= 0 && q->exit_codes)
		r = check("exit_codes", take_exits(&p, slice_of(q->exit_codes)), err);
	if (r >= 0 && q->stop_signal)
		r = check("stop_signal", take_stopsignal(&p, slice_of(q->stop_signal)), err);
	if (r < 0) {
		program_fini(&p);
		return r;
	}
	*ret = p;
	return 0;
}
