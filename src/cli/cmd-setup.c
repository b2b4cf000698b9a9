/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdarg.h>

#include "base/path.h"
#include "cli/setup.h"
#include "cli/show.h"

#define NAME_WIDTH 10

struct setup_args {
	bool yes, check;
	const char *image;
	struct json_args json;
};

static const struct opt rows[] = {
	{ "yes", 'y', OPT_FLAG, offsetof(struct setup_args, yes), .help = "Do not ask" },
	{ "check", 0, OPT_FLAG, offsetof(struct setup_args, check),
	  .help = "Only look, and say what is to be done; 1 is the exit status when something is" },
	{ "image", 0, OPT_TEXT, offsetof(struct setup_args, image), .what = OPERAND_IMAGE,
	  .arg = "SOURCE",
	  .help = "The first image: a tar, an OCI layout's directory, or a registry's reference" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(setup_args, json), OPTS_END };

const struct setup_step setup_steps[] = {
	{ "root", setup_look_root },
	{ "machine", setup_look_machine },
	{ "users", setup_look_users, setup_act_users },
	{ "settings", setup_look_config, setup_act_config },
	{ "daemons", setup_look_daemons, setup_act_daemons },
	{ "key", setup_look_key, setup_act_key },
	{ "image", setup_look_image, setup_act_image },
	{ "sandbox", setup_look_sandbox, setup_act_sandbox, .harmless = true },
	{ NULL },
};

static const struct {
	const char *name, *colour;
} states[SETUP_NUM_STATES] = {
	[SETUP_OK] = { "ok", "\033[32m" },     [SETUP_DONE] = { "done", "\033[32m" },
	[SETUP_TODO] = { "todo", "\033[33m" }, [SETUP_FAILED] = { "failed", "\033[31m" },
	[SETUP_LEFT] = { "left", "" },
};

/* With the image's name between the two, if there are two. */
static const struct {
	const char *before, *behind;
} next_steps[] = {
	{ "cay run ", " -- uname -a" },
	{ "cay create --name demo ", " && cay shell demo" },
	{ "cay create --name web ", " && cay token web    # for a program, over localhost:7070" },
	{ "cay mcp config claude    # for an agent; also cursor, vscode", NULL },
};

void setup_say(struct setup *s, const char *fmt, ...)
{
	va_list ap;

	buf_clear(&s->found);
	va_start(ap, fmt);
	/* words that do not fit are no reason to fail */
	if (buf_vprintf(&s->found, fmt, ap) < 0)
		(void)!buf_puts(&s->found, "...");
	va_end(ap);
}

struct teller {
	struct buf json_text;
	struct jw json;
	bool as_json, colour;
};

/* As it goes: a person waits for the next line. */
static int tell(struct teller *t, const struct setup_step *step, enum setup_state state,
		const struct setup *s, struct cay_err *err)
{
	struct slice found = { buf_str(&s->found), s->found.len };
	auto_buf line = BUF_INIT(KIB(4));
	int r;

	if (t->as_json) {
		jw_object(&t->json, NULL);
		jw_str(&t->json, "name", step->name);
		jw_str(&t->json, "state", states[state].name);
		if (found.n)
			jw_strn(&t->json, "found", found);
		jw_end(&t->json);
		return 0;
	}
	r = buf_printf(&line, "%s%-6s%s  %s", t->colour ? states[state].colour : "",
		       states[state].name, t->colour ? "\033[0m" : "", step->name);
	for (size_t i = strlen(step->name); r >= 0 && found.n && i < NAME_WIDTH; i++)
		r = buf_putc(&line, ' ');
	if (r >= 0)
		r = show_text(&line, slice_trim(found));
	if (r >= 0)
		r = buf_putc(&line, '\n');
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&line, err);
}

/* Once, in front of the first thing that changes the machine. */
static int allowed(struct setup *s, bool *asked, struct cay_err *err)
{
	static const char question[] = "This makes what is missing: users, settings, units, a "
				       "first image. Go on? [Y/n] ";
	char answer[16] = {};
	ssize_t n;

	if (*asked)
		return 0;
	*asked = true;
	if (!isatty(STDIN_FILENO)) {
		api_hint(&s->cli->api, "'cay setup --yes' does it; 'cay setup --check' only looks");
		return cay_fail(err, CAY_E_INVALID, "setup: nobody is there to be asked");
	}
	if (path_write_all(STDERR_FILENO, question, sizeof(question) - 1) < 0)
		return cay_fail(err, CAY_E_INVALID, "setup: nobody is there to be asked");
	n = read(STDIN_FILENO, answer, sizeof(answer) - 1);
	if (n > 0 && (answer[0] == '\n' || answer[0] == 'y' || answer[0] == 'Y'))
		return 0;
	return cay_fail(err, CAY_E_INVALID, "setup: left as it is");
}

static int one(struct setup *s, const struct setup_step *step, bool *asked, enum setup_state *ret,
	       struct cay_err *err)
{
	int r;

	buf_clear(&s->found);
	r = step->look(s, err);
	*ret = r > 0 ? SETUP_OK : r < 0 ? SETUP_FAILED : step->harmless ? SETUP_LEFT : SETUP_TODO;
	if (r != 0 || s->check)
		return r;
	r = step->harmless ? 0 : allowed(s, asked, err);
	if (r >= 0)
		r = step->act(s, err);
	*ret = r < 0 ? SETUP_FAILED : step->harmless ? SETUP_OK : SETUP_DONE;
	return r;
}

/* With --check a failure is one more thing to be done, and the others are looked at. */
static int all(struct setup *s, bool yes, struct teller *t, bool *ret_todo, struct cay_err *err)
{
	bool asked = yes;
	int r = 0;

	for (const struct setup_step *step = setup_steps; step->name; step++) {
		enum setup_state state = SETUP_LEFT;
		struct cay_err why = {};
		int now = 0, told;

		buf_clear(&s->found);
		if (r >= 0 || s->check)
			now = one(s, step, &asked, &state, &why);
		if (now < 0)
			setup_say(s, "%s", why.msg);
		*ret_todo |= state == SETUP_TODO || state == SETUP_FAILED;
		told = tell(t, step, state, s, err);
		if (told < 0)
			return told;
		if (now < 0 && r >= 0) {
			r = now;
			*err = why;
		}
	}
	return r;
}

static int write_next(const struct setup *s, size_t i, struct buf *to)
{
	int r = buf_puts(to, next_steps[i].before);

	if (r < 0 || !next_steps[i].behind)
		return r;
	return buf_printf(to, "%s%s", s->image ? s->image : SETUP_IMAGE, next_steps[i].behind);
}

static int tell_lines(struct teller *t, const struct setup *s, bool ok, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(4));
	size_t n = ok ? ARRAY_SIZE(next_steps) : s->n_start;
	int r = 0;

	if (t->as_json)
		jw_array(&t->json, ok ? "next" : "start");
	else if (n)
		r = buf_puts(&out, ok ? "\nnext:\n"
				      : "\nstart these as root, then run 'cay setup' again:\n");
	for (size_t i = 0; r >= 0 && i < n; i++) {
		auto_buf line = BUF_INIT(KIB(1));

		if (ok)
			r = write_next(s, i, &line);
		else
			r = buf_puts(&line, s->start[i]);
		if (r >= 0 && t->as_json)
			jw_str(&t->json, NULL, buf_str(&line));
		else if (r >= 0)
			r = buf_printf(&out, "  %s\n", buf_str(&line));
	}
	if (t->as_json)
		jw_end(&t->json);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return t->as_json ? 0 : show_out(&out, err);
}

static int finish(struct teller *t, const struct setup *s, bool ok, struct cay_err *err)
{
	int r;

	if (t->as_json)
		jw_end(&t->json);
	r = s->check ? 0 : tell_lines(t, s, ok, err);
	if (r < 0 || !t->as_json)
		return r;
	jw_bool(&t->json, "ok", ok);
	jw_end(&t->json);
	if (jw_done(&t->json) < 0 || buf_putc(&t->json_text, '\n') < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return show_out(&t->json_text, err);
}

static int run(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	const struct setup_args *a = args;
	struct setup s = {
		.cli = c, .source = a->image, .check = a->check, .found = BUF_INIT(SETUP_FOUND_MAX)
	};
	struct teller t = { .json_text = BUF_INIT(KIB(64)),
			    .as_json = a->json.json,
			    .colour = !a->json.json && show_colour(STDOUT_FILENO) };
	struct cay_err told = {};
	bool todo = false;
	int r, said;

	t.json = jw_to(&t.json_text);
	if (t.as_json) {
		jw_object(&t.json, NULL);
		jw_array(&t.json, "steps");
	}
	r = all(&s, a->yes, &t, &todo, err);
	said = finish(&t, &s, !todo, &told);
	if (r >= 0 && said < 0)
		*err = told;
	buf_fini(&s.found);
	buf_fini(&t.json_text);
	if (a->check && said >= 0)
		return todo;
	return r < 0 ? r : said;
}

const struct cmd cmd_setup = {
	.name = "setup",
	.place = PLACE_HERE,
	.args = "[--yes] [--check] [--image SOURCE] [--json]",
	.options = options,
	.size = sizeof(struct setup_args),
	.help = "Make this machine ready, as root: users, settings, daemons, a first sandbox",
	.more = "Each step looks before it does anything, so setup can be run again. Without "
		"--image "
		"the first image is called host and made of programs of this machine; 'cay image "
		"import' and 'cay image pull' bring better ones. Who runs it by sudo gets a "
		"context "
		"with a key of their own. Without systemd it says what to start.",
	.run = run,
};
