/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/record.h"

#include "cayd/revoke.h"
#include "cayd/sign.h"
#include "text/hex.h"

int record_write(struct box *b, struct buf *out)
{
	struct revoked revoked[REVOKED_MAX];
	char digest[65], names[REVOKED_MAX][17];
	struct sandbox_record r = { .sandbox = b->info,
				    .env = b->env,
				    .entrypoint = b->entrypoint,
				    .has_entrypoint = b->entrypoint.n > 0,
				    .services = b->services,
				    .key = b->key,
				    .key_body = b->key_body,
				    .image_digest = digest,
				    .range = b->range,
				    .home = b->home,
				    .wanted = b->wanted,
				    .has_wanted = b->has_wanted,
				    .epoch = b->epoch,
				    .has_epoch = b->epoch > SIGN_EPOCH,
				    .revoked = { revoked, revoke_rows(b, revoked, names) } };
	struct jw w = jw_to(out);

	hex_write(b->image, sizeof(b->image), digest);
	field_encode(&sandbox_record_table, NULL, &r, &w);
	return jw_done(&w);
}

int record_check(struct box *b)
{
	auto_buf text = BUF_INIT(DB_TEXT_MAX - RECORD_RESERVE);

	return record_write(b, &text) < 0 ? -E2BIG : 0;
}

int record_read(struct cayd *c, const struct db_row *row, struct box **ret, struct cay_err *err)
{
	auto_pool pool = POOL_INIT(KIB(512));
	struct json_limits limits = json_control_limits;
	struct sandbox_record record = {};
	int r;

	/* a request has its limits, and what is kept of it is more: what we wrote is read */
	limits.bytes = DB_TEXT_MAX;
	limits.values = DB_TEXT_MAX;
	r = field_read(&sandbox_record_table, row->text, &limits, &pool, &record, err);
	return r < 0 ? r : box_restore(c->boxes, &row->life, &record, row->seq, ret, err);
}
