/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/claim.h"

#include <assert.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "cayd/core/init-call.h"
#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/limits.h"
#include "wire/hello.h"
#include "wire/start.h"

#define BODY_MAX KIB(256)
/* The default of PID 1: an older PID 1 need not understand the member. */
#define OUTPUT_PRESET MIB(16)
#define OUR_VARIABLES 2
/* How long start scripts are waited for; PID 1 ends them earlier. */
#define BEGUN_MS (START_MAX_MS + INIT_CALL_MS)

static void claim_env_set(struct field_map *env, const char *key, const char *value)
{
	size_t k = 0;

	while (k < env->n && !str_eq(env->keys[k], key))
		k++;
	env->keys[k] = key;
	env->values[k] = value;
	if (k == env->n)
		env->n++;
}

static void claim_env_set_all(struct field_map *env, const struct field_map *more)
{
	for (size_t i = 0; i < more->n; i++)
		claim_env_set(env, more->keys[i], more->values[i]);
}

/* Variables of the image, overridden by Cay's, overridden by the request's. */
static int claim_env_merge(struct sandbox *sb, const struct field_map *image, struct arena *arena,
			   struct field_map *ret)
{
	size_t max = image->n + OUR_VARIABLES + sb->env.n;
	char text[8];
	int n = snprintf(text, sizeof(text), "%u", (uint16_t)sb->info.app_port);
	const char *port;

	assert(n > 0 && (size_t)n < sizeof(text));
	port = arena_strndup(arena, text, (size_t)n);
	*ret = (struct field_map){ arena_alloc(arena, max, sizeof(*ret->keys)),
				   arena_alloc(arena, max, sizeof(*ret->values)), 0 };
	if (!ret->keys || !ret->values || !port)
		return -ENOMEM;
	claim_env_set_all(ret, image);
	claim_env_set(ret, "APP_SERVICE_PORT", port);
	if (sb->info.timezone)
		claim_env_set(ret, "TZ", sb->info.timezone);
	claim_env_set_all(ret, &sb->env);
	return 0;
}

static int claim_body_encode(struct sandbox *sb, struct buf *out)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	const struct image *image = image_by_digest(sb->cayd->images, sb->image);
	struct claim q = {};
	struct jw w = jw_to(out);
	int r;

	if (!image)
		return -ENOENT;
	r = claim_env_merge(sb, &image->config.env, &arena, &q.env);
	if (r < 0)
		return r;
	q.user = image->config.user;
	q.cwd = image->config.cwd;
	q.output_bytes = sb->info.limits.output_bytes;
	q.has_output = q.output_bytes != OUTPUT_PRESET;
	q.services = sb->services;
	q.has_services = sb->services.n; /* an older PID 1 rejects an unknown member */
	q.kernels = sb->kernels;
	q.has_kernels = sb->kernels.n;
	q.resolver = q.has_resolver = sb->cayd->hooks->sandbox_has_network(sb);
	field_encode(&claim_table, NULL, &q, &w);
	return jw_finish(&w);
}

/* The script, how it ended, and as much of its last output as a message holds. */
static void start_failure_describe(const struct start_failure *f, struct cay_err *ret)
{
	const char *name = sigabbrev_np(f->signal), *text = f->text;
	char how[64], script[START_SCRIPT_MAX + 16];
	size_t room;
	int n;

	if (f->what == START_EXITED)
		n = snprintf(how, sizeof(how), " exited with %d", f->exit_code);
	else if (f->what == START_KILLED)
		n = snprintf(how, sizeof(how), " was killed by SIG%s", name ? name : "?");
	else if (f->what == START_TIMED_OUT)
		n = snprintf(how, sizeof(how), " took longer than %d s", START_MAX_MS / 1000);
	else
		n = snprintf(how, sizeof(how), " could not be run");
	assert(n > 0 && (size_t)n < sizeof(how));
	n = snprintf(script, sizeof(script), "%s%s", f->script[0] ? "start script " : "the start",
		     f->script);
	assert(n > 0 && (size_t)n < sizeof(script));
	room = CAY_ERR_MSG_MAX - 1 - strlen(script) - strlen(how) - 2;
	if (strlen(text) > room)
		text += strlen(text) - room;
	while ((*text & 0xc0) == 0x80) /* not from the middle of a UTF-8 sequence */
		text++;
	(void)cay_fail(ret, CAY_E_START, "%s%s%s%s", script, how, *text ? ": " : "", text);
}

/* The claim goes to PID 1; changed limits go to the keeper at the same time. */
struct claim_call {
	struct sandbox *sandbox;
	unsigned parts_left;
	struct cay_err err;
};

static void claim_part_finish(struct claim_call *k, const struct cay_err *outcome)
{
	struct sandbox *sb = k->sandbox;
	struct cay_err err;

	if (!k->err.code)
		k->err = *outcome;
	if (--k->parts_left)
		return;
	err = k->err;
	free(k);
	if (!err.code && sb->life.claimed && failpoint_hit(FAULT_CLAIM_ANSWERED) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
	sandbox_claim_finish(sb, &err);
}

static void on_claim_scripts_finished(void *arg, unsigned status, struct slice body,
				      const struct cay_err *err)
{
	struct cay_err outcome = {};
	struct start_failure f;

	if (!status)
		outcome = *err;
	else if (status == START_STATUS &&
		 start_failure_decode((const uint8_t *)body.p, body.n, &f) >= 0)
		start_failure_describe(&f, &outcome);
	else if (status != 204)
		(void)cay_fail(&outcome, CAY_E_MISBEHAVED,
			       "cay-init of the sandbox refused its claim");
	claim_part_finish(arg, &outcome);
}

/* PID 1 first replies that scripts run: a PID 1 that is silent gets only the short deadline. */
static void on_claim_reply(void *arg, unsigned status, struct slice body, const struct cay_err *err)
{
	const struct sandbox *sb = ((struct claim_call *)arg)->sandbox;

	if (status == START_BEGUN)
		init_call_with_deadline(sb->cayd, &sb->info.id, "GET", INIT_PATH_START,
					(struct slice){}, BEGUN_MS, on_claim_scripts_finished, arg);
	else
		on_claim_scripts_finished(arg, status, body, err);
}

static void on_claim_limits_set(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	cay_closep(&fd);
	claim_part_finish(arg, outcome);
}

/* Only limits that differ: setting CPUs is costly, because the number shown inside changes. */
static void claim_send_limits(struct claim_call *k)
{
	const struct sandbox *sb = k->sandbox;
	const struct limits *l = &sb->info.limits;
	struct verb_limits q = { .sandbox = sb->info.id, .generation = sb->life.generation };

	if (sb->claim.limits_to_set & LIMIT_MEMORY)
		q.memory_bytes = l->memory_bytes;
	if (sb->claim.limits_to_set & LIMIT_CPU)
		q.cpu_milli = (uint32_t)l->cpu_milli;
	if (sb->claim.limits_to_set & LIMIT_PIDS)
		q.pids = (uint32_t)l->pids;
	k->parts_left++;
	keeper_call_for(sb->cayd->keeper, &sb->info.tenant, VERB_LIMITS, &q, on_claim_limits_set,
			k);
}

static void claim_send(struct sandbox *sb)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct claim_call *k = malloc(sizeof(*k));
	struct cay_err err = {};

	if (!k) {
		(void)cay_no_memory(&err);
		sandbox_claim_finish(sb, &err);
		return;
	}
	*k = (struct claim_call){ .sandbox = sb, .parts_left = 1 };
	if (claim_body_encode(sb, &body) < 0)
		buf_clear(&body); /* PID 1 refuses an empty body, and that is the outcome */
	if (sb->life.claimed && sb->claim.limits_to_set)
		claim_send_limits(k);
	init_call(sb->cayd, &sb->info.id, "POST", INIT_PATH_CLAIM,
		  (struct slice){ buf_str(&body), body.len }, on_claim_reply, k);
}

static void on_claim_attached(void *arg, const struct cay_err *outcome)
{
	struct sandbox *sb = arg;

	if (outcome->code)
		sandbox_claim_finish(sb, outcome);
	else
		claim_send(sb);
}

/* The network first: start scripts run during the claim. */
static void claim_attach(struct sandbox *sb)
{
	if (sb->cayd->hooks->sandbox_has_network(sb))
		sb->cayd->hooks->sandbox_attach_network(sb, on_claim_attached, sb);
	else
		claim_send(sb);
}

/* An older PID 1 knows no such request. */
static void on_claim_identity_renewed(void *arg, unsigned status, struct slice,
				      const struct cay_err *err)
{
	struct sandbox *sb = arg;

	if (!status) {
		sandbox_claim_finish(sb, err);
		return;
	}
	if (status != 204)
		log_warn(&sb->cayd->log,
			 "a sandbox keeps the machine-id of the one it has files of");
	claim_attach(sb);
}

/* A sandbox that begins with files of another is another machine.  One that starts again, also with
 * the files of its own snapshot, is the same one. */
static bool claim_is_of_copy(const struct sandbox *sb)
{
	return sb->info.snapshot.noun != ID_NONE && sb->life.state != SB_STARTING;
}

void claim_start(struct sandbox *sb)
{
	if (claim_is_of_copy(sb))
		init_call(sb->cayd, &sb->info.id, "POST", INIT_PATH_IDENTITY, (struct slice){},
			  on_claim_identity_renewed, sb);
	else
		claim_attach(sb);
}

static void on_kernels_prepared(void *, unsigned, struct slice, const struct cay_err *)
{
	/* without them, kernels take longer to start */
}

void claim_prepare_kernels(struct sandbox *sb)
{
	auto_buf body = BUF_INIT(BODY_MAX);

	if (sb->kernels.n && claim_body_encode(sb, &body) >= 0)
		init_call(sb->cayd, &sb->info.id, "POST", INIT_PATH_KERNELS,
			  (struct slice){ buf_str(&body), body.len }, on_kernels_prepared, NULL);
}
