/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow-peer - a connection to another sandbox of the group
 *
 * cayd alone knows groups, and which ports a sandbox exposes to its group.  It connects, and gives
 * a socket that leads to that port and to nothing else of that sandbox.
 */
#include <sys/socket.h>

#include "egress/flow.h"

#define PEER_MS 8000 /* longer than PID 1 of the other tries */

bool flow_is_to_peer(const struct flow *f)
{
	struct slice label;

	return f->name.n && host_name_is_of_group(&f->name, &label);
}

static void on_flow_peer_timeout(uv_timer_t *t)
{
	flow_cut(t->data, "peer_timeout");
}

void flow_peer_ask(struct flow *f)
{
	struct egress *e = f->sandbox->egress;

	/* so that no reply to a question of before a restart is taken for that to another one */
	if (!e->n_peer_questions)
		e->n_peer_questions = clk_boot_ns(e->clk);
	struct {
		struct egress_message m;
		struct egress_peer peer;
	} msg = { .m = egress_message_init(EGRESS_MSG_PEER, &f->sandbox->id, ++e->n_peer_questions),
		  .peer = { .port = f->port } };

	static_assert(sizeof(msg) == sizeof(msg.m) + sizeof(msg.peer));
	if (!flow_log(f, "connect", f->approved ? "answered" : "allow")) {
		flow_cut(f, "log_unavailable");
		return;
	}
	memcpy(msg.peer.name, f->name.text, f->name.n);
	f->peer.number = msg.m.generation;
	f->state = EGRESS_FLOW_CONNECTING;
	(void)uv_timer_start(&f->timer, on_flow_peer_timeout, PEER_MS, 0);
	if (!feed_push(e, &msg, sizeof(msg)))
		flow_cut(f, "peer_unreachable");
}

static struct flow *flow_find_peer_question(struct egress_sandbox *sb, uint64_t number)
{
	for (struct flow *f = sb ? sb->flows : NULL; f; f = f->next)
		if (f->peer.number == number && !f->cut && !f->tunnel)
			return f;
	return NULL;
}

void egress_sandbox_connect_peer(struct egress_sandbox *sb, uint64_t number,
				 const struct egress_peer_done *done, int fd)
{
	static const char *const reasons[EGRESS_PEER_NUM] = {
		[EGRESS_PEER_ABSENT] = "peer_absent",
		[EGRESS_PEER_NOT_EXPOSED] = "peer_not_exposed",
		[EGRESS_PEER_UNREACHABLE] = "peer_unreachable",
	};
	static const struct conn_events no_events = {};
	const struct conn_conf conf = { .events = &no_events, .out_max = 2 * CONN_READ };
	struct flow *f = flow_find_peer_question(sb, number);
	struct conn *outside;

	if (!f) {
		cay_closep(&fd);
	} else if (fd < 0) {
		flow_cut(f, reasons[done->outcome]);
	} else if (conn_open_fd(sb->egress->room, fd, AF_UNIX, &conf, &outside) < 0) {
		flow_cut(f, "no_memory");
	} else {
		f->peer.id = done->peer;
		f->peer.round = feed_round(sb->egress);
		flow_copy(f, outside);
	}
}

uint64_t egress_expose(struct egress *e, const struct id *peer, const struct egress_exposed *ports,
		       uint64_t round)
{
	uint64_t n = 0;

	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct egress_sandbox *sb = e->sandboxes[i]; sb; sb = sb->next)
			for (struct flow *f = sb->flows, *next; f; f = next) {
				next = f->next;
				if (f->cut || !id_eq(&f->peer.id, peer))
					continue;
				f->peer.round = round;
				if (egress_exposed_has(ports, f->port))
					continue;
				flow_cut(f, "peer_not_exposed");
				n++;
			}
	return n;
}

void egress_cut_unexposed(struct egress *e, uint64_t round)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct egress_sandbox *sb = e->sandboxes[i]; sb; sb = sb->next)
			for (struct flow *f = sb->flows, *next; f; f = next) {
				next = f->next;
				if (f->peer.id.noun != ID_NONE && f->peer.round != round)
					flow_cut(f, "peer_not_exposed");
			}
}
