/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"

/* The shell of code that names no context */
#define BASH_NAME "e2b"
#define BASH_COMMAND_MAX MIB(4) /* E2B_BODY_MAX, and quotes */

static int bash_quote(struct buf *b, const char *text)
{
	int r = buf_putc(b, '\'');

	for (; r >= 0 && *text; text++)
		r = *text == '\'' ? buf_puts(b, "'\\''") : buf_putc(b, *text);
	return r < 0 ? r : buf_putc(b, '\'');
}

static bool bash_name_is_valid(const char *name)
{
	for (const char *c = name; *c; c++)
		if (*c != '_' &&
		    !(c > name ? ascii_is_alnum(*c) : ascii_is_lower(*c) || ascii_is_upper(*c)))
			return false;
	return name[0];
}

/* The code as it is, or `A='b' eval -- 'CODE'`: then A is as it was when the code has ended. */
static int bash_write_command(struct e2b_request *v, struct buf *b, struct cay_err *err)
{
	const char *code = json_string_value(json_object_get(v->json, "code")), *name;
	json_t *value, *env = json_object_get(v->json, "env_vars");
	int r = 0;

	json_object_foreach (env, name, value) {
		if (!bash_name_is_valid(name) || !json_is_string(value))
			return cay_fail(err, CAY_E_INVALID,
					"env_vars: '%.40s' cannot be set in bash", name);
		r = r < 0 ? r : buf_printf(b, "%s=", name);
		r = r < 0 ? r : bash_quote(b, json_string_value(value));
		r = r < 0 ? r : buf_putc(b, ' ');
	}
	if (r >= 0 && !b->len)
		r = buf_puts(b, code);
	else if (r >= 0)
		r = buf_puts(b, "eval -- ") ?: bash_quote(b, code);
	if (r == -ENOMEM)
		return cay_no_memory(err);
	return r < 0 ? cay_fail(err, CAY_E_TOO_LARGE, "the code is too long") : 0;
}

void e2b_bash_run(struct e2b_request *v, const char *shell)
{
	auto_buf b = BUF_INIT(BASH_COMMAND_MAX);
	struct cay_err err = {};

	if (bash_write_command(v, &b, &err) < 0)
		e2b_fail(v, &err);
	else
		e2b_code_run(
			v, OP_SHELL_RUN,
			json_pack("{s:s,s:s%}", "shell", shell, "command", buf_str(&b), b.len));
}

static void on_bash_created(struct e2b_request *v)
{
	e2b_bash_run(v, e2b_answer_text(v, "id"));
}

/* Whether another request is about to create the shell of this sandbox, or has begun to */
static bool bash_is_under_way(const struct e2b_request *v)
{
	for (const struct e2b_request *r = v->door->requests; r; r = r->next)
		if (r != v && r->flag && !r->begun && r->route->start == e2b_code_execute &&
		    str_eq(r->sandbox, v->sandbox))
			return true;
	return false;
}

static void on_bash_listed(struct e2b_request *v)
{
	json_t *shell;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "shells"), i, shell)
	{
		const char *name = json_string_value(json_object_get(shell, "name"));
		const char *state = json_string_value(json_object_get(shell, "state"));

		if (name && str_eq(name, BASH_NAME) && state && !str_eq(state, "ended")) {
			e2b_bash_run(v, json_string_value(json_object_get(shell, "id")));
			return;
		}
	}
	if (v->flag) {
		e2b_call(v, OP_SHELL_CREATE, on_bash_created, "{s:s}", "name", BASH_NAME);
		return;
	}
	/* One request creates it, after a list that began when no other was about to; the others
	 * look again later. */
	if (bash_is_under_way(v)) {
		v->waits_for_shell = true;
		e2b_start_ticks(v->door);
		return;
	}
	v->flag = true;
	e2b_bash_execute(v);
}

void e2b_bash_execute(struct e2b_request *v)
{
	e2b_call(v, OP_SHELL_LIST, on_bash_listed, "{}");
}
