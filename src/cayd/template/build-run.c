/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cayd/core/init-call.h"
#include "cayd/egress/policy.h"
#include "cayd/template/build-internal.h"
#include "ops/package.h"
#include "text/base64.h"

#define PIECE KIB(128)
#define READ_MAX KIB(48)
#define COMMAND_MAX KIB(8)
#define CONTENT_MAX MIB(1)
#define COUNTS_NS (NS_PER_S * 3 / 2)

/* The script is constant; the request is only in its arguments: $1 path, $2 mode, $3 owner. */
static const char build_file_script[] = "set -e; d=${1%/*}; [ -z \"$d\" ] || mkdir -p -- \"$d\"; "
					"cat >\"$1\"; [ -z \"$2\" ] || chmod -- \"$2\" \"$1\"; "
					"[ -z \"$3\" ] || chown -- \"$3\" \"$1\"";

static bool build_file_mode_is_valid(const char *s)
{
	size_t n = strlen(s);

	return n >= 3 && n <= 4 && strspn(s, "01234567") == n;
}

/* A user, or a user and a group: names or numbers. */
static bool build_file_owner_is_valid(const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t user = strspn(s, plain);

	if (!user || s[0] == '-')
		return false;
	return !s[user] || (s[user] == ':' && s[user + 1] && s[user + 1] != '-' &&
			    !s[user + 1 + strspn(s + user + 1, plain)]);
}

static int build_file_check(const struct build_file *f, struct cay_err *err)
{
	if (f->mode && !build_file_mode_is_valid(f->mode))
		return cay_fail_field(err, CAY_E_INVALID, "files", "'%.16s' is not a valid mode",
				      f->mode);
	if (f->owner && !build_file_owner_is_valid(f->owner))
		return cay_fail_field(err, CAY_E_INVALID, "files", "'%.64s' is not a valid owner",
				      f->owner);
	if (f->content && f->content_b64)
		return cay_fail_field(err, CAY_E_INVALID, "files",
				      "give one of content and content_b64");
	return 0;
}

static int build_file_decode_content(const struct build_file *f, struct buf *ret)
{
	size_t n = f->content_b64 ? strlen(f->content_b64) : 0, got;
	int r;

	if (!f->content_b64)
		return f->content ? buf_puts(ret, f->content) : 0;
	r = buf_reserve(ret, BASE64_BYTES(n) + 1);
	if (r >= 0)
		r = base64_decode(f->content_b64, n, (uint8_t *)ret->data, &got);
	if (r >= 0)
		ret->len = got;
	return r;
}

static int build_plan_file(struct build *b, const struct build_file *f, struct cay_err *err)
{
	struct build_step *s = &b->steps[b->n_steps];
	const char *const argv[] = { "/bin/sh",
				     "-c",
				     build_file_script,
				     "sh",
				     f->path,
				     f->mode ? f->mode : "",
				     f->owner ? f->owner : "" };
	auto_buf content = BUF_INIT(CONTENT_MAX + 8);
	int r = build_file_check(f, err);

	if (r < 0)
		return r;
	if (build_file_decode_content(f, &content) < 0 || content.len > CONTENT_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "files",
				      "'%.128s': the content is not valid "
				      "base64, or too large",
				      f->path);
	*s = (struct build_step){ .title = f->path, .file = f, .field = "files" };
	s->run.argv = (struct field_texts){ arena_alloc(&b->arena, ARRAY_SIZE(argv), sizeof(*argv)),
					    ARRAY_SIZE(argv) };
	if (!s->run.argv.v)
		return cay_no_memory(err);
	memcpy(s->run.argv.v, argv, sizeof(argv));
	s->run.has_argv = true;
	s->run.stdin_open = content.len > 0;
	b->n_steps++;
	return 0;
}

static int build_plan_setup(struct build *b, const char *command, struct cay_err *err)
{
	size_t n = strlen(command);

	if (!n || n > COMMAND_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "setup", "a command has 1 to %zu bytes",
				      COMMAND_MAX);
	b->steps[b->n_steps] = (struct build_step){ .title = command, .field = "setup" };
	b->steps[b->n_steps++].run.shell = command;
	return 0;
}

static int build_plan_packages(struct build *b, const struct package_manager *m,
			       struct cay_err *err)
{
	static const char *keys[] = { "PIP_BREAK_SYSTEM_PACKAGES", "PIP_ROOT_USER_ACTION",
				      "PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK" };
	static const char *values[] = { "1", "ignore", "1", "1" };
	const struct field_map *map = packages_get_map(&b->spec.packages, m);
	struct build_step *s = &b->steps[b->n_steps];

	if (!map->n)
		return 0;
	*s = (struct build_step){ .title = m->name, .field = "packages" };
	if (package_install_argv(m, map, &b->arena, &s->run.argv) < 0)
		return cay_no_memory(err);
	s->run.has_argv = true;
	s->run.cwd = "/";
	s->run.env = (struct field_map){ keys, values, ARRAY_SIZE(keys) };
	b->n_steps++;
	return 0;
}

int build_plan(struct build *b, struct cay_err *err)
{
	const struct layer_spec *spec = &b->spec;
	const struct build_file *files = spec->files.v;
	size_t max = spec->files.n + spec->setup.n + 3;
	int r = packages_check(&spec->packages, err);

	b->steps = arena_alloc(&b->arena, max, sizeof(*b->steps));
	if (r < 0)
		return r;
	if (!b->steps)
		return cay_no_memory(err);
	for (size_t i = 0; r >= 0 && i < spec->files.n; i++)
		r = build_plan_file(b, &files[i], err);
	for (const struct package_manager *m = package_managers; r >= 0 && m->name; m++)
		r = build_plan_packages(b, m, err);
	for (size_t i = 0; r >= 0 && i < spec->setup.n; i++)
		r = build_plan_setup(b, spec->setup.v[i], err);
	return r;
}

static void build_step_fail(struct build *b, enum cay_code code, const char *what)
{
	const struct build_step *s = &b->steps[b->step];
	struct cay_err err = {};

	(void)cay_fail_field(&err, code, s->field, "%.60s: %s", s->title, what);
	build_fail(b, &err);
}

/* The end of the log as one line, safe for a terminal. */
static void build_log_excerpt(const struct build *b, char *ret, size_t size)
{
	size_t from = b->log.len > size - 1 ? b->log.len - (size - 1) : 0, n = 0;

	for (size_t i = from; i < b->log.len; i++) {
		char c = b->log.data[i];

		ret[n++] = c == '\n' ? ' ' : c < ' ' || c > '~' ? '?' : c;
	}
	ret[n] = 0;
}

/* cay-egress reports what it denied once a second: the message of a failure waits for that. */
static bool build_step_awaits_counts(struct build *b)
{
	uint64_t now = clk_boot_ns(b->cayd->clk);

	if (!b->failed_ns)
		b->failed_ns = now;
	return sandbox_has_egress(b->sandbox) && now - b->failed_ns < COUNTS_NS;
}

/* False: not yet; the next poll calls it again. */
static bool build_step_finish(struct build *b)
{
	const struct end *end = &b->exec_info.end;
	char last[120], network[64], what[256];
	int n;

	if (end->has_exit_code && end->exit_code == 0) {
		b->exec_id[0] = 0;
		b->step++;
		return true;
	}
	if (build_step_awaits_counts(b))
		return false;
	b->exec_id[0] = 0;
	build_log_excerpt(b, last, sizeof(last));
	build_egress_describe(b, network, sizeof(network));
	if (end->has_exit_code)
		n = snprintf(what, sizeof(what), "exited with %llu%s: %s",
			     (unsigned long long)end->exit_code, network, last);
	else
		n = snprintf(what, sizeof(what), "was killed by %s%s: %s",
			     end->signal ? end->signal : "a signal", network, last);
	build_step_fail(b, CAY_E_BUILD, n > 0 ? what : "failed");
	return true;
}

static void build_exec_request(struct build *b, const char *method, const char *rest,
			       struct slice body, init_call_fn *fn)
{
	auto_buf target = BUF_INIT(256);
	char id[ID_TEXT_LEN + 1];

	id_format(&b->sandbox->info.id, id);
	if (buf_printf(&target, "/v1/sandboxes/%s/execs%s%s%s", id, b->exec_id[0] ? "/" : "",
		       b->exec_id, rest) < 0)
		buf_clear(&target); /* it always fits; an empty target would be refused */
	b->call_pending = true;
	init_call(b->cayd, &b->sandbox->info.id, method, buf_str(&target), body, fn, b);
}

/* The reply is untrusted. Returns false when the build is over. */
static bool build_exec_check_reply(struct build *b, unsigned status, struct slice body,
				   const struct field_table *table, void *ret, struct arena *arena,
				   const struct cay_err *err)
{
	struct error_body refusal = {};

	b->call_pending = false;
	if (b->state != BUILD_RUNNING)
		return false;
	if (!status) {
		build_fail(b, err);
		return false;
	}
	if (status == 200 &&
	    (!table || field_decode_text(table, body, &json_control_limits, arena, ret, NULL) >= 0))
		return true;
	if (status >= 400 && field_decode_text(&error_body_table, body, &json_control_limits, arena,
					       &refusal, NULL) >= 0)
		build_step_fail(b, CAY_E_UNSUPPORTED, refusal.error.message);
	else
		build_step_fail(b, CAY_E_MISBEHAVED, "cay-init of the sandbox did not reply");
	return false;
}

static void on_build_exec_output(void *arg, unsigned status, struct slice body,
				 const struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct build *b = arg;

	if (!build_exec_check_reply(b, status, body, NULL, NULL, &arena, err))
		return;
	if (!body.n) /* the exec is gone */
		b->read[b->stream] = b->written[b->stream];
	b->read[b->stream] += body.n;
	build_log_append(b, body.p, body.n);
	build_continue(b);
}

static void on_build_exec_info(void *arg, unsigned status, struct slice body,
			       const struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct build *b = arg;

	b->exec_info = (struct exec_info){};
	if (!build_exec_check_reply(b, status, body, &exec_info_table, &b->exec_info, &arena, err))
		return;
	b->written[0] = b->exec_info.stdout_bytes;
	b->written[1] = b->exec_info.stderr_bytes;
	if (b->read[0] < b->written[0] || b->read[1] < b->written[1])
		build_continue(b);
	else if (b->exec_info.state == EXEC_ENDED && build_step_finish(b))
		build_continue(b);
}

static void on_build_stdin_sent(void *arg, unsigned status, struct slice body,
				const struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct build *b = arg;

	/* a command that stops reading shows it by its exit status */
	if (status >= 400)
		buf_clear(&b->stdin_pending);
	if (status >= 400 || build_exec_check_reply(b, status, body, NULL, NULL, &arena, err)) {
		b->call_pending = false;
		build_continue(b);
	}
}

static void on_build_exec_started(void *arg, unsigned status, struct slice body,
				  const struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct build *b = arg;
	struct exec_info told = {};

	if (!build_exec_check_reply(b, status, body, &exec_info_table, &told, &arena, err))
		return;
	id_format(&told.id, b->exec_id);
	b->read[0] = b->read[1] = b->written[0] = b->written[1] = 0;
	buf_clear(&b->stdin_pending);
	if (b->steps[b->step].run.stdin_open &&
	    build_file_decode_content(b->steps[b->step].file, &b->stdin_pending) < 0)
		build_step_fail(b, CAY_E_NO_MEMORY, "out of memory");
	else
		build_continue(b);
}

static void build_step_start(struct build *b)
{
	struct build_step *s = &b->steps[b->step];
	auto_buf body = BUF_INIT(KIB(64));
	struct jw w = jw_to(&body);

	build_log_append(b, "# ", 2);
	build_log_append(b, s->title, strlen(s->title));
	build_log_append(b, "\n", 1);
	s->run.user = "0";
	s->run.detach = true;
	s->run.output = OUTPUT_BLOCK;
	field_encode(&exec_run_table, NULL, &s->run, &w);
	if (jw_finish(&w) < 0)
		build_step_fail(b, CAY_E_INVALID, "is too long");
	else
		build_exec_request(b, "POST", "", (struct slice){ body.data, body.len },
				   on_build_exec_started);
}

static void build_stdin_send(struct build *b)
{
	size_t n = b->stdin_pending.len < PIECE ? b->stdin_pending.len : PIECE;

	/* init_call() copies the body */
	build_exec_request(b, "POST", n == b->stdin_pending.len ? "/stdin?close=true" : "/stdin",
			   (struct slice){ b->stdin_pending.data, n }, on_build_stdin_sent);
	buf_consume(&b->stdin_pending, n);
}

void build_continue(struct build *b)
{
	char rest[96];
	int n;

	if (b->call_pending || b->state != BUILD_RUNNING)
		return;
	b->stream = b->read[0] < b->written[0] ? 0 : 1;
	if (!b->exec_id[0] && b->step == b->n_steps) {
		build_commit(b);
	} else if (!b->exec_id[0]) {
		build_step_start(b);
	} else if (b->stdin_pending.len) {
		build_stdin_send(b);
	} else if (b->read[b->stream] < b->written[b->stream]) {
		n = snprintf(rest, sizeof(rest), "/output?stream=%s&offset=%llu&limit=%zu",
			     b->stream ? "stderr" : "stdout",
			     (unsigned long long)b->read[b->stream], READ_MAX);
		if (n > 0 && n < (int)sizeof(rest))
			build_exec_request(b, "GET", rest, (struct slice){}, on_build_exec_output);
	} else {
		build_exec_request(b, "GET", "", (struct slice){}, on_build_exec_info);
	}
}
