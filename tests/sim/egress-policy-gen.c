/* SPDX-License-Identifier: Apache-2.0 */
#include "egress-policy-gen.h"

#include <stdio.h>
#include <stdlib.h>

#include "life/egress-layers.h"

const char *const gen_names[10] = {
	"a.test",
	"b.a.test",
	"c.b.a.test",
	"xa.test",
	"d.test",
	"e.d.test",
	"db.group.cay.internal",
	"web.group.cay.internal",
	"group.cay.internal",
	"q.cay.internal",
};
const uint16_t gen_ports[5] = { 22, 80, 443, 5432, 65535 };
const uint32_t gen_addresses[3] = { 0x5db80207, 0x5db80208, 0x08080808 };
const char *const gen_methods[3] = { "GET", "PUT", "BREW" };
const char *const gen_paths[4] = { "/a/1", "/b", "/c", NULL };

uint64_t gen_random(struct gen_random *g, uint64_t below)
{
	uint64_t z = g->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % below;
}

static const char *gen_target(struct gen_random *g)
{
	static const char *const wild[] = { "*",        "*.a.test",       "*.b.a.test",
					    "*.d.test", "*.cay.internal", "*.group.cay.internal" };

	switch (gen_random(g, 4)) {
	case 0:
		return plain_nets[gen_random(g, ARRAY_SIZE(plain_nets))].text;
	case 1:
		return wild[gen_random(g, ARRAY_SIZE(wild))];
	default:
		return gen_names[gen_random(g, ARRAY_SIZE(gen_names))];
	}
}

/* What is refused is not tried here; test-egress-layers.c has it. */
static bool gen_may_read(const struct plain_rule *r)
{
	const size_t n = strlen(r->to);

	for (size_t i = 0; i < ARRAY_SIZE(plain_nets); i++)
		if (strcmp(r->to, plain_nets[i].text) == 0)
			return false;
	return n < 18 || strcmp(r->to + n - 18, "group.cay.internal") != 0;
}

static void gen_rule(struct gen_random *g, struct plain_rule *r)
{
	static const char *const patterns[] = { "/a/*", "/b", "/*" };
	unsigned x = gen_ports[gen_random(g, ARRAY_SIZE(gen_ports))],
		 y = gen_ports[gen_random(g, ARRAY_SIZE(gen_ports))];

	*r = (struct plain_rule){ .action = (int)gen_random(g, 3),
				  .to = gen_target(g),
				  .from = x < y ? x : y,
				  .until = x < y ? y : x };
	if (gen_random(g, 3) || !gen_may_read(r))
		return;
	r->from = r->until = gen_random(g, 2) ? 443 : 80;
	r->inspect = !gen_random(g, 3);
	if (r->action == PLAIN_ASK) {
		r->inspect = 1;
		return;
	}
	if (gen_random(g, 2))
		r->method = gen_methods[gen_random(g, 2)];
	if (gen_random(g, 2))
		r->path = patterns[gen_random(g, ARRAY_SIZE(patterns))];
}

void gen_layer(struct gen_random *g, struct plain_layer *ret)
{
	*ret = (struct plain_layer){ .otherwise = (int)gen_random(g, 3) };
	ret->n = gen_random(g, PLAIN_RULES + 1);
	for (size_t i = 0; i < ret->n; i++)
		gen_rule(g, &ret->rules[i]);
}

struct gen_texts {
	struct egress_spec specs[PLAIN_LAYERS];
	struct egress_rule_spec rules[PLAIN_LAYERS][PLAIN_RULES];
	char ports[PLAIN_LAYERS][PLAIN_RULES][16];
	const char *port_texts[PLAIN_LAYERS][PLAIN_RULES];
	const char *methods[PLAIN_LAYERS][PLAIN_RULES], *paths[PLAIN_LAYERS][PLAIN_RULES];
};

static void gen_write_rule(const struct plain_rule *r, struct gen_texts *t, size_t l, size_t i)
{
	struct egress_rule_spec *to = &t->rules[l][i];

	if (snprintf(t->ports[l][i], sizeof(t->ports[l][i]), "%u-%u", r->from, r->until) >=
	    (int)sizeof(t->ports[l][i]))
		abort();
	t->port_texts[l][i] = t->ports[l][i];
	t->methods[l][i] = r->method;
	t->paths[l][i] = r->path;
	*to = (struct egress_rule_spec){ .action = (unsigned)r->action,
					 .to = r->to,
					 .ports = { &t->port_texts[l][i], 1 },
					 .methods = { &t->methods[l][i], r->method != NULL },
					 .paths = { &t->paths[l][i], r->path != NULL },
					 .has_inspect = r->inspect,
					 .inspect = r->inspect };
}

int gen_compile(const struct plain_policy *p, uint64_t generation, struct buf *ret)
{
	static struct gen_texts t;
	const struct egress_spec *specs[EGRESS_LAYER_NUM] = {};
	struct cay_err err = {};

	static_assert((int)PLAIN_LAYERS == (int)EGRESS_LAYER_NUM);
	for (size_t l = 0; l < PLAIN_LAYERS; l++) {
		const struct plain_layer *layer = &p->layers[l];

		for (size_t i = 0; i < layer->n; i++)
			gen_write_rule(&layer->rules[i], &t, l, i);
		t.specs[l] = (struct egress_spec){ .rules = { t.rules[l], layer->n },
						   .otherwise = (unsigned)layer->otherwise };
		specs[l] = layer->absent ? NULL : &t.specs[l];
	}
	return egress_layers_compile(specs, &(struct egress_presets){}, generation, ret, &err);
}
