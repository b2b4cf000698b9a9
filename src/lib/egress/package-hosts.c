/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/package-hosts.h"

#include <errno.h>
#include <stdio.h>

#include "egress/policy.h"

#define SPACES " \t\r\n\f\v"

struct package_reader {
	const char *counted; /* lines up to here */
	unsigned line;
	package_host_fn *fn;
	void *arg;
};

static struct slice slice_between(const char *from, const char *end)
{
	return (struct slice){ from, (size_t)(end - from) };
}

static bool char_is_in(char c, const char *set)
{
	return c && strchr(set, c);
}

/* The bytes up to one of the set; they and the byte that ends them are taken from *text. */
static struct slice slice_cut_any(struct slice *text, const char *set)
{
	struct slice all = *text;
	size_t n = 0;

	while (n < all.n && !char_is_in(all.p[n], set))
		n++;
	*text = n < all.n ? (struct slice){ all.p + n + 1, all.n - n - 1 }
			  : (struct slice){ all.p + n, 0 };
	return (struct slice){ all.p, n };
}

/* A line, without its end. */
static struct slice slice_cut_line(struct slice *text)
{
	struct slice line = slice_cut_any(text, "\n");

	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

static bool slice_begins(struct slice s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && !memcmp(s.p, with, n);
}

static const char *slice_find(struct slice s, const char *what)
{
	return s.n ? memmem(s.p, s.n, what, strlen(what)) : NULL;
}

/* URLs */

static bool char_is_of_scheme(char c)
{
	return ascii_is_lower(c) || ascii_is_digit(c) || (c >= 'A' && c <= 'Z') ||
	       char_is_in(c, "+.-");
}

/* The port of a scheme, of "sparse+https" the last part's; 0: unknown, -1: there is no host. */
static int scheme_get_port(struct slice scheme)
{
	static const struct {
		const char *name;
		int port;
	} schemes[] = { { "https", 443 }, { "http", 80 }, { "ssh", 22 },
			{ "file", -1 },   { "copy", -1 }, { "cdrom", -1 } };

	while (memchr(scheme.p, '+', scheme.n))
		(void)slice_cut(&scheme, '+');
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (slice_eq(scheme, slice_of(schemes[i].name)))
			return schemes[i].port;
	return 0;
}

static struct slice authority_drop_user(struct slice authority)
{
	while (memchr(authority.p, '@', authority.n))
		(void)slice_cut(&authority, '@');
	return authority;
}

static bool package_host_set(struct slice host, struct package_host *ret)
{
	struct egress_target to;
	int n;

	if (host.n && host.p[host.n - 1] == '.')
		host.n--;
	if (egress_target_parse(host, &to, NULL) < 0)
		return false;
	if (to.kind == EGRESS_TO_NAME)
		n = snprintf(ret->host, sizeof(ret->host), "%s", to.name.text);
	else if (to.kind == EGRESS_TO_NET && to.prefix == 32)
		n = snprintf(ret->host, sizeof(ret->host), "%u.%u.%u.%u", to.net >> 24,
			     to.net >> 16 & 255, to.net >> 8 & 255, to.net & 255);
	else
		return false;
	return n > 0 && (size_t)n < sizeof(ret->host);
}

/* False: it names no host, as that of a file. */
static bool package_url_read(struct slice url, struct package_host *ret)
{
	const char *mark = slice_find(url, "://"), *begin = mark;
	struct slice rest, host;
	uint64_t port = 0;
	int usual;

	if (!mark)
		return false;
	while (begin > url.p && char_is_of_scheme(begin[-1]))
		begin--;
	usual = scheme_get_port(slice_between(begin, mark));
	rest = slice_between(mark + 3, url.p + url.n);
	rest = authority_drop_user(slice_cut_any(&rest, "/?#\\\"'" SPACES));
	if (usual < 0 || !rest.n)
		return false;
	host = slice_cut(&rest, ':');
	if (slice_eq(host, SLICE("0.0.0.0"))) /* how maven blocks plain http */
		return false;
	if (!rest.n)
		port = (uint64_t)usual;
	else if (str_parse_u64(rest, 1, UINT16_MAX, &port) < 0)
		port = 0;
	*ret = (struct package_host){ .port = (uint16_t)port };
	if (!usual || !port || !package_host_set(host, ret))
		*ret = (struct package_host){};
	return true;
}

static int package_read_url(struct package_reader *r, struct slice url)
{
	struct package_host h;

	if (!package_url_read(url, &h))
		return 0;
	for (; r->counted < url.p; r->counted++)
		r->line += *r->counted == '\n';
	h.line = r->line;
	return r->fn(r->arg, &h);
}

static int package_read_urls(struct package_reader *r, struct slice value, const char *separators)
{
	int end = 0;

	while (!end && value.n)
		end = package_read_url(r, slice_cut_any(&value, separators));
	return end;
}

/* Lists of apt */

static int apt_list_read(struct package_reader *r, struct slice text)
{
	int end = 0;

	while (!end && text.n) {
		struct slice line = slice_cut_line(&text);
		struct slice rest = slice_trim(slice_cut_any(&line, "#"));
		struct slice kind = slice_cut_any(&rest, SPACES);

		if (!slice_eq(kind, SLICE("deb")) && !slice_eq(kind, SLICE("deb-src")))
			continue;
		rest = slice_trim(rest);
		if (slice_begins(rest, "[")) {
			(void)slice_cut_any(&rest, "]");
			rest = slice_trim(rest);
		}
		end = package_read_url(r, slice_cut_any(&rest, SPACES));
	}
	return end;
}

/* Files of lines with a key and a value, which may go on in lines that begin with a space */

struct members {
	const char *comments, *between; /* between key and value */
	const char *separators;         /* of values */
	const char *keys[4];
	bool goes_on;
};

static const struct members members_apt = { "#", ":", SPACES, { "uris" }, true };
static const struct members members_apt_enabled = { "#", ":", SPACES, { "enabled" }, false };
static const struct members members_pip = {
	"#;", "=:", SPACES, { "index-url", "extra-index-url", "find-links" }, true
};
static const struct members members_npm = { "#;", "=", SPACES, { "registry" }, false };
static const struct members members_go = { "#", "=", ",|" SPACES, { "goproxy" }, false };

/* Case does not matter, nor '_' for '-'. */
static bool key_eq(struct slice key, const char *name)
{
	size_t i = 0;

	for (; i < key.n && name[i]; i++) {
		char c = key.p[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if ((c == '_' ? '-' : c) != name[i])
			return false;
	}
	return i == key.n && !name[i];
}

static bool members_has(const struct members *m, struct slice key)
{
	key = slice_trim(key);
	if (slice_begins(key, "@")) /* a scope of npm */
		(void)slice_cut_any(&key, ":");
	for (size_t i = 0; i < ARRAY_SIZE(m->keys) && m->keys[i]; i++)
		if (key_eq(key, m->keys[i]))
			return true;
	return false;
}

typedef int member_fn(struct package_reader *r, const struct members *m, struct slice value);

static int members_read(struct package_reader *r, const struct members *m, struct slice text,
			member_fn *fn)
{
	bool wanted = false;
	int end = 0;

	while (!end && text.n) {
		struct slice line = slice_cut_line(&text), trimmed = slice_trim(line);

		if (!trimmed.n || char_is_in(trimmed.p[0], m->comments))
			continue;
		if (!m->goes_on || !char_is_in(line.p[0], SPACES))
			wanted = members_has(m, slice_cut_any(&line, m->between));
		if (wanted)
			end = fn(r, m, line);
	}
	return end;
}

static int on_member_urls(struct package_reader *r, const struct members *m, struct slice value)
{
	return package_read_urls(r, value, m->separators);
}

static int on_member_enabled(struct package_reader *, const struct members *, struct slice value)
{
	static const char *const no[] = { "no", "false", "without", "off", "disable" };

	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (key_eq(slice_trim(value), no[i]))
			return -ECANCELED;
	return 0;
}

/* Up to a line that has nothing but spaces. */
static struct slice stanza_cut(struct slice *text)
{
	const char *begin = text->p, *end = begin;

	while (text->n) {
		struct slice line = slice_cut_line(text);

		if (!slice_trim(line).n)
			break;
		end = line.p + line.n;
	}
	return slice_between(begin, end);
}

static int apt_sources_read(struct package_reader *r, struct slice text)
{
	int end = 0;

	while (!end && text.n) {
		struct slice stanza = stanza_cut(&text);

		if (members_read(r, &members_apt_enabled, stanza, on_member_enabled) == 0)
			end = members_read(r, &members_apt, stanza, on_member_urls);
	}
	return end;
}

/* TOML: strings whose key, the last word before '=', is one of these; tables do not matter */

static const char *const toml_keys[] = { "registry",  "index",           "git",       "url",
					 "index-url", "extra-index-url", "find-links" };

struct toml {
	struct slice text;
	struct slice word, key; /* the last word; the key of the values that follow */
	unsigned depth;         /* of [ and { */
};

static bool toml_has_key(const struct toml *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(toml_keys); i++)
		if (slice_eq(t->key, slice_of(toml_keys[i])))
			return true;
	return false;
}

static void toml_skip(struct toml *t, size_t n)
{
	t->text.p += n;
	t->text.n -= n;
}

/* The quotes are taken too; an escape stays as it is written. */
static struct slice toml_cut_string(struct toml *t)
{
	char quote = t->text.p[0];
	const char three[] = { quote, quote, quote, 0 };
	struct slice s;
	size_t n = 0;

	if (slice_begins(t->text, three)) {
		const char *end;

		toml_skip(t, 3);
		end = slice_find(t->text, three);
		s = (struct slice){ t->text.p, end ? (size_t)(end - t->text.p) : t->text.n };
		toml_skip(t, s.n + (end ? 3 : 0));
		return s;
	}
	toml_skip(t, 1);
	while (n < t->text.n && t->text.p[n] != quote && t->text.p[n] != '\n')
		n += quote == '"' && t->text.p[n] == '\\' && n + 1 < t->text.n ? 2 : 1;
	s = (struct slice){ t->text.p, n };
	toml_skip(t, n < t->text.n ? n + 1 : n);
	return s;
}

static struct slice toml_cut_word(struct toml *t)
{
	size_t n = 0;

	while (n < t->text.n && !char_is_in(t->text.p[n], "=.,[]{}\"'#" SPACES))
		n++;
	struct slice word = { t->text.p, n };

	toml_skip(t, n ? n : 1);
	return word;
}

static bool toml_is_key(const struct toml *t)
{
	struct slice rest = t->text;

	while (rest.n && char_is_in(rest.p[0], " \t"))
		rest = (struct slice){ rest.p + 1, rest.n - 1 };
	return rest.n && char_is_in(rest.p[0], "=.");
}

static void toml_read_mark(struct toml *t, char c)
{
	if (c == '#' || (c == '[' && !t->depth && !t->key.n)) /* a comment; the name of a table */
		while (t->text.n && t->text.p[0] != '\n')
			toml_skip(t, 1);
	else if (c == '[' || c == '{')
		t->depth++;
	else if ((c == ']' || c == '}') && t->depth)
		t->depth--;
	else if (c == '=')
		t->key = t->word;
	else if (c == '\n' && !t->depth)
		t->key = (struct slice){};
}

static int toml_read(struct package_reader *r, struct slice text)
{
	struct toml t = { .text = text };
	int end = 0;

	while (!end && t.text.n) {
		char c = t.text.p[0];

		if (c == '"' || c == '\'') {
			t.word = toml_cut_string(&t);
			if (toml_has_key(&t) && !toml_is_key(&t))
				end = package_read_urls(r, t.word, SPACES);
		} else if (char_is_in(c, "=.,[]{}#" SPACES)) {
			toml_skip(&t, 1);
			toml_read_mark(&t, c);
		} else {
			t.word = toml_cut_word(&t);
		}
	}
	return end;
}

/* settings.xml */

static int maven_read(struct package_reader *r, struct slice text)
{
	int end = 0;

	while (!end && text.n) {
		struct slice tag;

		(void)slice_cut_any(&text, "<");
		if (slice_begins(text, "!--")) {
			const char *over = slice_find(text, "-->");

			text = over ? slice_between(over + 3, text.p + text.n) : (struct slice){};
			continue;
		}
		tag = text;
		tag = slice_cut_any(&tag, ">");
		if (!slice_eq(slice_trim(tag), SLICE("url")) || tag.n == text.n)
			continue;
		text = slice_between(tag.p + tag.n + 1, text.p + text.n);
		tag = text;
		end = package_read_urls(r, slice_cut_any(&tag, "<"), SPACES);
	}
	return end;
}

int package_hosts_read(enum package_syntax syntax, struct slice text, package_host_fn *fn,
		       void *arg)
{
	struct package_reader r = { .counted = text.p, .line = 1, .fn = fn, .arg = arg };

	if (!text.n)
		return 0;
	switch (syntax) {
	case PACKAGE_APT_LIST:
		return apt_list_read(&r, text);
	case PACKAGE_APT_SOURCES:
		return apt_sources_read(&r, text);
	case PACKAGE_PIP:
		return members_read(&r, &members_pip, text, on_member_urls);
	case PACKAGE_NPM:
		return members_read(&r, &members_npm, text, on_member_urls);
	case PACKAGE_GO:
		return members_read(&r, &members_go, text, on_member_urls);
	case PACKAGE_TOML:
		return toml_read(&r, text);
	case PACKAGE_MAVEN:
		return maven_read(&r, text);
	case PACKAGE_WORDS:
		return package_read_urls(&r, text, SPACES);
	case PACKAGE_PROXIES:
		return package_read_urls(&r, text, members_go.separators);
	case PACKAGE_SYNTAX_NUM:
		break;
	}
	return 0;
}
