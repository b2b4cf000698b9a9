/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress.h"

#include <stdlib.h>

bool pace_take(struct pace *p, uint64_t now_ns, uint64_t per_s, uint64_t burst)
{
	const uint64_t each = NS_PER_S / per_s;
	const uint64_t passed = now_ns - p->at_ns;

	p->owed_ns = p->owed_ns > passed ? p->owed_ns - passed : 0;
	p->at_ns = now_ns;
	if (p->owed_ns + each > burst * each)
		return false;
	p->owed_ns += each;
	return true;
}

static struct egress_sandbox **egress_sandbox_slot(struct egress *e, const struct id *id)
{
	unsigned hash = id->bits[14] | (unsigned)id->bits[13] << 8;
	struct egress_sandbox **at = &e->sandboxes[hash % SANDBOX_BUCKETS];

	while (*at && !id_eq(&(*at)->id, id))
		at = &(*at)->next;
	return at;
}

struct egress_sandbox *egress_sandbox_find(struct egress *e, const struct id *id)
{
	return *egress_sandbox_slot(e, id);
}

void egress_init_names(const struct egress *e, const struct id *id, struct name_table *ret)
{
	static_assert(sizeof(*id) == SIPHASH_KEY_LEN);
	name_table_init(ret, (const uint8_t *)id, e->synthetic_net, e->synthetic_prefix);
}

struct egress_sandbox *egress_sandbox_add(struct egress *e, const struct id *id,
					  const struct id *tenant)
{
	struct egress_sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	*sb = (struct egress_sandbox){ .egress = e, .id = *id, .tenant = *tenant };
	sb->policy = BUF_INIT(EGRESS_POLICY_MAX);
	if (!name_file_take(e, id, &sb->names))
		egress_init_names(e, id, &sb->names);
	*egress_sandbox_slot(e, id) = sb;
	return sb;
}

unsigned egress_sandbox_tenant_slot(const struct egress_sandbox *sb)
{
	return (sb->tenant.bits[14] | (unsigned)sb->tenant.bits[13] << 8) % TENANT_SLOTS;
}

static void egress_sandbox_free_if_unused(struct egress_sandbox *sb)
{
	if (!sb->gone || sb->holds)
		return;
	egress_sandbox_counts_end(sb);
	buf_fini(&sb->policy);
	name_table_fini(&sb->names);
	recent_fini(sb);
	egress_sandbox_meter_fini(sb);
	free(sb);
}

void egress_sandbox_hold(struct egress_sandbox *sb)
{
	sb->holds++;
}

void egress_sandbox_release(struct egress_sandbox *sb)
{
	sb->holds--;
	egress_sandbox_free_if_unused(sb);
}

struct sandbox_listeners {
	struct egress_sandbox *sandbox;
	uv_poll_t tcp, udp;
	unsigned open_handles;
	int fds[STEER_NUM];
};

static void on_egress_sandbox_readable(uv_poll_t *p, int status, int)
{
	struct sandbox_listeners *l = p->data;

	if (status < 0 || l->sandbox->listeners != l)
		return;
	if (p == &l->tcp)
		egress_sandbox_accept_flow(l->sandbox);
	else
		egress_sandbox_answer_questions(l->sandbox);
}

static void on_egress_sandbox_poll_closed(uv_handle_t *h)
{
	struct sandbox_listeners *l = h->data;
	struct egress_sandbox *sb = l->sandbox;

	if (--l->open_handles)
		return;
	for (size_t i = 0; i < STEER_NUM; i++)
		cay_closep(&l->fds[i]);
	free(l);
	egress_sandbox_release(sb);
}

static void egress_sandbox_close_listeners(struct egress_sandbox *sb)
{
	struct sandbox_listeners *l = sb->listeners;

	sb->listeners = NULL;
	if (!l)
		return;
	uv_close((uv_handle_t *)&l->tcp, on_egress_sandbox_poll_closed);
	uv_close((uv_handle_t *)&l->udp, on_egress_sandbox_poll_closed);
}

int egress_sandbox_fd(const struct egress_sandbox *sb, enum steer_fd which)
{
	return sb->listeners ? sb->listeners->fds[which] : -EBADF;
}

int egress_sandbox_attach(struct egress_sandbox *sb, int fds[static STEER_NUM])
{
	struct sandbox_listeners *l = calloc(1, sizeof(*l));

	if (!l || uv_poll_init(&sb->egress->loop, &l->tcp, fds[STEER_TCP]) < 0) {
		free(l);
		for (size_t i = 0; i < STEER_NUM; i++)
			cay_closep(&fds[i]);
		return -ENOMEM;
	}
	egress_sandbox_hold(sb);
	l->sandbox = sb;
	l->open_handles = 2;
	memcpy(l->fds, fds, sizeof(l->fds));
	l->tcp.data = l->udp.data = l;
	egress_sandbox_close_listeners(sb);
	sb->listeners = l;
	if (uv_poll_init(&sb->egress->loop, &l->udp, fds[STEER_UDP]) < 0) {
		l->open_handles = 1;
		sb->listeners = NULL;
		uv_close((uv_handle_t *)&l->tcp, on_egress_sandbox_poll_closed);
		return -ENOMEM;
	}
	(void)uv_poll_start(&l->tcp, UV_READABLE, on_egress_sandbox_readable);
	(void)uv_poll_start(&l->udp, UV_READABLE, on_egress_sandbox_readable);
	return 0;
}

int egress_sandbox_set_policy(struct egress_sandbox *sb, struct slice policy)
{
	struct buf copy = BUF_INIT(EGRESS_POLICY_MAX);

	if (egress_policy_check(policy) < 0)
		return -EPROTO;
	if (buf_append(&copy, policy.p, policy.n) < 0)
		return -ENOMEM; /* it keeps the one it has */
	buf_fini(&sb->policy);
	sb->policy = copy;
	egress_sandbox_judge_flows(sb);
	return 0;
}

bool egress_sandbox_may_hide_names(const struct egress_sandbox *sb, uint16_t port)
{
	return egress_allows_every_name((struct slice){ sb->policy.data, sb->policy.len }, port);
}

void egress_sandbox_remove(struct egress_sandbox *sb)
{
	*egress_sandbox_slot(sb->egress, &sb->id) = sb->next;
	sb->gone = true;
	egress_sandbox_close_listeners(sb);
	egress_sandbox_hold(sb);
	for (struct flow *f = sb->flows, *next; f; f = next) {
		next = flow_next(f);
		flow_cut(f, "sandbox_ended");
	}
	decision_log_add_skipped(sb);
	egress_sandbox_release(sb);
}

void egress_sandbox_remove_all_but(struct egress *e, uint64_t round)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct egress_sandbox *sb = e->sandboxes[i], *next; sb; sb = next) {
			next = sb->next;
			if (sb->round == round)
				continue;
			name_file_forget(e, &sb->id, &sb->names);
			egress_sandbox_remove(sb);
		}
}
