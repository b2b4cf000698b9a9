/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/path.h"
#include "daemon/confine.h"
#include "egress/egress.h"
#include "wire/egress-message.h"

/* Two records of each connection would be two fdatasync, which take as long as all the rest. */
#define NAME_SHOWN_MAX 80
#define GATHER_NS (5 * NS_PER_MS)
#define SEGMENTS_AIM 256 /* files are removed whole: so many tenants keep about a file each */
#define SEGMENT_BYTES_MIN KIB(64)

struct decision_log {
	struct audit *audit;
	int dir;
};

/* ", at mirror.example:8080, by the proxy", after the text there is; the end of a long name is left
 * out. */
static void decision_append_way(const struct decision *d, char *text, size_t room)
{
	const struct name_mirror *m = d->mirror;
	unsigned port = m && m->port ? m->port : d->port;
	size_t n = strlen(text);

	if (m && snprintf(text + n, room - n, ", at %s:%u", m->to.text, port) < 0)
		text[n] = 0;
	n = strlen(text);
	if (d->by_proxy && snprintf(text + n, room - n, ", by the proxy") < 0)
		text[n] = 0;
}

/* Kept although no reply waits for it: a connection that is not logged is not allowed. */
bool decision_log_add(struct egress *e, const struct decision *d)
{
	struct audit_record rec = {};
	struct cay_err err = {};
	char peer[ADDRESS_TEXT_MAX] = "", rule[48] = "";
	/* of a long name the beginning, which its owner can choose freely */
	size_t len = strlen(d->name), cut = len > NAME_SHOWN_MAX ? len - NAME_SHOWN_MAX : 0;
	int n;

	if (audit_slot_reserve(e->decisions->audit, &err) < 0)
		return false;
	id_format(&d->sandbox->id, rec.target);
	id_format(&d->sandbox->tenant, rec.tenant);
	audit_set(rec.op, d->op);
	audit_set(rec.outcome, d->outcome);
	if (d->dialled)
		address_format(d->dialled, peer);
	audit_set(rec.peer, peer);
	n = d->verdict.rule < 0 ? snprintf(rule, sizeof(rule), "%s default",
					   egress_layer_names[d->verdict.layer])
				: snprintf(rule, sizeof(rule), "%s rule %d",
					   egress_layer_names[d->verdict.layer], d->verdict.rule);
	if (n > 0 && (size_t)n < sizeof(rule))
		n = snprintf(rec.detail, sizeof(rec.detail),
			     "%s%s:%u%s%s by %s, %llu up, %llu down, %llu more", cut ? "..." : "",
			     d->name + cut, d->port, d->request ? " " : "",
			     d->request ? d->request : "", rule, (unsigned long long)d->up,
			     (unsigned long long)d->down, (unsigned long long)d->more);
	(void)n; /* where all numbers are large, the last are left out */
	decision_append_way(d, rec.detail, sizeof(rec.detail));
	if (!audit_append(e->decisions->audit, &rec, true, NULL, NULL))
		return false;
	recent_add(d->sandbox, d);
	return true;
}

void decision_log_add_denial(struct egress_sandbox *sb, const struct decision *d)
{
	struct decision counted = *d;

	if (strcmp(d->op, "name") == 0) {
		sb->count.ended.names_denied++;
		egress_sandbox_counts_changed(sb);
	}
	if (!pace_take(&sb->denial_pace, clk_boot_ns(sb->egress->clk), SANDBOX_DENIALS_PER_S,
		       SANDBOX_DENIALS_BURST)) {
		sb->denials_skipped++;
		return;
	}
	counted.more = sb->denials_skipped;
	if (decision_log_add(sb->egress, &counted))
		sb->denials_skipped = 0;
	else
		sb->denials_skipped++;
}

void decision_log_add_skipped(struct egress_sandbox *sb)
{
	struct decision d = { .sandbox = sb,
			      .op = "cut",
			      .outcome = "more",
			      .name = "",
			      .verdict = { .rule = -1 },
			      .more = sb->denials_skipped };

	if (d.more && decision_log_add(sb->egress, &d))
		sb->denials_skipped = 0;
}

int decision_log_open(struct egress *e, struct cay_err *err)
{
	static struct decision_log log = { .dir = -EBADF };
	uint64_t total = e->settings.audit_size * e->settings.audit_keep;
	uint64_t aim = total / SEGMENTS_AIM, most = e->settings.audit_size;
	struct audit_conf conf = { .segment_bytes = aim > most ? most : aim,
				   .keep = e->settings.audit_keep,
				   .total_bytes = total,
				   .clk = e->clk,
				   .gather_ns = GATHER_NS,
				   .confine = confine_log_writer };
	auto_close int state = open(e->settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (conf.segment_bytes < SEGMENT_BYTES_MIN)
		conf.segment_bytes = SEGMENT_BYTES_MIN;
	log.dir = state < 0 ? -errno : path_open(state, EGRESS_DIR, O_RDONLY | O_DIRECTORY, 0);
	if (log.dir < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -log.dir,
				    "open %s/" EGRESS_DIR
				    ", which the keeper creates for users.egress",
				    e->settings.state_dir);
	e->decisions = &log;
	return audit_open(log.dir, &conf, &e->loop, &log.audit, err);
}
