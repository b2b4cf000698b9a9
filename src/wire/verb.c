/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/verb.h"

#include <assert.h>
#include <stdio.h>

#include "wire/verb-internal.h"

static const struct verb_row rows[] = {
#define CAY_VERB(sym, number, name, request, fds, reply, summary) \
	[VERB_##sym] = { name, sizeof(struct verb_##request), sizeof(struct verb_##reply), fds, \
			 summary },
#include "wire/verbs.def"
#undef CAY_VERB
};
static_assert(ARRAY_SIZE(rows) == VERB_NUM);

/* The widest a sandbox may be at all; what a tenant may have is decided above. */
#define MEMORY_MIN UINT64_C(0x100000)       /* 1 MiB */
#define MEMORY_MAX UINT64_C(0x100000000000) /* 16 TiB */
#define DISK_MAX UINT64_C(0x10000000000000) /* 4 PiB */
#define CPU_MAX 1024000
#define PIDS_MAX 4194304

#define F(S, m, kind, min, max) \
	{ #m, offsetof(struct verb_##S, m), sizeof(((struct verb_##S *)0)->m), kind, min, max }

static const struct verb_field hello_fields[] = {
	F(hello, abi, VK_U32, 0, UINT32_MAX),
	F(hello, zero, VK_U32, 0, 0),
	F(hello, build, VK_BYTES, 0, 0),
	{},
};
static const struct verb_field box_fields[] = {
	F(box, sandbox, VK_SANDBOX, 0, 0),
	F(box, generation, VK_U64, 1, UINT64_MAX),
	{},
};
static const struct verb_field prepare_fields[] = {
	F(prepare, sandbox, VK_SANDBOX, 0, 0),
	F(prepare, generation, VK_U64, 1, UINT64_MAX),
	F(prepare, tenant, VK_TENANT, 0, 0),
	F(prepare, image, VK_BYTES, 0, 0),
	F(prepare, disk_bytes, VK_U64, 0, DISK_MAX),
	F(prepare, disk_inodes, VK_U64, 0, UINT32_MAX),
	F(prepare, range, VK_U32, 0, VERB_RANGE_MAX),
	F(prepare, zero, VK_U32, 0, 0),
	{},
};
static const struct verb_field start_fields[] = {
	F(start, sandbox, VK_SANDBOX, 0, 0),
	F(start, generation, VK_U64, 1, UINT64_MAX),
	F(start, memory_bytes, VK_U64, MEMORY_MIN, MEMORY_MAX),
	F(start, cpu_milli, VK_U32, 1, CPU_MAX),
	F(start, pids, VK_U32, 1, PIDS_MAX),
	F(start, runtime, VK_U32, 0, 15),
	F(start, zero, VK_U32, 0, 0),
	{},
};
static const struct verb_field limits_fields[] = {
	F(limits, sandbox, VK_SANDBOX, 0, 0),
	F(limits, generation, VK_U64, 1, UINT64_MAX),
	F(limits, memory_bytes, VK_U64, MEMORY_MIN, MEMORY_MAX),
	F(limits, cpu_milli, VK_U32, 1, CPU_MAX),
	F(limits, pids, VK_U32, 1, PIDS_MAX),
	{},
};
static const struct verb_field list_fields[] = {
	F(list, from, VK_U32, 0, UINT32_MAX),
	F(list, zero, VK_U32, 0, 0),
	{},
};
static const struct verb_field image_fields[] = {
	F(image, digest, VK_BYTES, 0, 0),
	F(image, bytes, VK_U64, 0, DISK_MAX),
	{},
};

static const struct verb_field *const fields[] = {
#define CAY_VERB(sym, number, name, request, ...) [VERB_##sym] = request##_fields,
#include "wire/verbs.def"
#undef CAY_VERB
};

const struct verb_row *verb_row(unsigned verb)
{
	return verb > VERB_NONE && verb < VERB_NUM ? &rows[verb] : NULL;
}

const struct verb_field *verb_fields(unsigned verb)
{
	return fields[verb];
}

void verb_begin(struct verb_head *head, enum verb verb, uint64_t seq)
{
	*head = (struct verb_head){ VERB_MAGIC, (uint16_t)verb, rows[verb].request_size, seq };
}

static bool field_ok(const struct verb_field *f, const uint8_t *at)
{
	uint64_t v = 0;
	uint32_t v32;
	struct id id;

	switch (f->kind) {
	case VK_SANDBOX:
	case VK_TENANT:
		memcpy(&id, at, sizeof(id));
		return id_valid(&id, f->kind == VK_SANDBOX ? ID_SANDBOX : ID_TENANT);
	case VK_U32:
		memcpy(&v32, at, sizeof(v32));
		v = v32;
		break;
	case VK_U64:
		memcpy(&v, at, sizeof(v));
		break;
	case VK_BYTES:
		return true;
	}
	return v >= f->min && v <= f->max;
}

int verb_check(const void *msg, size_t n, unsigned n_fds, struct cay_err *err)
{
	const struct verb_row *row;
	struct verb_head head;

	if (n < sizeof(head))
		return cay_fail(err, CAY_E_MISBEHAVED, "message of %zu bytes has no head", n);
	memcpy(&head, msg, sizeof(head));
	row = verb_row(head.verb);
	if (head.magic != VERB_MAGIC || !row)
		return cay_fail(err, CAY_E_MISBEHAVED, "not a keeper message");
	if (head.size != row->request_size || n != row->request_size || n_fds != row->fds)
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: wrong size or number of fds",
				row->name);
	for (const struct verb_field *f = fields[head.verb]; f->name; f++)
		if (!field_ok(f, (const uint8_t *)msg + f->offset))
			return cay_fail_field(err, CAY_E_INVALID, f->name,
					      "%s: '%s' is out of range", row->name, f->name);
	return head.verb;
}

int verb_check_reply(const void *msg, size_t n, const struct verb_head *request,
		     struct cay_err *err)
{
	const struct verb_row *row = verb_row(request->verb);
	struct verb_reply reply;
	int r;

	assert(row);
	if (n < sizeof(reply) || n != row->reply_size)
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: reply of %zu bytes", row->name, n);
	memcpy(&reply, msg, sizeof(reply));
	if (reply.head.magic != VERB_MAGIC || reply.head.size != n ||
	    reply.head.verb != (request->verb | VERB_REPLY_BIT) || reply.head.seq != request->seq ||
	    reply.code >= CAY_NUM_CODES || reply.errnum < 0 || reply.errnum > 4095 ||
	    reply.msg[sizeof(reply.msg) - 1])
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: malformed reply", row->name);
	if (reply.code == CAY_OK)
		return 0;
	r = cay_fail(err, (enum cay_code)reply.code, "%s", reply.msg);
	return reply.errnum ? -reply.errnum : r;
}

void verb_reply_to(struct verb_reply *reply, const struct verb_head *request,
		   const struct cay_err *err)
{
	const struct verb_row *row = verb_row(request->verb);
	int n;

	assert(row);
	*reply = (struct verb_reply){
		.head = { VERB_MAGIC, (uint16_t)(request->verb | VERB_REPLY_BIT), row->reply_size,
			  request->seq },
		.code = err->code,
		.errnum = err->errnum,
	};
	n = snprintf(reply->msg, sizeof(reply->msg), "%s", err->msg);
	if (n >= (int)sizeof(reply->msg))
		memcpy(reply->msg + sizeof(reply->msg) - 4, "...", 4);
}
