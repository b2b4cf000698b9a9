/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion/complete.h"

#include "cli/print/print.h"

static const char context_option[] = "--context";

static const struct opt *complete_find_opt(const struct cmd *cmd, struct slice name, char letter)
{
	const struct opt *o;

	for (size_t i = 0; (o = cmd_option_at(cmd, i)); i++)
		if (letter ? o->letter == letter : slice_eq(name, slice_of(o->name)))
			return o;
	for (size_t i = 0; i < ARRAY_SIZE(opts_everywhere) && !letter; i++)
		if (slice_eq(name, slice_of(opts_everywhere[i].name)))
			return &opts_everywhere[i];
	return NULL;
}

/* The option whose value is the next word: "--image", "-u", "-du". */
static const struct opt *complete_find_valued_opt(const struct cmd *cmd, const char *word)
{
	const struct opt *o = NULL;

	if (word[0] != '-' || !word[1])
		return NULL;
	if (word[1] == '-')
		o = strchr(word, '=') ? NULL : complete_find_opt(cmd, slice_of(word + 2), 0);
	for (const char *l = word + 1; word[1] != '-' && *l; l++) {
		o = complete_find_opt(cmd, SLICE(""), *l);
		if (!o || o->type != OPT_FLAG)
			return l[1] ? NULL : o;
	}
	return o && o->type != OPT_FLAG ? o : NULL;
}

static void complete_set_opt_value(const struct opt *o, struct complete *ret)
{
	ret->choice_opt = o->type == OPT_CHOICE ? o : NULL;
	ret->operand = o->operand;
}

/* The last word, after those of the command. */
static void complete_parse_last(const struct cmd *cmd, const char *last, size_t operands,
				struct complete *ret)
{
	struct slice value = slice_of(last), name;
	const struct opt *o;

	if (last[0] == '-' && last[1] == '-') {
		name = slice_cut(&value, '=');
		o = value.p ? complete_find_opt(cmd, (struct slice){ name.p + 2, name.n - 2 }, 0)
			    : NULL;
		if (o && o->type != OPT_FLAG) {
			complete_set_opt_value(o, ret);
			ret->prefix = (struct slice){ last, (size_t)(value.p - last) };
			ret->word = value.p;
			return;
		}
	}
	ret->wants_option = last[0] == '-';
	if (operands < cmd->max && !ret->wants_option)
		ret->operand = cmd->operands[operands < CMD_OPERANDS_MAX ? operands
									 : CMD_OPERANDS_MAX - 1];
	if (operands >= CMD_OPERANDS_MAX && ret->operand == OPERAND_KERNEL)
		ret->operand = OPERAND_FREE; /* words after it are not kernels too */
}

static void complete_parse_args(const struct cmd *cmd, const char *const *words, size_t n,
				struct complete *ret)
{
	const struct opt *pending = NULL;
	size_t operands = 0;

	for (size_t i = 0; i + 1 < n; i++) {
		if (pending) {
			if (pending == &opts_everywhere[0])
				ret->context = words[i];
			pending = NULL;
			continue;
		}
		if (str_eq(words[i], "--")) /* a command inside the sandbox */
			return;
		pending = complete_find_valued_opt(cmd, words[i]);
		if (words[i][0] == '-' && words[i][1])
			continue;
		if (!operands++)
			ret->sandbox = words[i];
	}
	if (pending)
		complete_set_opt_value(pending, ret);
	else
		complete_parse_last(cmd, words[n - 1], operands, ret);
}

void complete_parse(const char *const *words, size_t n, struct complete *ret)
{
	size_t used = 0;

	*ret = (struct complete){ .word = words[n - 1] };
	while (n > 2 && (str_eq(words[0], context_option) || str_eq(words[0], "--no-pager"))) {
		bool said = str_eq(words[0], context_option);

		ret->context = said ? words[1] : ret->context;
		words += said ? 2 : 1;
		n -= said ? 2 : 1;
	}
	if (n == 2 && str_eq(words[0], context_option)) {
		ret->operand = OPERAND_CONTEXT;
		return;
	}
	ret->cmd = cmd_find(words, n - 1, &used);
	if (ret->cmd) {
		complete_parse_args(ret->cmd, words + used, n - used, ret);
		/* 'cay mcp' is a command, and so is 'cay mcp config' */
		if (n != 2 || ret->wants_option || ret->cmd->max)
			return;
		ret->cmd = NULL;
	}
	ret->wants_option = words[n - 1][0] == '-';
	ret->first_word = n == 2 ? words[0] : NULL;
	if (n <= 2)
		ret->operand = OPERAND_COMMAND;
}

int complete_add_word(const struct complete *c, const char *word, const char *help, struct buf *out)
{
	int r;

	if (strncmp(word, c->word, strlen(c->word)) != 0)
		return 0;
	r = c->prefix.n ? buf_append(out, c->prefix.p, c->prefix.n) : 0;
	if (r >= 0)
		r = buf_puts(out, word);
	if (r >= 0 && help && help[0]) {
		r = buf_putc(out, '\t');
		if (r >= 0)
			r = print_append_escaped(out, slice_of(help));
	}
	return r < 0 ? r : buf_putc(out, '\n');
}

int complete_add_server_name(const struct complete *c, const char *name, const char *behind,
			     const char *help, struct buf *out)
{
	auto_buf word = BUF_INIT(KIB(1));

	if (!ascii_is_alnum(name[0]))
		return 0;
	for (const char *p = name; *p; p++)
		if (!ascii_is_alnum(*p) && !strchr("._:/@+-", *p))
			return 0;
	/* skip names that are too long */
	if (buf_printf(&word, "%s%s", name, behind) < 0)
		return 0;
	return complete_add_word(c, buf_str(&word), help, out);
}

static int complete_add_option(const struct complete *c, const struct opt *o, struct buf *out)
{
	auto_buf name = BUF_INIT(64);
	int r = buf_printf(&name, "--%s", o->name);

	return r < 0 ? r : complete_add_word(c, buf_str(&name), o->help, out);
}

static int complete_add_options(const struct complete *c, struct buf *out)
{
	const struct opt *o;
	int r = 0;

	for (size_t i = 0; c->cmd && r >= 0 && (o = cmd_option_at(c->cmd, i)); i++)
		r = complete_add_option(c, o, out);
	if (r >= 0 && (!c->cmd || c->cmd->needs == CMD_NEEDS_DAEMON))
		r = complete_add_option(c, &opts_everywhere[0], out);
	if (r >= 0 && !c->cmd)
		r = complete_add_option(c, &opts_everywhere[1], out);
	return r < 0 ? r : complete_add_word(c, "--help", "Show help for the command", out);
}

/* Whether an earlier row begins with the same word. */
static bool complete_command_is_listed(const struct cmd *const *row, struct slice first)
{
	for (const struct cmd *const *c = commands; c < row; c++) {
		struct slice rest = slice_of((*c)->name);

		if (slice_eq(slice_cut(&rest, ' '), first))
			return true;
	}
	return false;
}

static int complete_add_commands(const struct complete *c, struct buf *out)
{
	const char *front = c->cmd ? c->sandbox : c->first_word; /* cay help image ... */
	int r = 0;

	for (const struct cmd *const *row = commands; r >= 0 && *row; row++) {
		struct slice rest = slice_of((*row)->name), first = slice_cut(&rest, ' ');
		auto_buf word = BUF_INIT(64);

		if (front && rest.p && slice_eq(first, slice_of(front)))
			r = complete_add_word(c, rest.p, (*row)->help, out);
		else if (!front && !complete_command_is_listed(row, first) &&
			 buf_append(&word, first.p, first.n) >= 0)
			r = complete_add_word(c, buf_str(&word), rest.p ? "" : (*row)->help, out);
	}
	return r;
}

int complete_from_tables(const struct complete *c, struct buf *out)
{
	int r = 0;

	if (c->choice_opt) {
		for (const char *const *v = opt_list_choices(c->choice_opt); r >= 0 && *v; v++)
			r = complete_add_word(c, *v, "", out);
		return r;
	}
	if (c->wants_option)
		return complete_add_options(c, out);
	if (c->operand == OPERAND_COMMAND)
		return complete_add_commands(c, out);
	return c->operand == OPERAND_FILE || c->operand == OPERAND_LOCAL_OR_REMOTE_PATH
		       ? buf_puts(out, ":files\n")
		       : 0;
}
