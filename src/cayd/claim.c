/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/claim.h"

#include <assert.h>
#include <stdio.h>

#include "base/fault.h"
#include "cayd/ask.h"
#include "cayd/image.h"
#include "cayd/limit.h"
#include "cayd/link.h"
#include "wire/hello.h"
#include "wire/start.h"

#define BODY_MAX KIB(256)
/* What a PID 1 keeps when it is not told: one that is older need not know the word. */
#define OUTPUT_PRESET MIB(16)
#define OUR_VARIABLES 2
/* For how long start scripts are waited for: they end by themselves before. */
#define BEGUN_MS (START_MAX_MS + ASK_MS)

static void put_env(struct field_map *env, const char *key, const char *value)
{
	size_t k = 0;

	while (k < env->n && !str_eq(env->keys[k], key))
		k++;
	env->keys[k] = key;
	env->values[k] = value;
	if (k == env->n)
		env->n++;
}

static void put_all(struct field_map *env, const struct field_map *more)
{
	for (size_t i = 0; i < more->n; i++)
		put_env(env, more->keys[i], more->values[i]);
}

/* The image's variables, over them what Cay knows, over that those of the request. */
static int merge_env(struct box *b, const struct field_map *image, struct pool *pool,
		     struct field_map *ret)
{
	size_t max = image->n + OUR_VARIABLES + b->env.n;
	char text[8];
	int n = snprintf(text, sizeof(text), "%u", (uint16_t)b->info.app_port);
	const char *port;

	assert(n > 0 && (size_t)n < sizeof(text));
	port = pool_strn(pool, text, (size_t)n);
	*ret = (struct field_map){ pool_take(pool, max, sizeof(*ret->keys)),
				   pool_take(pool, max, sizeof(*ret->values)), 0 };
	if (!ret->keys || !ret->values || !port)
		return -ENOMEM;
	put_all(ret, image);
	put_env(ret, "APP_SERVICE_PORT", port);
	if (b->info.timezone)
		put_env(ret, "TZ", b->info.timezone);
	put_all(ret, &b->env);
	return 0;
}

static int write_claim(struct box *b, struct buf *out)
{
	auto_pool pool = POOL_INIT(KIB(64));
	const struct image_row *image = image_by_digest(b->cayd->images, b->image);
	struct claim q = {};
	struct jw w = jw_to(out);
	int r;

	if (!image)
		return -ENOENT;
	r = merge_env(b, &image->config.env, &pool, &q.env);
	if (r < 0)
		return r;
	q.user = image->config.user;
	q.cwd = image->config.cwd;
	q.output_bytes = b->info.limits.output_bytes;
	q.has_output = q.output_bytes != OUTPUT_PRESET;
	q.services = b->services;
	q.has_services = b->services.n; /* an older PID 1 knows none */
	field_encode(&claim_table, NULL, &q, &w);
	return jw_done(&w);
}

/* Which script, how it ended, and as much of its last words as a message holds. */
static void tell_failure(const struct start_failure *f, struct cay_err *ret)
{
	const char *name = sigabbrev_np(f->signal), *text = f->text;
	char how[64], script[START_SCRIPT_MAX + 16];
	size_t room;
	int n;

	if (f->what == START_EXITED)
		n = snprintf(how, sizeof(how), " exited with %d", f->exit_code);
	else if (f->what == START_KILLED)
		n = snprintf(how, sizeof(how), " was killed by SIG%s", name ? name : "?");
	else if (f->what == START_SLOW)
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
	while ((*text & 0xc0) == 0x80) /* not from the middle of a letter */
		text++;
	(void)cay_fail(ret, CAY_E_START, "%s%s%s%s", script, how, *text ? ": " : "", text);
}

/* PID 1 is told whose it is, and beside it the keeper what it may use from now on. */
struct claiming {
	struct box *box;
	unsigned left;
	struct cay_err err;
};

static void over(struct claiming *k, const struct cay_err *outcome)
{
	struct box *b = k->box;
	struct cay_err err;

	if (!k->err.code)
		k->err = *outcome;
	if (--k->left)
		return;
	err = k->err;
	free(k);
	if (!err.code && b->life.taken && fault(FAULT_CLAIM_ANSWERED) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
	box_claimed(b, &err);
}

static void on_started(void *arg, unsigned status, struct slice body, const struct cay_err *err)
{
	struct cay_err outcome = {};
	struct start_failure f;

	if (!status)
		outcome = *err;
	else if (status == START_STATUS && start_decode((const uint8_t *)body.p, body.n, &f) >= 0)
		tell_failure(&f, &outcome);
	else if (status != 204)
		(void)cay_fail(&outcome, CAY_E_MISBEHAVED,
			       "cay-init of the sandbox refused its claim");
	over(arg, &outcome);
}

/* Where there is something to run first it says so at once: who says nothing is not waited
 * for as long as scripts are. */
static void on_claimed(void *arg, unsigned status, struct slice body, const struct cay_err *err)
{
	const struct box *b = ((struct claiming *)arg)->box;

	if (status == START_BEGUN)
		ask_within(b->cayd, &b->info.id, "GET", INIT_PATH_START, (struct slice){}, BEGUN_MS,
			   on_started, arg);
	else
		on_started(arg, status, body, err);
}

static void on_limits(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	cay_closep(&fd);
	over(arg, outcome);
}

/* Only what is others: the keeper does more for CPUs, whose number is shown inside. */
static void set_limits(struct claiming *k)
{
	const struct box *b = k->box;
	const struct limits *l = &b->info.limits;
	struct verb_limits q = { .sandbox = b->info.id, .generation = b->life.generation };

	if (b->relimit & LIMIT_MEMORY)
		q.memory_bytes = l->memory_bytes;
	if (b->relimit & LIMIT_CPU)
		q.cpu_milli = (uint32_t)l->cpu_milli;
	if (b->relimit & LIMIT_PIDS)
		q.pids = (uint32_t)l->pids;
	k->left++;
	link_call(b->cayd->link, VERB_LIMITS, &q, -EBADF, on_limits, k);
}

void claim_start(struct box *b)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct claiming *k = malloc(sizeof(*k));
	struct cay_err err = {};

	if (!k) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		box_claimed(b, &err);
		return;
	}
	*k = (struct claiming){ .box = b, .left = 1 };
	if (write_claim(b, &body) < 0) /* PID 1 refuses an empty one, and that is the outcome */
		buf_clear(&body);
	if (b->life.taken && b->relimit)
		set_limits(k);
	ask(b->cayd, &b->info.id, "POST", INIT_PATH_CLAIM,
	    (struct slice){ buf_str(&body), body.len }, on_claimed, k);
}
