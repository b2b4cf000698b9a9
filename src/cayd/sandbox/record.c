/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/record.h"

#include "cayd/sandbox/egress-usage.h"
#include "cayd/sandbox/revoked.h"
#include "text/hex.h"

int sandbox_record_write(struct sandbox *sb, struct buf *out)
{
	struct revoked revoked[REVOKED_MAX];
	char digest[65], names[REVOKED_MAX][17];
	struct sandbox_record r = { .sandbox = sb->info,
				    .env = sb->env,
				    .entrypoint = sb->entrypoint,
				    .has_entrypoint = sb->entrypoint.n > 0,
				    .services = sb->services,
				    .kernels = sb->kernels,
				    .key = sb->idempotency_key,
				    .key_body = sb->idempotency_hash,
				    .image_digest = digest,
				    .range = sb->uid_range,
				    .home = sb->cgroup_tenant,
				    .wanted = sb->resize.wanted,
				    .has_wanted = sb->resize.has_wanted,
				    .epoch = sb->epoch,
				    .has_epoch = sb->epoch > SANDBOX_FIRST_EPOCH,
				    .revoked = { revoked, revoked_list_rows(sb, revoked, names) },
				    .exports = sandbox_list_exports(sb) };
	struct jw w = jw_to(out);

	if (sb->egress) {
		r.has_egress = true;
		r.egress = (struct egress_record){ .own = sb->egress->own,
						   .template = sb->egress->template,
						   .has_own = sb->egress->has_own,
						   .has_template = sb->egress->has_template,
						   .generation = sb->egress->generation,
						   .answers = sandbox_list_answers(sb),
						   .has_answers = sandbox_list_answers(sb).n > 0,
						   .used = egress_usage_get(sb),
						   .has_used = sb->egress_counts.known };
	}
	r.has_ttl = sb->life.expire_stops && sb->life.ttl_ns != LIFE_NEVER;
	r.ttl_ms = sb->life.ttl_ns / NS_PER_MS;
	r.rolled_back = sb->life.rolled_back;
	r.dozes = life_is_dozing(&sb->life); /* not one that is only being frozen */
	r.sandbox.dozing = false;            /* computed when it is shown */
	r.has_rest_left = sb->life.rest_ns != LIFE_NEVER;
	r.rest_left_ms = sb->life.rest_left_ns / NS_PER_MS;
	sandbox_describe_lease(sb, &r.sandbox);
	r.sandbox.has_lease_until = false; /* reading the record renews it */
	hex_encode(sb->image, sizeof(sb->image), digest);
	field_encode(&sandbox_record_table, NULL, &r, &w);
	return jw_finish(&w);
}

int sandbox_record_check_size(struct sandbox *sb)
{
	auto_buf text = BUF_INIT(DB_TEXT_MAX - RECORD_RESERVE);

	return sandbox_record_write(sb, &text) < 0 ? -E2BIG : 0;
}

int sandbox_record_read(struct cayd *c, const struct db_sandbox *row, struct sandbox **ret,
			struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(512));
	struct json_limits limits = json_control_limits;
	struct sandbox_record record = {};
	int r;

	/* the limits of requests do not apply: a record is larger than the request it comes from */
	limits.bytes = DB_TEXT_MAX;
	limits.values = DB_TEXT_MAX;
	r = field_decode_text(&sandbox_record_table, row->text, &limits, &arena, &record, err);
	return r < 0 ? r : sandbox_restore(c->sandboxes, &row->life, &record, row->seq, ret, err);
}
