/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/show.h"

struct add_args {
	const char *url, *ca, *token_file;
	bool token_stdin, replace;
};

#define AT(m) offsetof(struct add_args, m)

static const struct opt add_rows[] = {
	{ "url", 0, OPT_TEXT, AT(url), .arg = "URL",
	  .help = "Where its cay-edge is, as in https://box.example:7070" },
	{ "ca", 0, OPT_TEXT, AT(ca), .arg = "FILE",
	  .help = "Certificates (PEM) to believe instead of the system's" },
	{ "token-file", 0, OPT_TEXT, AT(token_file), .arg = "FILE",
	  .help = "Where the token is: a key of 'cay key create --out FILE'" },
	{ "token-stdin", 0, OPT_FLAG, AT(token_stdin),
	  .help = "Read the token from standard input; a terminal does not show it" },
	{ "replace", 0, OPT_FLAG, AT(replace),
	  .help = "Change one that is there; what is not given stays as it is" },
};
static const struct opt_group add_options[] = { OPTS(add_rows, 0), OPTS_END };

/* One signal is enough here: nothing has to be cleaned up but the terminal. */
static int wait_for_line(struct interrupt *i, int fd, struct cay_err *err)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = i->fd, .events = POLLIN } };

	if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	interrupt_read(i);
	return i->signo ? cay_fail(err, CAY_E_INVALID, "interrupted") : 0;
}

/* Up to its end; whoever types it ends it with a line. */
static int read_token(struct cli *c, int fd, bool line, char ret[static CONTEXT_TOKEN_MAX + 1],
		      struct cay_err *err)
{
	char text[CONTEXT_TOKEN_MAX + 64];
	size_t n = 0;
	int r = 0;

	while (r >= 0 && n < sizeof(text)) {
		ssize_t got;

		if (line)
			r = wait_for_line(&c->api.intr, fd, err);
		if (r < 0)
			break;
		got = read(fd, text + n, sizeof(text) - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			r = cay_fail_sys(err, CAY_E_INVALID, errno, "read the token");
		n += got > 0 ? (size_t)got : 0;
		if (got == 0 || (line && n && text[n - 1] == '\n'))
			break;
	}
	if (r >= 0)
		r = context_token((struct slice){ text, n }, ret, err);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int ask_terminal(struct cli *c, char ret[static CONTEXT_TOKEN_MAX + 1], struct cay_err *err)
{
	struct termios before, quiet;
	int r = interrupt_open(&c->api.intr, err);

	if (r < 0)
		return r;
	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "look at the terminal");
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	(void)!write(STDERR_FILENO, "token: ", 7);
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "hide what is typed");
	r = read_token(c, STDIN_FILENO, /* line= */ true, ret, err);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	(void)!write(STDERR_FILENO, "\n", 1);
	return r;
}

static int file_token(struct cli *c, const char *path, char ret[static CONTEXT_TOKEN_MAX + 1],
		      struct cay_err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", path);
	if (S_ISREG(st.st_mode) && st.st_mode & 044)
		show_note("others may read '%s' too: 'chmod 600' it", path);
	return read_token(c, fd, /* line= */ false, ret, err);
}

static int take_token(struct cli *c, const struct add_args *a, struct context *to,
		      struct cay_err *err)
{
	if (a->token_file && a->token_stdin)
		return cay_fail(err, CAY_E_INVALID,
				"context add: --token-file and --token-stdin exclude each other");
	if (a->token_file)
		return file_token(c, a->token_file, to->token, err);
	if (a->token_stdin && isatty(STDIN_FILENO))
		return ask_terminal(c, to->token, err);
	if (a->token_stdin)
		return read_token(c, STDIN_FILENO, /* line= */ false, to->token, err);
	return to->token[0] ? 0
			    : cay_fail(err, CAY_E_INVALID,
				       "context add: where is the token? --token-file FILE or "
				       "--token-stdin");
}

/* As a path that holds from every directory, and only when it can be used. */
static int take_ca(const char *path, struct context *to, struct cay_err *err)
{
	struct secure_trust *trust;
	int r;

	if (!path)
		return 0;
	if (!path[0]) { /* back to the system's */
		to->ca[0] = 0;
		return 0;
	}
	static_assert(sizeof(to->ca) >= PATH_MAX);
	if (!realpath(path, to->ca))
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", path);
	r = secure_trust_new(to->ca, &trust, err);
	if (r >= 0)
		secure_trust_free(trust);
	return r;
}

static int run_add(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	const struct add_args *a = args;
	const char *name = w->operands[0];
	auto_context to = {};
	int r = context_name(name, err);

	if (r >= 0 && a->replace)
		r = cmd_context(c, name, &to, err);
	if (r < 0)
		return r;
	memcpy(to.name, name, strlen(name) + 1);
	if (a->url)
		r = context_url(a->url, &to.url, err);
	else if (!a->replace)
		r = cay_fail(err, CAY_E_INVALID, "context add: where is it? --url URL");
	if (r >= 0)
		r = take_ca(a->ca, &to, err);
	if (r >= 0)
		r = take_token(c, a, &to, err);
	if (r >= 0)
		r = context_store(&to, a->replace, err);
	if (r < 0 && err->code == CAY_E_CONFLICT)
		api_hint(&c->api, "--replace changes it");
	if (r >= 0 && isatty(STDERR_FILENO) && !a->replace)
		show_note("'cay --context %s ls' asks it; 'cay context use %s' makes it the one "
			  "that is asked",
			  name, name);
	return r;
}

const struct cmd cmd_context_add = {
	.name = "context add",
	.args = "[OPTION...] NAME",
	.min = 1,
	.max = 1,
	.place = PLACE_NOBODY,
	.options = add_options,
	.size = sizeof(struct add_args),
	.help = "Keep url and token of a Cay on another machine, by a name",
	.more = "The token is never taken from the command line, where every process of the "
		"machine could read it. It is kept in a file that only you can read. Nothing is "
		"sent yet.",
	.run = run_add,
};

static int json_row(struct jw *w, const struct context *x, bool current)
{
	char url[URL_MAX];

	jw_object(w, NULL);
	jw_str(w, "name", x->name);
	if (x->url.host[0]) {
		url_format(&x->url, url);
		jw_str(w, "url", url);
	}
	if (x->ca[0])
		jw_str(w, "ca", x->ca);
	jw_bool(w, "current", current);
	jw_end(w);
	return 0;
}

static int table_row(struct cli *c, struct show_table *t, const struct context *x, bool current)
{
	char url[URL_MAX];
	const char *where = c->api.to.socket;

	if (x->url.host[0]) {
		url_format(&x->url, url);
		where = url;
	} else if (!str_eq(x->name, CONTEXT_LOCAL)) {
		where = "not usable";
	}
	return show_cell(t, current ? "*" : "") < 0 || show_cell(t, x->name) < 0 ||
			       show_cell(t, where) < 0 || show_cell(t, x->ca[0] ? x->ca : "-") < 0
		       ? -ENOMEM
		       : 0;
}

struct list {
	struct cli *cli;
	struct show_table table;
	struct jw *json; /* or NULL */
	char current[CONTEXT_NAME_MAX + 1];
};

/* One that cannot be read is listed all the same, and why is told. */
static int list_one(struct list *l, const char *name)
{
	auto_context x = {};
	struct cay_err why = {};
	bool current = str_eq(name, l->current);

	if (!str_eq(name, CONTEXT_LOCAL) && context_load(name, &x, &why) < 0) {
		context_wipe(&x);
		show_note("%s", why.msg);
	}
	memcpy(x.name, name, strlen(name) + 1);
	return l->json ? json_row(l->json, &x, current) : table_row(l->cli, &l->table, &x, current);
}

static int list_all(struct list *l, const struct buf *names)
{
	static const char *const headings[] = { "", "NAME", "URL", "CA" };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(headings); i++)
		r = show_cell(&l->table, headings[i]);
	if (r >= 0)
		r = list_one(l, CONTEXT_LOCAL);
	for (size_t at = 0; r >= 0 && at < names->len; at += strlen(names->data + at) + 1)
		r = list_one(l, names->data + at);
	return r;
}

static int run_ls(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	bool json = ((const struct json_args *)args)->json;
	auto_buf names = BUF_INIT(KIB(64)), out = BUF_INIT(MIB(1));
	struct jw w = jw_to(&out);
	struct list l = { .cli = c, .table = show_table_of(4), .json = json ? &w : NULL };
	int r = context_names(&names, err);

	if (r >= 0)
		r = cmd_asked(c, l.current, err);
	if (r < 0)
		return r;
	if (json) {
		jw_object(&w, NULL);
		jw_array(&w, "contexts");
	}
	r = list_all(&l, &names);
	if (json) {
		jw_end(&w);
		jw_end(&w);
		r = r < 0 || jw_done(&w) < 0 ? -ENOMEM : buf_putc(&out, '\n');
	} else if (r >= 0) {
		r = show_table_write(&l.table, &out);
	}
	show_table_fini(&l.table);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&out, err);
}

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

const struct cmd cmd_context_ls = {
	.name = "context ls",
	.args = "[--json]",
	.place = PLACE_NOBODY,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List contexts and mark the one that is asked; never their tokens",
	.run = run_ls,
};

static int describe(struct cli *c, const struct context *x, bool current, struct buf *out)
{
	bool local = str_eq(x->name, CONTEXT_LOCAL);
	char url[URL_MAX] = "";
	int r;

	if (!local)
		url_format(&x->url, url);
	r = buf_printf(out, "name     %s%s\n", x->name, current ? ", the current one" : "");
	if (local)
		return r < 0 ? r : buf_printf(out, "socket   %s\n", c->api.to.socket);
	if (r >= 0)
		r = buf_printf(out, "url      %s\nca       ", url);
	if (r >= 0)
		r = show_text(out, slice_of(x->ca[0] ? x->ca : "those of the system"));
	return r < 0 ? r : buf_puts(out, "\ntoken    there, and not shown\n");
}

static int run_show(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	char current[CONTEXT_NAME_MAX + 1];
	auto_buf out = BUF_INIT(KIB(32));
	auto_context x = {};
	struct jw json = jw_to(&out);
	int r = cmd_asked(c, current, err);
	const char *name = w->n_operands ? w->operands[0] : current;

	if (r >= 0 && !str_eq(name, CONTEXT_LOCAL))
		r = cmd_context(c, name, &x, err);
	if (r < 0)
		return r;
	memcpy(x.name, name, strlen(name) + 1);
	if (((const struct json_args *)args)->json) {
		r = json_row(&json, &x, str_eq(name, current));
		r = r < 0 || jw_done(&json) < 0 ? -ENOMEM : buf_putc(&out, '\n');
	} else {
		r = describe(c, &x, str_eq(name, current), &out);
	}
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&out, err);
}

const struct cmd cmd_context_show = {
	.name = "context show",
	.args = "[--json] [NAME]",
	.max = 1,
	.place = PLACE_NOBODY,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Say what a context is, or the current one; never its token",
	.run = run_show,
};

static int run_use(struct cli *c, const void *, const struct opt_words *w, struct cay_err *err)
{
	auto_context there = {};
	const char *name = w->operands[0];
	int r = str_eq(name, CONTEXT_LOCAL) ? 0 : cmd_context(c, name, &there, err);

	return r < 0 ? r : context_use(name, err);
}

const struct cmd cmd_context_use = {
	.name = "context use",
	.args = "NAME",
	.min = 1,
	.max = 1,
	.place = PLACE_NOBODY,
	.help = "Ask this one from now on; local is this machine's daemon",
	.run = run_use,
};

static int run_rm(struct cli *c, const void *, const struct opt_words *w, struct cay_err *err)
{
	int r = context_remove(w->operands[0], err);

	if (r < 0)
		api_hint(&c->api, err->code == CAY_E_CONFLICT
					  ? "first 'cay context use " CONTEXT_LOCAL
					    "', or another one"
				  : err->code == CAY_E_NOT_FOUND ? "'cay context ls' lists them"
								 : "");
	return r;
}

const struct cmd cmd_context_rm = {
	.name = "context rm",
	.args = "NAME",
	.min = 1,
	.max = 1,
	.place = PLACE_NOBODY,
	.help = "Forget a context and its token; the key stays good",
	.run = run_rm,
};
