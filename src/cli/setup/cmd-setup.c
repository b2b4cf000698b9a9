/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "base/path.h"
#include "cli/print/print.h"
#include "cli/setup/setup.h"

#define NAME_WIDTH 10

struct setup_args {
	bool yes, check;
	const char *image, *disk, *swap, *with, *images;
};

static const struct opt rows[] = {
	{ "yes", 'y', OPT_FLAG, offsetof(struct setup_args, yes),
	  .help = "Do not ask for confirmation" },
	{ "check", 0, OPT_FLAG, offsetof(struct setup_args, check),
	  .help = "Report what is missing and change nothing; exit status 1 if anything is" },
	{ "image", 0, OPT_TEXT, offsetof(struct setup_args, image), .operand = OPERAND_IMAGE,
	  .arg = "SOURCE",
	  .help = "Source of the image base, instead of Debian packages: a tar, the directory of "
		  "an "
		  "OCI layout, or a registry reference" },
	{ "with", 0, OPT_TEXT, offsetof(struct setup_args, with), .arg = "NAME,...",
	  .help = "Also make these images and templates of their names: python, node, r, code, "
		  "desktop" },
	{ "images", 0, OPT_TEXT, offsetof(struct setup_args, images), .operand = OPERAND_FILE,
	  .arg = "DIR",
	  .help = "Take the images of --with from this directory, instead of Debian packages: "
		  "NAME, an OCI layout, or NAME.tar" },
	{ "disk", 0, OPT_TEXT, offsetof(struct setup_args, disk), .arg = "SIZE",
	  .help = "Size of the file system with quotas for paths.state, where it has none: 50Gi; "
		  "no: leave it" },
	{ "swap", 0, OPT_TEXT, offsetof(struct setup_args, swap), .arg = "SIZE",
	  .help = "Make compressed swap in memory for sandboxes that doze, where the machine has "
		  "no swap: 8Gi" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_END };

static const struct setup_step setup_steps[] = {
	{ "root", setup_root_check },
	{ "machine", setup_machine_check },
	{ "users", setup_users_check, setup_users_apply },
	{ "settings", setup_config_check, setup_config_apply },
	{ "disk", setup_disk_check, setup_disk_apply },
	{ "swap", setup_swap_check, setup_swap_apply, .wanted = setup_swap_wanted },
	{ "daemons", setup_daemons_check, setup_daemons_apply },
	{ "key", setup_key_check, setup_key_apply },
	{ "image", setup_image_check, setup_image_apply },
	{ "images", setup_images_check, setup_images_apply, .wanted = setup_images_wanted },
	{ "sandbox", setup_sandbox_check, setup_sandbox_apply, .harmless = true },
};

static const struct {
	const char *name, *colour;
} states[SETUP_NUM_STATES] = {
	[SETUP_OK] = { "ok", "\033[32m" },     [SETUP_DONE] = { "done", "\033[32m" },
	[SETUP_TODO] = { "todo", "\033[33m" }, [SETUP_FAILED] = { "failed", "\033[31m" },
	[SETUP_SKIPPED] = { "left", "" },
};

static const char *const next_steps[] = {
	"cay run " SETUP_IMAGE " -- uname -a",
	"cay create --name demo " SETUP_IMAGE " && cay shell demo",
	"cay create --name web " SETUP_IMAGE
	" && cay token web    # for a program, over localhost:7070",
	"cay mcp config claude    # for an agent; also cursor, vscode",
};

int setup_report(struct setup *s, int ret, const char *fmt, ...)
{
	va_list ap;

	buf_clear(&s->found);
	va_start(ap, fmt);
	/* a text that does not fit is cut */
	if (buf_vprintf(&s->found, fmt, ap) < 0)
		(void)!buf_puts(&s->found, "...");
	va_end(ap);
	return ret;
}

struct setup_printer {
	struct buf json_text;
	struct jw json;
	bool as_json, colour;
};

/* Text is printed step by step, because steps can take long; JSON at the end. */
static int cmd_setup_print_step(struct setup_printer *t, const struct setup_step *step,
				enum setup_state state, const struct setup *s, struct cay_err *err)
{
	struct slice found = { buf_str(&s->found), s->found.len };
	auto_buf line = BUF_INIT(KIB(4));
	int r;

	if (t->as_json) {
		jw_object_begin(&t->json, NULL);
		jw_str(&t->json, "name", step->name);
		jw_str(&t->json, "state", states[state].name);
		if (found.n)
			jw_slice(&t->json, "found", found);
		jw_end(&t->json);
		return 0;
	}
	r = buf_printf(&line, "%s%-6s%s  %s", t->colour ? states[state].colour : "",
		       states[state].name, t->colour ? "\033[0m" : "", step->name);
	for (size_t i = strlen(step->name); r >= 0 && found.n && i < NAME_WIDTH; i++)
		r = buf_putc(&line, ' ');
	if (r >= 0)
		r = print_append_escaped(&line, slice_trim(found));
	if (r >= 0)
		r = buf_putc(&line, '\n');
	return r < 0 ? cay_no_memory(err) : print_stdout(&line, err);
}

/* Ask once, before the first change to the machine. */
static int cmd_setup_confirm_changes(struct setup *s, bool *asked, struct cay_err *err)
{
	static const char question[] = "This creates what is missing: users, settings, disk "
				       "quotas, units, the image base. Continue? [Y/n] ";
	char answer[16] = {};
	ssize_t n;

	if (*asked)
		return 0;
	*asked = true;
	if (!isatty(STDIN_FILENO)) {
		api_hint_set(s->api, "use 'cay setup --yes' to proceed, 'cay setup --check' to "
				     "change nothing");
		return cay_fail(err, CAY_E_INVALID, "setup: cannot ask for confirmation");
	}
	if (fd_write_all(STDERR_FILENO, question, sizeof(question) - 1) < 0)
		return cay_fail(err, CAY_E_INVALID, "setup: cannot ask for confirmation");
	n = read(STDIN_FILENO, answer, sizeof(answer) - 1);
	if (n > 0 && (answer[0] == '\n' || answer[0] == 'y' || answer[0] == 'Y'))
		return 0;
	return cay_fail(err, CAY_E_INVALID, "setup: cancelled, nothing was changed");
}

static int cmd_setup_run_step(struct setup *s, const struct setup_step *step, bool *asked,
			      enum setup_state *ret, struct cay_err *err)
{
	int r;

	buf_clear(&s->found);
	r = step->check(s, err);
	*ret = r > 0            ? SETUP_OK
	       : r < 0          ? SETUP_FAILED
	       : step->harmless ? SETUP_SKIPPED
				: SETUP_TODO;
	if (r != 0 || s->check)
		return r;
	r = step->harmless ? 0 : cmd_setup_confirm_changes(s, asked, err);
	if (r >= 0)
		r = step->apply(s, err);
	*ret = r < 0            ? SETUP_FAILED
	       : r > 0          ? SETUP_SKIPPED
	       : step->harmless ? SETUP_OK
				: SETUP_DONE;
	return r;
}

/* With --check a failure does not stop the steps after it. */
static int cmd_setup_run_all_steps(struct setup *s, bool yes, struct setup_printer *t,
				   bool *ret_todo, struct cay_err *err)
{
	bool asked = yes;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(setup_steps); i++) {
		const struct setup_step *step = &setup_steps[i];
		enum setup_state state = SETUP_SKIPPED;
		struct cay_err why = {};
		int now = 0, told;

		if (step->wanted && !step->wanted(s))
			continue;
		buf_clear(&s->found);
		if (r >= 0 || s->check)
			now = cmd_setup_run_step(s, step, &asked, &state, &why);
		if (now < 0)
			(void)setup_report(s, now, "%s", why.msg);
		*ret_todo |= state == SETUP_TODO || state == SETUP_FAILED;
		told = cmd_setup_print_step(t, step, state, s, err);
		if (told < 0)
			return told;
		if (now < 0 && r >= 0) {
			r = now;
			*err = why;
		}
	}
	return r;
}

static int cmd_setup_print_commands(struct setup_printer *t, const struct setup *s, bool ok,
				    struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(4));
	size_t n = ok ? ARRAY_SIZE(next_steps) : s->n_start_commands;
	int r = 0;

	if (t->as_json)
		jw_array_begin(&t->json, ok ? "next" : "start");
	else if (n)
		r = buf_puts(&out, ok ? "\nnext:\n"
				      : "\nstart these as root, then run 'cay setup' again:\n");
	for (size_t i = 0; r >= 0 && i < n; i++) {
		const char *line = ok ? next_steps[i] : s->start_commands[i];

		if (t->as_json)
			jw_str(&t->json, NULL, line);
		else
			r = buf_printf(&out, "  %s\n", line);
	}
	if (t->as_json)
		jw_end(&t->json);
	if (r < 0)
		return cay_no_memory(err);
	return t->as_json ? 0 : print_stdout(&out, err);
}

static int cmd_setup_finish_report(struct setup_printer *t, const struct setup *s, bool ok,
				   struct cay_err *err)
{
	int r;

	if (t->as_json)
		jw_end(&t->json);
	r = s->check ? 0 : cmd_setup_print_commands(t, s, ok, err);
	if (r < 0 || !t->as_json)
		return r;
	jw_bool(&t->json, "ok", ok);
	jw_end(&t->json);
	if (jw_finish(&t->json) < 0 || buf_putc(&t->json_text, '\n') < 0)
		return cay_no_memory(err);
	return print_stdout(&t->json_text, err);
}

static int cmd_setup_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const struct setup_args *a = c->args;
	struct setup s = { .cli = c,
			   .api = &c->api,
			   .source = a->image,
			   .disk = a->disk,
			   .swap = a->swap,
			   .images = a->images,
			   .check = a->check,
			   .found = BUF_INIT(SETUP_FOUND_MAX) };
	struct setup_printer t = { .json_text = BUF_INIT(KIB(64)),
				   .as_json = c->global.json,
				   .colour = !c->global.json && print_wants_colour(STDOUT_FILENO) };
	struct cay_err told = {};
	bool todo = false;
	int r, said;

	if (a->images && !a->with)
		return cay_fail(err, CAY_E_INVALID, "setup: --images is for the images of --with");
	r = setup_images_parse(a->with ? a->with : "", &s.with, err);
	if (r < 0)
		return r;
	t.json = jw_to(&t.json_text);
	if (t.as_json) {
		jw_object_begin(&t.json, NULL);
		jw_array_begin(&t.json, "steps");
	}
	r = cmd_setup_run_all_steps(&s, a->yes, &t, &todo, err);
	setup_build_dir_remove(&s);
	said = cmd_setup_finish_report(&t, &s, !todo, &told);
	if (r >= 0 && said < 0)
		*err = told;
	buf_fini(&s.found);
	buf_fini(&t.json_text);
	if (a->check && said >= 0)
		return todo;
	return r < 0 ? r : said;
}

const struct cmd cmd_setup = {
	CMD_USAGE("setup", "[--yes] [--check] [--image SOURCE] [--with NAME,...] [--images DIR] "
			   "[--disk SIZE] [--swap SIZE] [--json]"),
	.needs = CMD_NEEDS_THIS_MACHINE,
	.ignores_settings_error = true,
	.options = options,
	.size = sizeof(struct setup_args),
	.help = "Set up this machine (as root): users, settings, disk quotas, daemons, the image "
		"base",
	.more = "Each step changes only what is missing, so setup can be run again. The image base "
		"is built from Debian packages, which takes a minute or two and needs mmdebstrap, "
		"python3 and the network; --image takes it from elsewhere. A machine that cannot "
		"build it gets a base with its own programs, without python3, node and git, until "
		"setup is run again. --with makes further images in the same way, and their "
		"templates; they hold packages of Python, Node and R. Where paths.state has no "
		"quotas, setup moves it into a file "
		"of "
		"half the free space, or of --disk, that holds a file system with quotas; a btrfs "
		"has its quotas turned on. A user who runs setup with sudo gets a key and a "
		"context. Without systemd, setup prints the commands that start the daemons.",
	.run = cmd_setup_run,
};
