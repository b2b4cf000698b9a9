/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim-egress [SEED] - connections of sandboxes while their policies change, in an order a seed
 * decides
 *
 * Connections begin, ask, are answered, say hello and send requests; policies of the tenant and of
 * the sandbox change, answers are remembered and taken back, cayd and cay-egress restart.  The code
 * under test is what cay-egress decides by (flow-judge, policy, name-table) and what compiles
 * policies.  What must hold is said by the reference (egress-plain.h), of each request that a
 * connection could send at that moment:
 *
 *	what passes unread is allowed by the present policy, or asked about and approved
 *	a request that is read passes exactly if it is allowed
 *	nothing that is allowed is cut
 *	the same policy again changes nothing
 *
 * Without an argument: many seeds, two lines of TAP.  With one: that seed alone.  CAY_FULL=1 tries
 * twenty times as many.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "egress-policy-gen.h"
#include "egress/flow-judge.h"
#include "egress/name-table.h"

#define SEEDS 300
#define STEPS 600
#define BOXES 2 /* of one group */
#define FLOWS 8

struct sim_flow {
	bool used, asking, approved, saying, guarded, inspected, hides_name;
	bool reads; /* by the last judgement */
	struct host_name name;
	const char *text; /* NULL: it dialled an address */
	uint32_t address;
	uint16_t port;
};

struct box {
	struct plain_policy plain;
	struct buf policy;
	uint64_t generation;
	struct name_table names;
	uint32_t addresses[ARRAY_SIZE(gen_names)]; /* that programs inside remember; 0: none */
	size_t order[ARRAY_SIZE(gen_names)], n_order;
	struct sim_flow flows[FLOWS];
};

static struct gen_random random_;
static struct box boxes[BOXES];
static const char *broken;
static uint64_t step;

enum happening {
	PASSED_UNREAD,
	PASSED_READ,
	READ_AND_DENIED,
	APPROVED,
	PASSED_BY_REMEMBERED,
	CUT_BY_CHANGE,
	CUT_AS_UNREAD,
	CUT_AS_HIDDEN,
	CUT_BY_TAKING_BACK,
	HIDDEN_STAYED,
	ASKED_ON,
	NAME_RESOLVED,
	NAME_DENIED,
	NAME_NOT_RESOLVED,
	ADDRESS_ALLOWED,
	PEER_ALLOWED,
	OLD_ADDRESS_DIALLED,
	HAPPENINGS
};
static uint64_t happened[HAPPENINGS];
static const char *const happening_names[HAPPENINGS] = {
	"passed unread",
	"passed read",
	"read and denied",
	"approved",
	"passed by a remembered answer",
	"cut by a change",
	"cut as unread",
	"cut as hidden",
	"cut by taking back",
	"hidden, stayed",
	"asked on",
	"name resolved",
	"name denied",
	"name not resolved",
	"address allowed",
	"peer allowed",
	"old address dialled",
};

static void claim(bool holds, const char *what)
{
	if (!holds && !broken)
		broken = what;
}

static uint64_t any(uint64_t below)
{
	return gen_random(&random_, below);
}

static struct slice box_policy(const struct box *b)
{
	return (struct slice){ b->policy.data, b->policy.len };
}

static struct flow_facts facts_of(const struct sim_flow *f)
{
	return (struct flow_facts){ .name = f->text ? &f->name : NULL,
				    .address = f->address,
				    .port = f->port,
				    .asking = f->asking,
				    .approved = f->approved,
				    .saying = f->saying,
				    .guarded = f->guarded,
				    .inspected = f->inspected,
				    .hides_name = f->hides_name };
}

/* What the reference says of all requests: the mildest and the strictest. */
static void plain_range(const struct box *b, const struct sim_flow *f, int *mildest, int *strictest)
{
	struct plain_request rq = { .name = f->text, .address = f->address, .port = f->port };

	*mildest = PLAIN_DENY;
	*strictest = PLAIN_ALLOW;
	for (size_t m = 0; m < ARRAY_SIZE(gen_methods); m++)
		for (size_t i = 0; i < ARRAY_SIZE(gen_paths); i++) {
			int v;

			rq.method = gen_methods[m];
			rq.path = gen_paths[i];
			v = plain_judge(&b->plain, &rq);
			*mildest = v < *mildest ? v : *mildest;
			*strictest = v > *strictest ? v : *strictest;
		}
}

static bool plain_flow_is_read(const struct box *b, const struct sim_flow *f)
{
	return plain_reads(
		&b->plain,
		&(struct plain_request){ .name = f->text, .address = f->address, .port = f->port });
}

static bool flow_may(const struct sim_flow *f, int verdict)
{
	return verdict == PLAIN_ALLOW || (verdict == PLAIN_ASK && f->approved);
}

/* Claims */

static void check_flow(const struct box *b, const struct sim_flow *f)
{
	int mildest, strictest;

	plain_range(b, f, &mildest, &strictest);
	if (f->asking)
		claim(plain_flow_is_read(b, f) || (mildest == PLAIN_ASK && strictest == PLAIN_ASK),
		      "it waits, and the policy does not ask");
	else if (f->saying)
		claim(plain_flow_is_read(b, f) || flow_may(f, strictest),
		      "it may say hello, and is not allowed");
	else if (!f->inspected)
		claim(flow_may(f, strictest), "what is not read passes, and is not allowed");
	if (!f->asking && f->text && flow_is_outside(&f->name) && f->port == FLOW_HTTP_PORT)
		claim(f->guarded != f->inspected, "its Host is compared by none or by two");
	for (size_t i = 0; f->hides_name && !f->saying && i < ARRAY_SIZE(gen_names); i++) {
		struct sim_flow other = { .text = gen_names[i], .port = f->port };

		(void)host_name_parse(slice_of(gen_names[i]), &other.name);
		plain_range(b, &other, &mildest, &strictest);
		claim(!flow_is_outside(&other.name) || strictest == PLAIN_ALLOW,
		      "it may hide a name that is not allowed");
	}
}

static void check_box(const struct box *b)
{
	for (size_t i = 0; i < FLOWS; i++)
		if (b->flows[i].used)
			check_flow(b, &b->flows[i]);
}

/* A cut without a reason is one that the reference would have let be. */
static void check_cut(const struct box *b, const struct sim_flow *f, const char *why)
{
	int mildest, strictest;

	plain_range(b, f, &mildest, &strictest);
	if (str_eq(why, "deny"))
		claim(!flow_may(f, mildest) && !(f->asking && mildest == PLAIN_ASK),
		      "it is cut, and what it could send is allowed");
	else if (str_eq(why, "not_inspected"))
		claim(plain_flow_is_read(b, f) || (f->asking && !f->guarded),
		      "it is cut as unread, and nothing is to be read");
	else
		claim(str_eq(why, "name_is_hidden") && f->hides_name, "it is cut for no reason");
}

/* What cay-egress does */

static void flow_begin_passing(const struct box *b, struct sim_flow *f)
{
	const bool outside = f->text && flow_is_outside(&f->name);

	f->asking = false;
	if (outside && f->port == FLOW_HTTPS_PORT && !f->saying) {
		f->saying = true;
		return;
	}
	if (f->saying && f->hides_name && !egress_allows_every_name(box_policy(b), f->port)) {
		f->used = false;
		return;
	}
	f->saying = false;
	f->inspected = f->reads;
	claim(!f->inspected ||
		      (outside && (f->port == FLOW_HTTP_PORT || f->port == FLOW_HTTPS_PORT)),
	      "what cannot be read is to be read");
	happened[PASSED_UNREAD] += !f->inspected;
	happened[ADDRESS_ALLOWED] += !f->text;
	happened[PEER_ALLOWED] += f->text && !outside;
}

static void box_judge_again(struct box *b, bool same, bool takes_back)
{
	for (size_t i = 0; i < FLOWS; i++) {
		struct sim_flow *f = &b->flows[i];
		const struct flow_facts facts = facts_of(f);
		struct flow_judgement j;

		if (!f->used)
			continue;
		j = flow_judge_again(box_policy(b), &facts);
		f->reads = j.verdict.inspect;
		claim(!same || j.next == FLOW_STAYS, "the same policy changes what it allows");
		if (j.next == FLOW_CUT) {
			check_cut(b, f, j.why);
			f->used = false;
			happened[CUT_BY_CHANGE]++;
			happened[CUT_AS_UNREAD] += str_eq(j.why, "not_inspected");
			happened[CUT_AS_HIDDEN] += str_eq(j.why, "name_is_hidden");
			happened[CUT_BY_TAKING_BACK] += takes_back;
		} else if (j.next == FLOW_PASSES) {
			flow_begin_passing(b, f);
		} else {
			happened[HIDDEN_STAYED] += f->hides_name;
			happened[ASKED_ON] += f->asking;
		}
	}
}

/* cayd compiles and sends; what does not compile leaves the policy as it is. */
static void box_push(struct box *b, const struct plain_policy *next, bool takes_back)
{
	struct buf compiled = BUF_INIT(EGRESS_POLICY_MAX);

	if (gen_compile(next, b->generation + 1, &compiled) < 0 ||
	    egress_policy_check((struct slice){ compiled.data, compiled.len }) < 0) {
		claim(false, "a policy does not compile");
		buf_fini(&compiled);
		return;
	}
	buf_fini(&b->policy);
	b->policy = compiled;
	b->plain = *next;
	b->generation++;
	claim(egress_policy_generation(box_policy(b)) == b->generation,
	      "the generation is another");
	box_judge_again(b, false, takes_back);
}

/* Actions */

static void act_put(struct box *b)
{
	struct plain_policy next = b->plain;

	if (any(3) || !next.layers[PLAIN_SANDBOX].n)
		gen_layer(&random_, &next.layers[PLAIN_SANDBOX]);
	else /* a small change, under which most connections stay */
		next.layers[PLAIN_SANDBOX].rules[any(next.layers[PLAIN_SANDBOX].n)].action =
			PLAIN_DENY;
	box_push(b, &next, false);
}

/* Of all sandboxes; one after the other, as cayd sends it. */
static void act_bound(struct box *)
{
	struct plain_layer bound;

	gen_layer(&random_, &bound);
	bound.absent = any(2) == 0;
	if (bound.absent)
		bound = (struct plain_layer){ .absent = 1 };
	for (size_t i = 0; i < BOXES; i++) {
		struct plain_policy next = boxes[i].plain;

		next.layers[PLAIN_TENANT] = bound;
		box_push(&boxes[i], &next, false);
	}
}

static void act_question(struct box *b)
{
	/* rules have no other ports, so that one is like its neighbours */
	static const uint16_t edges[] = { 1,   21,  22,   23,   79,   80,    81,   442,
					  443, 444, 5431, 5432, 5433, 65534, 65535 };
	const size_t i = any(ARRAY_SIZE(gen_names));
	enum egress_action action, mildest = EGRESS_DENY;
	struct host_name n, back;
	const size_t had = b->names.n;
	uint32_t address;

	(void)host_name_parse(slice_of(gen_names[i]), &n);
	action = egress_judge_name_on_any_port(box_policy(b), &n);
	for (size_t k = 0; k < ARRAY_SIZE(edges); k++) {
		enum egress_action here = egress_judge_name(box_policy(b), &n, edges[k]).action;

		mildest = here < mildest ? here : mildest;
	}
	claim(action == mildest,
	      "a name exists, and no port of it may be asked for, or the other way round");
	happened[NAME_RESOLVED] += action == EGRESS_ALLOW;
	happened[NAME_NOT_RESOLVED] += action == EGRESS_ASK;
	happened[NAME_DENIED] += action == EGRESS_DENY;
	if (action == EGRESS_DENY)
		return;
	if (name_table_add(&b->names, &n, &address) < 0) {
		claim(false, "there is no address for a name");
		return;
	}
	claim(!b->addresses[i] || b->addresses[i] == address, "a name has another address");
	claim(name_table_find_address(&b->names, address, &back) &&
		      host_name_eq(&back, slice_of(gen_names[i])),
	      "an address has another name");
	b->addresses[i] = address;
	if (b->names.n > had)
		b->order[b->n_order++] = i;
}

/* A name by the address that it had at any time, or an address of no name. */
static void flow_choose(const struct box *b, struct sim_flow *f)
{
	const size_t i = any(ARRAY_SIZE(gen_names));
	struct host_name back;

	*f = (struct sim_flow){ .port = gen_ports[any(ARRAY_SIZE(gen_ports))] };
	if (any(5) && b->addresses[i]) {
		claim(name_table_find_address(&b->names, b->addresses[i], &back) &&
			      host_name_eq(&back, slice_of(gen_names[i])),
		      "an address that a program remembers has another name");
		f->text = gen_names[i];
		f->name = back;
		f->address = b->addresses[i];
		happened[OLD_ADDRESS_DIALLED]++;
	} else {
		f->address = gen_addresses[any(ARRAY_SIZE(gen_addresses))];
	}
}

static void act_dial(struct box *b)
{
	struct sim_flow f;
	struct flow_facts facts;
	struct flow_judgement j;
	size_t slot = any(FLOWS);

	if (b->flows[slot].used)
		return;
	flow_choose(b, &f);
	facts = facts_of(&f);
	j = flow_judge_first(box_policy(b), &facts);
	f.guarded = flow_is_to_guard(&facts, &j.verdict);
	f.reads = j.verdict.inspect;
	f.used = true;
	if (j.next == FLOW_CUT) {
		check_cut(b, &f, j.why);
		return;
	}
	f.asking = j.next == FLOW_ASKS;
	if (!f.asking)
		flow_begin_passing(b, &f);
	b->flows[slot] = f;
}

static struct sim_flow *flow_that(struct box *b, size_t member_asking, size_t member_saying,
				  size_t member_read)
{
	const size_t first = any(FLOWS);

	for (size_t k = 0; k < FLOWS; k++) {
		struct sim_flow *f = &b->flows[(first + k) % FLOWS];

		if (f->used && f->asking == !!member_asking && f->saying == !!member_saying &&
		    f->inspected == !!member_read)
			return f;
	}
	return NULL;
}

static void act_hello(struct box *b)
{
	struct sim_flow *f = flow_that(b, 0, 1, 0);

	if (!f)
		return;
	f->hides_name = any(3) == 0;
	flow_begin_passing(b, f);
}

static void act_request(struct box *b)
{
	struct sim_flow *f = flow_that(b, 0, 0, 1);
	struct plain_request rq;
	struct egress_request real = {};
	struct slice credential;
	struct egress_verdict v;

	if (!f)
		return;
	rq = (struct plain_request){ .name = f->text, .address = f->address, .port = f->port };
	rq.method = gen_methods[any(ARRAY_SIZE(gen_methods))];
	rq.path = gen_paths[any(ARRAY_SIZE(gen_paths))];
	real.method = slice_of(rq.method);
	if (rq.path)
		real.path = slice_of(rq.path);
	v = egress_judge_request(box_policy(b), &f->name, f->port, &real, &credential);
	claim((int)v.action == plain_judge(&b->plain, &rq), "a request is judged in another way");
	happened[flow_may(f, (int)v.action) ? PASSED_READ : READ_AND_DENIED]++;
}

/* cayd sends an answer for all that wait for this name and port. */
static void act_answer(struct box *b)
{
	const struct sim_flow *of = flow_that(b, 1, 0, 0);
	const bool allowed = any(3) > 0;
	struct sim_flow about;

	if (!of)
		return;
	about = *of;
	for (size_t i = 0; i < FLOWS; i++) {
		struct sim_flow *f = &b->flows[i];
		struct flow_facts facts = facts_of(f);
		struct flow_judgement j;

		if (!f->used || !f->asking || f->port != about.port || f->text != about.text ||
		    f->address != about.address)
			continue;
		j = flow_judge_answered(box_policy(b), &facts, allowed);
		if (j.next == FLOW_CUT) {
			f->used = false;
			claim(!allowed, "it was allowed by the answer, and is cut");
			continue;
		}
		claim(allowed, "it was denied by the answer, and goes on");
		f->approved = true;
		f->reads = j.verdict.inspect;
		happened[APPROVED]++;
		flow_begin_passing(b, f);
	}
}

static void layer_forget(struct plain_layer *l, const char *to, unsigned port)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (l->rules[i].from != port || strcmp(l->rules[i].to, to) != 0)
			l->rules[n++] = l->rules[i];
	l->n = n;
}

/* An answer that is remembered, for one or for the group, or taken back. */
static void act_remember(struct box *b)
{
	const struct sim_flow *f = flow_that(b, 1, 0, 0);
	const char *to = f && f->text ? f->text : gen_names[any(ARRAY_SIZE(gen_names))];
	const unsigned port = f && f->text ? f->port : gen_ports[any(ARRAY_SIZE(gen_ports))];
	const bool takes_back = any(3) == 0;
	const size_t first = any(2) ? 0 : (size_t)(b - boxes);
	const size_t last = first || any(2) ? (size_t)(b - boxes) : BOXES - 1;

	for (size_t i = first; i <= last; i++) {
		struct plain_policy next = boxes[i].plain;
		struct plain_layer *answers = &next.layers[PLAIN_ANSWERS];
		uint64_t passed = happened[PASSED_UNREAD];

		answers->absent = 0;
		answers->otherwise = PLAIN_DENY;
		layer_forget(answers, to, port);
		if (!takes_back && answers->n < PLAIN_RULES)
			answers->rules[answers->n++] =
				(struct plain_rule){ .action = any(4) ? PLAIN_ALLOW : PLAIN_DENY,
						     .to = to,
						     .from = port,
						     .until = port };
		answers->absent = !answers->n;
		if (answers->absent)
			*answers = (struct plain_layer){ .absent = 1 };
		box_push(&boxes[i], &next, takes_back);
		happened[PASSED_BY_REMEMBERED] += !takes_back && happened[PASSED_UNREAD] > passed;
	}
}

static void act_end(struct box *b)
{
	b->flows[any(FLOWS)].used = false;
}

/* cayd restarts: it sends what its journal has. */
static void act_send_again(struct box *b)
{
	box_judge_again(b, true, false);
}

static void box_init_names(struct box *b)
{
	uint8_t key[SIPHASH_KEY_LEN] = { (uint8_t)(b - boxes) };

	name_table_fini(&b->names);
	name_table_init(&b->names, key, UINT32_C(25) << 24 | 192 << 16, 10);
}

/* cay-egress restarts: connections end, names come back in their order. */
static void act_restart(struct box *)
{
	for (size_t i = 0; i < BOXES; i++) {
		struct box *b = &boxes[i];

		memset(b->flows, 0, sizeof(b->flows));
		box_init_names(b);
		for (size_t k = 0; k < b->n_order; k++) {
			const size_t of = b->order[k];
			struct host_name n;
			uint32_t address;

			(void)host_name_parse(slice_of(gen_names[of]), &n);
			claim(name_table_add(&b->names, &n, &address) == 0 &&
				      address == b->addresses[of],
			      "a name has another address after a restart");
		}
	}
}

static const struct {
	const char *name;
	void (*fn)(struct box *b);
	unsigned weight;
} actions[] = {
	{ "put", act_put, 10 },
	{ "bound", act_bound, 2 },
	{ "question", act_question, 12 },
	{ "dial", act_dial, 40 },
	{ "hello", act_hello, 12 },
	{ "request", act_request, 12 },
	{ "answer", act_answer, 5 },
	{ "remember", act_remember, 6 },
	{ "end", act_end, 4 },
	{ "send again", act_send_again, 4 },
	{ "restart", act_restart, 1 },
};

static void act(bool loud)
{
	unsigned sum = 0;
	size_t i = 0;
	uint64_t at;
	struct box *b = &boxes[any(BOXES)];

	for (size_t k = 0; k < ARRAY_SIZE(actions); k++)
		sum += actions[k].weight;
	for (at = any(sum); at >= actions[i].weight; i++)
		at -= actions[i].weight;
	if (loud)
		(void)printf("# %4" PRIu64 "  sb%zu  %s\n", step, (size_t)(b - boxes),
			     actions[i].name);
	actions[i].fn(b);
	for (size_t k = 0; k < BOXES; k++)
		check_box(&boxes[k]);
}

static void box_create(struct box *b)
{
	struct plain_policy first = {};

	buf_fini(&b->policy);
	name_table_fini(&b->names);
	*b = (struct box){};
	box_init_names(b);
	for (size_t i = 0; i < PLAIN_LAYERS; i++)
		first.layers[i] = (struct plain_layer){ .absent = 1 };
	if (any(2))
		gen_layer(&random_, &first.layers[PLAIN_TEMPLATE]);
	gen_layer(&random_, &first.layers[PLAIN_SANDBOX]);
	box_push(b, &first, false);
}

static bool run(uint64_t seed, bool loud)
{
	random_.state = seed;
	broken = NULL;
	for (size_t i = 0; i < BOXES; i++)
		box_create(&boxes[i]);
	for (step = 0; step < STEPS && !broken; step++)
		act(loud);
	if (broken)
		(void)printf("# seed %" PRIu64 ", step %" PRIu64 ": %s\n", seed, step, broken);
	return !broken;
}

int main(int argc, char **argv)
{
	const char *full = getenv("CAY_FULL");
	uint64_t n = full && str_eq(full, "1") ? 20 * SEEDS : SEEDS, seed;
	bool all = true;

	if (argc > 1)
		return str_parse_u64(slice_of(argv[1]), 0, UINT64_MAX, &seed) < 0
			       ? 2
			       : !run(seed, true);
	(void)printf("1..2\n");
	for (seed = 1; seed <= n; seed++)
		if (!run(seed, false)) {
			(void)printf("not ok 1 - seed %" PRIu64 ": %s\n", seed, broken);
			return 1;
		}
	(void)printf("ok 1 - %" PRIu64 " seeds, %" PRIu64 " steps\n", n, n * STEPS);
	for (size_t i = 0; i < HAPPENINGS; i++) {
		(void)printf("# %-30s %" PRIu64 "\n", happening_names[i], happened[i]);
		all = all && happened[i];
	}
	(void)printf("%s 2 - everything that can happen did\n", all ? "ok" : "not ok");
	return all ? 0 : 1;
}
