/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/verb.h"

#include <assert.h>
#include <stdio.h>

#include "wire/verb-internal.h"

static const struct verb_row rows[] = {
#define CAY_VERB(sym, number, name, request, fds, reply, reply_fds, summary) \
	[VERB_##sym] = { name, \
			 sizeof(struct verb_##request), \
			 sizeof(struct verb_##reply), \
			 fds, \
			 reply_fds, \
			 summary },
#include "wire/verbs.def"
#undef CAY_VERB
};
static_assert(ARRAY_SIZE(rows) == VERB_NUM, "verbs.def: numbers are 1, 2, 3 ... in order");

const struct verb_row *verb_row_find(unsigned verb)
{
	return verb > VERB_NONE && verb < VERB_NUM ? &rows[verb] : NULL;
}

void verb_head_init(struct verb_head *head, enum verb verb, uint64_t seq)
{
	*head = (struct verb_head){ VERB_MAGIC, (uint16_t)verb, rows[verb].request_size, seq };
}

int verb_request_check(const void *msg, size_t n, unsigned n_fds, struct cay_err *err)
{
	const struct verb_row *row;
	struct verb_head head;

	if (n < sizeof(head))
		return cay_fail_sys(err, CAY_E_INTERNAL, EPROTO, "message of %zu bytes", n);
	memcpy(&head, msg, sizeof(head));
	row = verb_row_find(head.verb);
	if (head.magic != VERB_MAGIC || !row)
		return cay_fail_sys(err, CAY_E_INTERNAL, EPROTO, "not a keeper message");
	if (head.size != row->request_size || n != row->request_size || n_fds != row->fds)
		return cay_fail_sys(err, CAY_E_INTERNAL, EPROTO, "%s: wrong size or number of fds",
				    row->name);
	return verb_fields_check(head.verb, msg, err) ?: (int)head.verb;
}

size_t verb_reply_write(void *msg, const struct verb_head *request, const struct cay_err *outcome)
{
	const struct verb_row *row = verb_row_find(request->verb);
	size_t size = sizeof(struct verb_reply);
	struct verb_reply reply;
	int n;

	if (row && outcome->code == CAY_OK)
		size = row->reply_size;
	reply = (struct verb_reply){
		.head = { VERB_MAGIC, (uint16_t)(request->verb | VERB_REPLY_BIT), (uint16_t)size,
			  request->seq },
		.code = outcome->code == CAY_E_INCOMPATIBLE ? VERB_INCOMPATIBLE : outcome->code,
		.errnum = outcome->errnum,
	};
	n = snprintf(reply.msg, sizeof(reply.msg), "%s", outcome->msg);
	if (n >= (int)sizeof(reply.msg))
		memcpy(reply.msg + sizeof(reply.msg) - 4, "...", 4);
	memset(msg, 0, size);
	memcpy(msg, &reply, sizeof(reply));
	return size;
}

/* Rows come from the keeper, but cayd's recovery relies on them: checked like any input. */
static bool verb_list_reply_is_valid(const void *msg)
{
	struct verb_list_reply list;
	struct id last = {};

	memcpy(&list, msg, sizeof(list));
	if (list.n_rows > VERB_LIST_MAX || list.more > 1 || list.zero ||
	    (list.n_stuck && !id_is_valid(&list.stuck, ID_SANDBOX) &&
	     !id_is_valid(&list.stuck, ID_VOLUME)))
		return false;
	for (uint32_t i = 0; i < list.n_rows; i++) {
		const struct verb_list_row *row = &list.rows[i];

		if (!id_is_valid(&row->sandbox, ID_SANDBOX) || row->range > VERB_RANGE_MAX ||
		    row->frozen > 1 || memcmp(&row->sandbox, &last, sizeof(last)) <= 0)
			return false;
		last = row->sandbox;
	}
	return true;
}

static bool verb_volume_list_reply_is_valid(const void *msg)
{
	struct verb_volume_list_reply list;
	struct id last = {};

	memcpy(&list, msg, sizeof(list));
	if (list.n_rows > VERB_LIST_MAX || list.more > 1)
		return false;
	for (uint32_t i = 0; i < list.n_rows; last = list.rows[i++].volume)
		if (!id_is_valid(&list.rows[i].volume, ID_VOLUME) || list.rows[i].whole > 1 ||
		    list.rows[i].zero || memcmp(&list.rows[i].volume, &last, sizeof(last)) <= 0)
			return false;
	return true;
}

static bool verb_reply_is_valid(const struct verb_reply *reply, size_t n, unsigned n_fds,
				const struct verb_head *request, const struct verb_row *row)
{
	bool success = reply->code == CAY_OK;

	return reply->head.magic == VERB_MAGIC && reply->head.size == n &&
	       reply->head.verb == (request->verb | VERB_REPLY_BIT) &&
	       reply->head.seq == request->seq &&
	       (reply->code < CAY_NUM_CODES || reply->code == VERB_INCOMPATIBLE) &&
	       reply->errnum >= 0 && reply->errnum <= 4095 && !reply->msg[sizeof(reply->msg) - 1] &&
	       n == (success ? row->reply_size : sizeof(*reply)) &&
	       n_fds == (success ? row->reply_fds : 0);
}

int verb_reply_check(const void *msg, size_t n, unsigned n_fds, const struct verb_head *request,
		     struct cay_err *ret_outcome, struct cay_err *err)
{
	const struct verb_row *row = verb_row_find(request->verb);
	struct verb_reply reply;
	bool ok = n >= sizeof(reply);

	assert(row);
	if (ok) {
		memcpy(&reply, msg, sizeof(reply));
		ok = verb_reply_is_valid(&reply, n, n_fds, request, row);
	}
	if (ok && request->verb == VERB_LIST && reply.code == CAY_OK)
		ok = verb_list_reply_is_valid(msg);
	if (ok && request->verb == VERB_VOLUME_LIST && reply.code == CAY_OK)
		ok = verb_volume_list_reply_is_valid(msg);
	if (!ok)
		return cay_fail_sys(err, CAY_E_INTERNAL, EPROTO, "%s: malformed reply", row->name);
	*ret_outcome = (struct cay_err){ .errnum = reply.errnum };
	ret_outcome->code =
		reply.code == VERB_INCOMPATIBLE ? CAY_E_INCOMPATIBLE : (enum cay_code)reply.code;
	memcpy(ret_outcome->msg, reply.msg, sizeof(reply.msg));
	return 0;
}
