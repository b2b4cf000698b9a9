/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask - connections that wait for an answer
 *
 * cayd is told of each, knows whether a client can answer, and sends the answer.  The connection
 * itself waits here, for as long as the policy says, also while cayd is restarted.
 */
#include "egress/flow.h"

#include <string.h>

#define TLS_HANDSHAKE 0x16

enum egress_ask_kind ask_kind_of(char first)
{
	if (first == TLS_HANDSHAKE)
		return EGRESS_KIND_TLS;
	return first >= 'A' && first <= 'Z' ? EGRESS_KIND_HTTP : EGRESS_KIND_OTHER;
}

static bool egress_sandbox_tell_ask(const struct egress_sandbox *sb, const struct egress_ask *ask)
{
	struct {
		struct egress_message head;
		struct egress_ask body;
	} m = { egress_message_init(EGRESS_MSG_ASK, &sb->id, 0), *ask };

	static_assert(sizeof(m) == sizeof(m.head) + sizeof(m.body));
	return !sb->gone && feed_push(sb->egress, &m, sizeof(m));
}

bool flow_tell(const struct flow *f, enum egress_ask_event event)
{
	struct egress_ask a = { .address = f->name.n ? 0 : f->address,
				.port = f->port,
				.event = (uint8_t)event,
				.kind = (uint8_t)f->kind };

	memcpy(a.name, f->name.text, f->name.n);
	return egress_sandbox_tell_ask(f->sandbox, &a);
}

static void flow_ask_again(const struct flow *f)
{
	if (f->state == EGRESS_FLOW_ASKING)
		(void)flow_tell(f, EGRESS_ASK_AGAIN);
}

static bool ask_matches(const struct egress_answer *a, const struct egress_flow_row *row)
{
	uint8_t address[EGRESS_ADDRESS_LEN];

	if (row->state != EGRESS_FLOW_ASKING || row->port != a->port)
		return false;
	address_from_v4(a->address, address);
	return a->name[0] ? strcmp(a->name, row->name) == 0
			  : !row->name[0] && memcmp(address, row->address, sizeof(address)) == 0;
}

uint64_t egress_sandbox_answer_asks(struct egress_sandbox *sb, const struct egress_answer *a)
{
	struct egress_flow_row row;
	uint64_t n = 0;

	for (struct flow *f = sb ? sb->flows : NULL, *next; f; f = next) {
		next = flow_next(f);
		if (!flow_describe(f, &row) || !ask_matches(a, &row))
			continue;
		flow_answer(f, (enum egress_answer_verdict)a->verdict);
		n++;
	}
	return n;
}

void egress_tell_asks_again(struct egress *e)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct egress_sandbox *sb = e->sandboxes[i]; sb; sb = sb->next)
			for (struct flow *f = sb->n_asking ? sb->flows : NULL; f; f = flow_next(f))
				flow_ask_again(f);
}
