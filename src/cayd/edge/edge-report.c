/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/edge/edge-report.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "cayd/tenant/api-key.h"

#define ONE_NS (REPORT_EVERY_MS * NS_PER_MS)

static const enum cay_code edge_refusal_codes[] = {
	[PUSH_NO_CREDENTIAL] = CAY_E_UNAUTHENTICATED,
	[PUSH_NO_SCOPE] = CAY_E_FORBIDDEN,
	[PUSH_TOO_OFTEN] = CAY_E_RATE,
};
static_assert(ARRAY_SIZE(edge_refusal_codes) == PUSH_REFUSALS);

int edge_reports_open(struct cayd *c, struct cay_err *err)
{
	c->edge_reports = calloc(1, sizeof(*c->edge_reports));
	return c->edge_reports ? 0 : cay_no_memory(err);
}

/* A token bucket. */
static bool edge_refusal_claim_budget(struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	if (c->edge_reports->refused_full_ns < now)
		c->edge_reports->refused_full_ns = now;
	if (c->edge_reports->refused_full_ns + ONE_NS > now + REPORT_BURST * ONE_NS)
		return false;
	c->edge_reports->refused_full_ns += ONE_NS;
	return true;
}

/* "192.0.2.1", "2001:db8::/64"; "" for several addresses. */
static void edge_refusal_format_peer(const uint8_t peer[static 16], char *ret, size_t size)
{
	static const uint8_t none[16], mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = memcmp(peer, mapped, sizeof(mapped)) == 0;
	char text[INET6_ADDRSTRLEN];
	int n;

	ret[0] = 0;
	if (memcmp(peer, none, sizeof(none)) == 0 ||
	    !inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? peer + 12 : peer, text, sizeof(text)))
		return;
	n = snprintf(ret, size, "%s%s", text, v4 ? "" : "/64");
	if (n < 0 || n >= (int)size)
		ret[0] = 0;
}

static void edge_refusal_audit(struct cayd *c, const struct push *p, uint64_t n)
{
	struct audit_record rec = {};
	struct id tenant;

	audit_set(rec.op, "edge.refused");
	audit_set(rec.outcome, cay_error_row(edge_refusal_codes[p->value])->name);
	edge_refusal_format_peer(p->secret, rec.peer, sizeof(rec.peer));
	if (snprintf(rec.detail, sizeof(rec.detail), "count=%llu%s", (unsigned long long)n,
		     rec.peer[0] ? "" : " from several") < 0)
		rec.detail[0] = 0;
	if (p->id.noun && key_find_owner(c, &p->id, &tenant)) {
		id_format(&p->id, rec.key);
		id_format(&tenant, rec.tenant);
	}
	(void)audit_append(c->audit, &rec, /* reserved= */ false, NULL, NULL);
}

void edge_refusal_record(struct cayd *c, const struct push *p)
{
	if (!p->number)
		return;
	if (edge_refusal_claim_budget(c))
		edge_refusal_audit(c, p, p->number);
	else
		c->edge_reports->refused_more[p->value] += p->number;
}

void edge_refusals_flush(struct cayd *c)
{
	for (unsigned why = 0; why < PUSH_REFUSALS; why++)
		if (c->edge_reports->refused_more[why] && edge_refusal_claim_budget(c)) {
			edge_refusal_audit(c, &(struct push){ .value = (uint8_t)why },
					   c->edge_reports->refused_more[why]);
			c->edge_reports->refused_more[why] = 0;
		}
}

struct edge_report *edge_report_create(struct cayd *c, const uint8_t build[static 32])
{
	static const uint8_t ours[32] = CAY_VERSION;
	struct edge_report *r;
	unsigned i = 0;
	int n;

	while (i < REPORT_EDGES && c->edge_reports->rows[i])
		i++;
	if (i == REPORT_EDGES || memcmp(build, ours, sizeof(ours)) != 0)
		return NULL;
	r = calloc(1, sizeof(*r));
	n = r ? snprintf(r->name, sizeof(r->name), "%u", i) : -1;
	if (n < 0) {
		free(r);
		return NULL;
	}
	c->edge_reports->rows[i] = r;
	return r;
}

void edge_report_free(struct cayd *c, struct edge_report *r)
{
	for (unsigned i = 0; i < REPORT_EDGES; i++)
		if (r && c->edge_reports->rows[i] == r)
			c->edge_reports->rows[i] = NULL;
	free(r);
}

bool edge_report_set_count(struct edge_report *r, const struct push *p)
{
	uint64_t *cell = r ? metrics_edge_cell(&r->counts, p->number) : NULL;

	if (cell)
		*cell = p->time;
	return cell || !r;
}
