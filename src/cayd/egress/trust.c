/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/trust.h"

#include "cayd/core/init-call.h"
#include "cayd/sandbox/sandbox.h"
#include "wire/egress-message.h"
#include "wire/hello.h"

#define TRUST_MS 5000 /* so long PID 1 may take */

struct ca_gift {
	struct sandbox *sandbox;
	egress_link_fn *fn;
	void *arg;
};

static void ca_gift_finish(struct ca_gift *g)
{
	if (g->fn)
		g->fn(g->arg, &(struct cay_err){});
	sandbox_release(g->sandbox);
	free(g);
}

/* Whatever the outcome: without it programs refuse the connections, and nothing else happens. */
static void on_ca_gift_reply(void *arg, unsigned status, struct slice, const struct cay_err *)
{
	struct ca_gift *g = arg;

	if (status != 204)
		log_warn(&g->sandbox->cayd->log,
			 "a sandbox did not take the certificate of its CA");
	g->sandbox->ca_is_given = status == 204;
	ca_gift_finish(g);
}

/* cayd does not trust cay-egress: it must be one certificate as text. */
static bool ca_is_valid(struct slice pem)
{
	static const struct slice begin = SLICE("-----BEGIN CERTIFICATE-----\n");
	static const struct slice end = SLICE("-----END CERTIFICATE-----\n");

	if (pem.n <= begin.n + end.n || memcmp(pem.p, begin.p, begin.n) != 0 ||
	    memcmp(pem.p + pem.n - end.n, end.p, end.n) != 0)
		return false;
	for (size_t i = begin.n; i < pem.n - end.n; i++)
		if (!ascii_is_alnum(pem.p[i]) && (!pem.p[i] || !strchr("+/=\n", pem.p[i])))
			return false;
	return true;
}

void sandbox_trust_ca(struct sandbox *sb, struct slice pem, egress_link_fn *fn, void *arg)
{
	auto_buf body = BUF_INIT(KIB(8));
	struct jw w = jw_to(&body);
	struct ca_gift *g = malloc(sizeof(*g));
	bool reachable = sb->life.state == SB_PENDING || sb->life.state == SB_RUNNING ||
			 sb->life.state == SB_STARTING || sandbox_pid1_replies(sb);

	if (!sb->ca && ca_is_valid(pem))
		sb->ca = strndup(pem.p, pem.n);
	sb->ca_is_due = sb->ca && !sb->ca_is_given && sb->life.state == SB_PAUSED;
	if (!g || !sb->ca || sb->ca_is_given || !reachable) {
		free(g);
		if (fn)
			fn(arg, &(struct cay_err){});
		return;
	}
	*g = (struct ca_gift){ sb, fn, arg };
	sb->holds++;
	field_encode(&trust_table, NULL, &(struct trust){ sb->ca }, &w);
	if (jw_finish(&w) < 0)
		buf_clear(&body); /* PID 1 refuses an empty body, and that is the outcome */
	init_call_with_deadline(sb->cayd, &sb->info.id, "POST", INIT_PATH_TRUST,
				(struct slice){ buf_str(&body), body.len }, TRUST_MS,
				on_ca_gift_reply, g);
}

void sandbox_trust_ca_if_due(struct sandbox *sb)
{
	if (sb->ca_is_due && sb->life.state == SB_RUNNING)
		sandbox_trust_ca(sb, (struct slice){}, NULL, NULL);
}
