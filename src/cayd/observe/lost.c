/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/lost.h"

#include <sys/stat.h>

#include "auth/key.h"
#include "base/path.h"
#include "cayd/observe/audit-log.h"

/* The reply is out by then. */
#define RESTART_MS 200

static int on_audit_file(void *, int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size > 0;
}

/* Whether this node has served before: each of them is written after the journal exists.  A new
 * node replaces anything else in the place of the operator's key. */
static bool node_has_past(const struct cayd *c)
{
	struct stat st;

	if (fstatat(c->db_dir, "images.json", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	if (fstatat(c->db_dir, "operator.key", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size == KEY_TEXT_LEN + 1)
		return true;
	return path_for_each_entry(c->audit_dir, on_audit_file, NULL) > 0;
}

int journal_open(struct cayd *c, struct cay_err *err)
{
	int r = clk_read_boot_id(c->boot);

	if (r >= 0)
		r = db_open(c->db_dir, node_has_past(c), &c->loop, &c->db, err);
	if (r != -ESTALE)
		return r;
	c->lost = *err;
	*err = (struct cay_err){};
	log_error(&c->log, "%s", c->lost.msg);
	return 0;
}

static void on_lost_restart_timer(uv_timer_t *t)
{
	struct cayd *c = t->data;

	log_info(&c->log, "the loss is accepted: stopping, to start with the journal as it is");
	uv_stop(&c->loop);
}

static void lost_accept(struct cayd *c, struct request *rq)
{
	struct fsck_list list = { .restarting = true };
	struct cay_err err = {};

	if (db_loss_accept(c->db_dir, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	c->sweep.data = c;
	if (uv_timer_init(&c->loop, &c->sweep) >= 0)
		(void)uv_timer_start(&c->sweep, on_lost_restart_timer, RESTART_MS, 0);
	request_reply_json(rq, &fsck_list_table, &list);
}

void lost_request_handle(struct request *rq, void *arg)
{
	struct cayd *c = arg;
	const struct repair_query *q = rq->query;

	if (rq->match.op != &ops[OP_SYSTEM_REPAIR] || !q || !q->end_foreign)
		request_fail(rq, &c->lost);
	else if (audit_log_reserve_for_request(c, rq))
		lost_accept(c, rq);
}
