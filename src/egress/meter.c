/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter - how many bytes the connections of a sandbox may move, and how fast
 *
 * All its tunnels ask here before they take bytes, and say how many they took.  A tunnel that may
 * take none waits; a timer asks for all of them again.  A tunnel may take more at once than a
 * rate allows, and then nothing is taken until the rate has made up for it.
 *
 * When the last byte that may be moved was taken, connections are cut as soon as their peers have
 * what was taken, so that exactly so many bytes arrive.
 */
#include <stdlib.h>

#include "egress/egress.h"
#include "net/tunnel.h"

#define AGAIN_MS 10
#define STEP KIB(64)   /* taken at once, with a rate */
#define DRAIN_MS 10000 /* so long a peer may take to acknowledge the last bytes */

struct sandbox_meter {
	struct egress_sandbox *sandbox;
	uv_timer_t timer;
	struct {
		uint64_t used; /* bytes ever */
		uint64_t at_ns, owed_ns;
	} side[2];
	bool waits; /* a tunnel asked, and there was no room */
	uint64_t used_up_ns;
};

static uint64_t meter_left(const struct sandbox_meter *m, unsigned from)
{
	const uint64_t most = m->sandbox->limits.bytes[from], used = m->side[from].used;

	return !most ? UINT64_MAX : used < most ? most - used : 0;
}

bool egress_sandbox_is_used_up(const struct egress_sandbox *sb)
{
	return sb->meter && (!meter_left(sb->meter, 0) || !meter_left(sb->meter, 1));
}

static void on_meter_timer(uv_timer_t *t);

static void meter_wait(struct sandbox_meter *m)
{
	m->waits = true;
	if (!uv_is_active((const uv_handle_t *)&m->timer))
		(void)uv_timer_start(&m->timer, on_meter_timer, AGAIN_MS, 0);
}

static void meter_pay(struct sandbox_meter *m, unsigned from)
{
	const uint64_t now = clk_boot_ns(m->sandbox->egress->clk);
	const uint64_t passed = now - m->side[from].at_ns;

	m->side[from].at_ns = now;
	m->side[from].owed_ns = m->side[from].owed_ns > passed ? m->side[from].owed_ns - passed : 0;
}

static size_t on_tunnel_room(void *arg, unsigned from)
{
	const struct egress_sandbox *sb = arg;
	struct sandbox_meter *m = sb->meter;
	uint64_t room;

	if (!m)
		return SIZE_MAX;
	room = egress_sandbox_is_used_up(sb) ? 0 : meter_left(m, from);
	if (sb->limits.rate[from]) {
		meter_pay(m, from);
		room = m->side[from].owed_ns ? 0 : room < STEP ? room : STEP;
	}
	if (!room)
		meter_wait(m);
	return room < SIZE_MAX ? (size_t)room : SIZE_MAX;
}

static size_t on_tunnel_pass(void *arg, unsigned from, size_t n)
{
	const struct egress_sandbox *sb = arg;
	struct sandbox_meter *m = sb->meter;

	if (!m)
		return n;
	if (n > meter_left(m, from))
		n = (size_t)meter_left(m, from);
	m->side[from].used += n;
	if (sb->limits.rate[from]) {
		meter_pay(m, from);
		m->side[from].owed_ns +=
			(uint64_t)((double)n * (double)NS_PER_S / (double)sb->limits.rate[from]);
	}
	if (egress_sandbox_is_used_up(sb))
		meter_wait(m);
	return n;
}

static void meter_cut_drained(const struct sandbox_meter *m, uint64_t now_ns)
{
	const bool late = now_ns - m->used_up_ns > DRAIN_MS * NS_PER_MS;

	for (struct flow *f = m->sandbox->flows, *next; f; f = next) {
		const struct tunnel *t = flow_get_tunnel(f);

		next = flow_next(f);
		if (!t || late || tunnel_is_drained(t))
			flow_cut(f, "used_up");
	}
}

static void on_meter_timer(uv_timer_t *t)
{
	struct sandbox_meter *m = t->data;
	const uint64_t now = clk_boot_ns(m->sandbox->egress->clk);

	m->waits = false;
	if (egress_sandbox_is_used_up(m->sandbox)) {
		if (!m->used_up_ns)
			m->used_up_ns = now;
		meter_cut_drained(m, now);
		m->waits = m->sandbox->flows != NULL;
	} else {
		m->used_up_ns = 0;
		for (struct flow *f = m->sandbox->flows, *next; f; f = next) {
			next = flow_next(f);
			flow_move_again(f);
		}
	}
	if (m->waits)
		meter_wait(m);
}

bool egress_sandbox_meter_has_room(const struct egress_sandbox *sb, unsigned from)
{
	return on_tunnel_room((void *)(uintptr_t)sb, from) > 0;
}

bool egress_sandbox_meter_take(const struct egress_sandbox *sb, unsigned from, size_t n)
{
	return on_tunnel_pass((void *)(uintptr_t)sb, from, n) == n;
}

void egress_sandbox_meter_tunnel(struct egress_sandbox *sb, struct tunnel *t)
{
	static const struct tunnel_meter meter = { .room = on_tunnel_room, .pass = on_tunnel_pass };

	tunnel_set_meter(t, &meter, sb);
}

static bool egress_limits_need_meter(const struct egress_limits *l)
{
	return l->bytes[0] || l->bytes[1] || l->rate[0] || l->rate[1];
}

static struct sandbox_meter *sandbox_meter_new(struct egress_sandbox *sb)
{
	struct sandbox_meter *m = calloc(1, sizeof(*m));
	const struct egress_counts counts = egress_sandbox_get_counts(sb);

	if (!m)
		return NULL;
	m->sandbox = sb;
	m->side[0].used = counts.up;
	m->side[1].used = counts.down;
	(void)uv_timer_init(&sb->egress->loop, &m->timer);
	m->timer.data = m;
	return m;
}

/* Bytes count from the first, whenever the limit comes. */
int egress_sandbox_set_limits(struct egress_sandbox *sb, const struct egress_limits *limits)
{
	if (!sb->meter && egress_limits_need_meter(limits)) {
		sb->meter = sandbox_meter_new(sb);
		if (!sb->meter)
			return -ENOMEM;
	}
	sb->limits = *limits;
	if (sb->meter)
		meter_wait(sb->meter); /* those that wait, and those that may move no more */
	return 0;
}

static void on_meter_closed(uv_handle_t *h)
{
	free(h->data);
}

void egress_sandbox_meter_fini(struct egress_sandbox *sb)
{
	if (sb->meter)
		uv_close((uv_handle_t *)&sb->meter->timer, on_meter_closed);
	sb->meter = NULL;
}
