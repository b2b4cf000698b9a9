/* SPDX-License-Identifier: Apache-2.0 */
/* help - help texts, their JSON and cay(1) from the command table */
#include "cli/core/command.h"
#include "cli/print/print.h"

static int help_format_option(const struct opt *o, struct buf *out)
{
	auto_buf name = BUF_INIT(128);
	int r = opt_format_spelling(o, &name);

	return r < 0 ? r : buf_printf(out, "  %-26s %s\n", buf_str(&name), o->help);
}

#define COLUMNS 80u

static int help_wrap_text(const char *text, struct buf *out)
{
	struct slice rest = slice_of(text);
	size_t column = 0;
	int r = 0;

	while (r >= 0 && rest.p) {
		struct slice word = slice_cut(&rest, ' ');

		if (column && column + 1 + word.n > COLUMNS) {
			r = buf_putc(out, '\n');
			column = 0;
		} else if (column) {
			r = buf_putc(out, ' ');
			column++;
		}
		if (r >= 0)
			r = buf_append(out, word.p, word.n);
		column += word.n;
	}
	return r < 0 ? r : buf_putc(out, '\n');
}

int help_format_command(const struct cmd *cmd, struct buf *out)
{
	const struct opt *o;
	int r = buf_printf(out, "usage: cay %s %s\n\n%s.\n", cmd->name, cmd->args, cmd->help);

	if (r >= 0 && cmd->more)
		r = buf_putc(out, '\n');
	if (r >= 0 && cmd->more)
		r = help_wrap_text(cmd->more, out);
	if (r >= 0 && (cmd_option_at(cmd, 0) || cmd->needs == CMD_NEEDS_DAEMON))
		r = buf_puts(out, "\noptions:\n");
	for (size_t i = 0; r >= 0 && (o = cmd_option_at(cmd, i)); i++)
		r = help_format_option(o, out);
	if (r >= 0 && cmd->needs == CMD_NEEDS_DAEMON)
		r = help_format_option(&opts_everywhere[0], out);
	return r;
}

int help_format_list(struct buf *out)
{
	static const char *const titles[] = {
		[GROUP_EVERYDAY] = "Everyday", [GROUP_SANDBOXES] = "Sandboxes",
		[GROUP_FILES] = "Files",       [GROUP_IMAGES] = "Images and templates",
		[GROUP_ACCESS] = "Access",     [GROUP_NODE] = "Node",
	};
	size_t width = 0;
	int r = buf_puts(
		out,
		"usage: cay [--context NAME] [--no-pager] COMMAND [OPTION...] [ARGUMENT...]\n\n"
		"Every AI agent gets its own Linux computer.\n");

	for (size_t i = 0; commands[i]; i++)
		if (strlen(commands[i]->name) > width)
			width = strlen(commands[i]->name);
	for (size_t i = 0; r >= 0 && commands[i]; i++) {
		if (!i || command_groups[i] != command_groups[i - 1])
			r = buf_printf(out, "\n%s:\n", titles[command_groups[i]]);
		if (r >= 0)
			r = buf_printf(out, "  %-*s  %s\n", (int)width, commands[i]->name,
				       commands[i]->help);
	}
	return r < 0 ? r : buf_puts(out, "\n'cay help COMMAND' shows the options of a command.\n");
}

static void help_encode_option(const struct opt *o, struct jw *w)
{
	char letter[] = { o->letter, 0 };

	jw_object_begin(w, NULL);
	jw_str(w, "name", o->name);
	if (o->letter)
		jw_str(w, "letter", letter);
	if (o->type != OPT_FLAG)
		jw_str(w, "arg", o->arg);
	jw_str(w, "help", o->help);
	jw_end(w);
}

static void help_encode_command(const struct cmd *cmd, struct jw *w)
{
	const struct opt *o;

	jw_object_begin(w, NULL);
	jw_str(w, "name", cmd->name);
	jw_str(w, "args", cmd->args);
	jw_str(w, "help", cmd->help);
	if (cmd->more)
		jw_str(w, "more", cmd->more);
	jw_array_begin(w, "options");
	for (size_t i = 0; (o = cmd_option_at(cmd, i)); i++)
		help_encode_option(o, w);
	if (cmd->needs == CMD_NEEDS_DAEMON)
		help_encode_option(&opts_everywhere[0], w);
	jw_end(w);
	jw_end(w);
}

int help_format_json(const struct cmd *cmd, struct buf *out)
{
	struct jw w = cmd ? jw_to(out) : json_list_begin(out, "commands");
	int r;

	if (cmd) {
		help_encode_command(cmd, &w);
	} else {
		for (const struct cmd *const *c = commands; *c; c++)
			help_encode_command(*c, &w);
		jw_end(&w);
		jw_end(&w);
	}
	r = jw_finish(&w);
	return r < 0 ? r : buf_putc(out, '\n');
}

/* Escape scdoc markup. */
static int help_man_escape(const char *s, struct buf *out)
{
	int r = 0;

	for (; r >= 0 && *s; s++) {
		if (strchr("_*#[]|<>~", *s))
			r = buf_putc(out, '\\');
		if (r >= 0)
			r = buf_putc(out, *s);
	}
	return r;
}

static int help_man_format_option(const struct opt *o, struct buf *out)
{
	auto_buf arg = BUF_INIT(256), help = BUF_INIT(KIB(2));
	const char letter[] = { o->letter, 0 }, *mark = o->type == OPT_FLAG ? "" : "_";
	int r = help_man_escape(o->type == OPT_FLAG ? "" : o->arg, &arg);

	if (r >= 0)
		r = help_man_escape(o->help, &help);
	return r < 0 ? r
		     : buf_printf(out, "*%s%s%s--%s*%s%s%s%s\n\t%s.\n\n", o->letter ? "-" : "",
				  letter, o->letter ? "*, *" : "", o->name, *mark ? " " : "", mark,
				  buf_str(&arg), mark, buf_str(&help));
}

static int help_man_format_command(const struct cmd *cmd, struct buf *out)
{
	auto_buf more = BUF_INIT(KIB(8));
	const struct opt *o;
	int r = cmd->more ? help_man_escape(cmd->more, &more) : 0;

	if (r >= 0) /* scdoc headings take no escapes */
		r = buf_printf(out, "## cay %s%s%s\n\n%s.%s%s\n\n", cmd->name,
			       cmd->args[0] ? " " : "", cmd->args, cmd->help, cmd->more ? " " : "",
			       buf_str(&more));
	for (size_t i = 0; r >= 0 && (o = cmd_option_at(cmd, i)); i++)
		r = help_man_format_option(o, out);
	return r;
}

static int help_man_format_exit_codes(struct buf *out)
{
	int r = buf_puts(
		out, "# EXIT STATUS\n\n*exec* and *run* return the exit status of the command: its "
		     "exit code, 128 plus the number of the signal that ended it, or 124 after its "
		     "timeout. Failures of cay itself, and errors of the daemon:\n\n");

	for (unsigned status = 1; r >= 0 && status < 64; status++) {
		const char *lead = "";

		for (unsigned i = CAY_OK + 1; r >= 0 && i < CAY_NUM_CODES; i++) {
			const struct cay_error_row *e = cay_error_row((enum cay_code)i);

			if (e->exit != (int)status)
				continue;
			r = *lead ? buf_puts(out, lead) : buf_printf(out, "*%u*\n\t", status);
			if (r >= 0)
				r = help_man_escape(e->name, out);
			lead = ", ";
		}
		if (r >= 0 && *lead)
			r = buf_puts(out, "\n\n");
	}
	return r;
}

int help_format_man(struct buf *out)
{
	int r = buf_puts(
		out,
		"cay(1)\n\n# NAME\n\ncay - create, use and remove sandboxes\n\n# "
		"SYNOPSIS\n\n*cay* [*--context* _NAME_] [*--no-pager*] _COMMAND_ "
		"[_OPTION_...] [_ARGUMENT_...]\n\n# DESCRIPTION\n\n*cay* sends requests to "
		"*cayd* over its unix socket or, with a context, to a *cay-edge* over HTTPS. "
		"A sandbox is named by its id or its name. Tables are for people; *--json* "
		"prints the reply of the daemon on one line. Errors go to stderr.\n\n"
		"# CONTEXTS\n\nA context is a URL, a token and, if the system does not trust the "
		"server's CA, a file of certificates. *cay context add* stores it in a file in "
		"_$XDG\\_CONFIG\\_HOME/cay_ or _~/.config/cay_; a file that others can read is "
		"refused. The first of these is used: *--context* _NAME_, before the command or "
		"among its options; *CAY\\_CONTEXT*; the socket of *CAY\\_SOCKET*; the context of "
		"*cay context use*; the socket of this machine, which is also called *local*.\n\nA "
		"token is read from a file or from standard input, never from the command line, "
		"the environment or a URL. The server's certificate must be valid for the host of "
		"the URL; plain HTTP is allowed for loopback addresses only. *doctor*, *bench* and "
		"*audit verify* work on the local machine only.\n\n"
		"# COMMANDS\n\n");

	for (const struct cmd *const *c = commands; r >= 0 && *c; c++)
		r = help_man_format_command(*c, out);
	if (r >= 0)
		r = help_man_format_exit_codes(out);
	return r < 0 ? r
		     : buf_puts(
			       out,
			       "# ENVIRONMENT\n\n*CAY\\_CONTEXT*\n\tThe context, as with "
			       "*--context*.\n\n*CAY\\_SOCKET*\n\tThe daemon's socket; by default "
			       "_control.sock_ in the directory *paths.run* of "
			       "_/etc/cay/cay.conf_.\n\n*CAY\\_TIMEOUT*\n\tTime limit of a reply, "
			       "e.g. \"30s\"; streams and long operations have their "
			       "own.\n\n*NO\\_COLOR*\n\tNo colours, even on a "
			       "terminal.\n\n*PAGER*\n\tProgram that shows output longer than the "
			       "terminal; by default *less*, if installed. Empty or _cat_ disables "
			       "paging, as *--no-pager* does.\n\n# SEE ALSO\n\n*cay.conf*(5)\n");
}
