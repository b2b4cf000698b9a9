/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/load-shed.h"

#include <sys/random.h>

#include "base/clock.h"
#include "base/str.h"

#define WAYS 8
#define ONE UINT64_C(1000)                /* one request, in the unit of the limit */
#define FORGET_NS (10 * NS_PER_S)         /* a caller silent for so long loses its share */
#define LIMIT_MAX UINT64_C(1000000000000) /* times a million does not overflow */
#define PAUSE_NS (20 * NS_PER_MS)
#define PAUSE_MAX_NS (2 * NS_PER_S)
#define QUEUED_NS NS_PER_S
#define CALM 10 /* intervals without a refusal before the limit is lifted */

struct load_share {
	uint64_t key_hash;           /* 0: free */
	uint64_t seen_ns;            /* last request */
	uint64_t level, level_ns;    /* fill level of its bucket, and its time */
	uint64_t pause_ns, until_ns; /* back-off after a refusal by control */
	/* of the interval that began at answers_from; a list of those with answers in it */
	uint64_t answers_from, answers_ns, n_answers;
	uint64_t queued_until_ns; /* it counts as one with a queue */
	struct load_share *next_answered;
};

int load_shed_init(struct load_shed *s, uint64_t now)
{
	*s = (struct load_shed){ .limit = SHED_NO_LIMIT, .began_ns = now };
	s->shares = calloc((size_t)SHED_KINDS * SHED_SHARES, sizeof(*s->shares));
	if (getrandom(&s->key, sizeof(s->key), GRND_NONBLOCK) < 0)
		s->key = (uint64_t)(uintptr_t)s->shares;
	return s->shares ? 0 : -ENOMEM;
}

void load_shed_fini(struct load_shed *s)
{
	free(s->shares);
	s->shares = NULL;
}

static struct load_share *load_share_find(const struct load_shed *s, enum load_shed_kind kind,
					  const void *who, size_t n, uint64_t now)
{
	struct load_share *all = s->shares + (size_t)kind * SHED_SHARES;
	uint64_t h = hash_bytes(s->key, who, n);
	struct load_share *at = NULL;

	h = (h ^ h >> 29) | 1;
	for (size_t i = 0; i < WAYS; i++) {
		struct load_share *k = &all[(h / 2 + i) % SHED_SHARES];

		if (k->key_hash == h) {
			k->seen_ns = now;
			return k;
		}
		if (!at && (!k->key_hash || now - k->seen_ns > FORGET_NS))
			at = k;
	}
	if (!at)
		return &all[h / 2 % SHED_SHARES]; /* share that slot */
	*at = (struct load_share){ .key_hash = h, .seen_ns = now, .level_ns = now };
	return at;
}

/* Lower it more for a longer queue, to at least two thirds. */
static uint64_t load_shed_lower_limit(uint64_t limit, uint64_t delay)
{
	uint64_t part = SHED_TARGET_NS * 1024 / delay;

	part = part < 683 ? 683 : part > 972 ? 972 : part;
	return limit / 1024 * part + limit % 1024 * part / 1024 + 1;
}

static void load_shed_tighten_limit(struct load_shed *s, uint64_t before, uint64_t passed)
{
	if (s->limit == SHED_NO_LIMIT)
		s->limit = (s->rate + 1) * ONE; /* no tenant gets more than the whole capacity */
	else if (s->refusing_ns > s->busy_ns / SHED_REFUSING)
		s->limit += s->limit / 4 + 1;
	else if (s->delay_ns + passed / 10 > before) /* the queue does not shrink */
		s->limit = load_shed_lower_limit(s->limit, s->delay_ns);
	if (s->limit > LIMIT_MAX)
		s->limit = LIMIT_MAX;
	if (s->limit < SHED_LEAST * ONE)
		s->limit = SHED_LEAST * ONE;
}

/* The mean of all answers.  A tenant whose own mean is above the target has a queue. */
static uint64_t load_shed_mean_answer(struct load_shed *s, uint64_t now)
{
	uint64_t sum = 0, n = 0;

	for (struct load_share *k = s->answered; k; k = k->next_answered) {
		sum += k->answers_ns;
		n += k->n_answers;
		if (k->answers_ns / k->n_answers > SHED_TARGET_NS)
			k->queued_until_ns = now + QUEUED_NS;
	}
	s->answered = NULL;
	return n ? sum / n : 0;
}

static void load_shed_finish_interval(struct load_shed *s, uint64_t now)
{
	uint64_t passed = now - s->began_ns, before = s->delay_ns;
	uint64_t answer = load_shed_mean_answer(s, now);
	/* a request waits for the end of a round and then for its turn, unless the loop was idle */
	uint64_t round = s->busy_ns > passed / 16 * 15 ? 2 * s->busy_ns / s->n_rounds : 0;

	s->rate = (s->rate * 7 + s->n_done * NS_PER_S / passed) / 8;
	s->delay_ns = answer > round ? answer : round;
	s->is_round_slow = round > SHED_TARGET_NS;
	s->queued_intervals = s->delay_ns > SHED_TARGET_NS ? s->queued_intervals + 1 : 0;
	s->calm_intervals = s->n_refused ? 0 : s->calm_intervals + 1;
	if (s->queued_intervals > 1 || (s->queued_intervals && s->limit != SHED_NO_LIMIT))
		load_shed_tighten_limit(s, before, passed);
	else if (s->limit != SHED_NO_LIMIT && s->calm_intervals >= CALM)
		s->limit = SHED_NO_LIMIT;
	else if (s->limit != SHED_NO_LIMIT)
		s->limit += s->limit / (s->delay_ns < SHED_TARGET_NS / 4 ? 4 : 16) + 1;
	s->began_ns = now;
	s->busy_ns = s->refusing_ns = s->n_rounds = s->n_done = s->n_refused = 0;
}

void load_shed_add_loop_round(struct load_shed *s, uint64_t took, uint64_t refusing, uint64_t now)
{
	s->n_rounds++;
	s->busy_ns += took;
	s->refusing_ns += refusing;
	if (now - s->began_ns >= SHED_INTERVAL_NS)
		load_shed_finish_interval(s, now);
}

void load_shed_add_answer_time(struct load_shed *s, const void *who, size_t n, uint64_t took_ns,
			       uint64_t now)
{
	struct load_share *k = load_share_find(s, SHED_TENANT, who, n, now);

	if (k->answers_from != s->began_ns || !k->n_answers) {
		k->answers_from = s->began_ns;
		k->answers_ns = k->n_answers = 0;
		k->next_answered = s->answered;
		s->answered = k;
	}
	k->n_answers++;
	k->answers_ns += took_ns;
}

bool load_shed_try_admit(struct load_shed *s, enum load_shed_kind kind, const void *who, size_t n,
			 uint64_t now)
{
	uint64_t most = s->limit / 10 < ONE ? ONE : s->limit / 10; /* burst: one interval */
	uint64_t us;
	struct load_share *k;

	if (s->limit == SHED_NO_LIMIT)
		return true;
	k = load_share_find(s, kind, who, n, now);
	/* control serves tenants by turns: one that floods waits for itself, and only it is refused
	 */
	if (kind == SHED_TENANT && !s->is_round_slow && now >= k->queued_until_ns)
		return true;
	us = (now - k->level_ns) / 1000;
	us = us < 1000000 ? us : 1000000;
	k->level -= k->level < s->limit * us / 1000000 ? k->level : s->limit * us / 1000000;
	k->level_ns += us * 1000 == 1000000000 ? now - k->level_ns : us * 1000;
	if (k->level >= most) {
		s->n_refused++;
		s->refused_share++;
		return false;
	}
	k->level += ONE;
	return true;
}

void load_shed_count_done(struct load_shed *s)
{
	s->n_done++;
}

bool load_shed_can_ask_control(struct load_shed *s, const void *who, size_t n, uint64_t now)
{
	if (now >= load_share_find(s, SHED_TENANT, who, n, now)->until_ns)
		return true;
	s->refused_by_control++;
	return false;
}

void load_shed_record_control_reply(struct load_shed *s, const void *who, size_t n, bool made,
				    uint64_t now)
{
	struct load_share *k = load_share_find(s, SHED_TENANT, who, n, now);

	if (made) {
		k->pause_ns = k->until_ns = 0;
	} else if (now >= k->until_ns) { /* count one of several in flight */
		k->pause_ns = k->pause_ns ? 2 * k->pause_ns : PAUSE_NS;
		if (k->pause_ns > PAUSE_MAX_NS)
			k->pause_ns = PAUSE_MAX_NS;
		k->until_ns = now + k->pause_ns;
	}
}
