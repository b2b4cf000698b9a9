/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/verb.h"

#include <assert.h>
#include <stdio.h>

#include "wire/verb-internal.h"
#include "wire/writable.h"

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

/* The widest limits of any sandbox; limits of a tenant are decided in cayd. */
#define MEMORY_MIN UINT64_C(0x100000)       /* 1 MiB */
#define MEMORY_MAX UINT64_C(0x100000000000) /* 16 TiB */
#define DISK_MAX UINT64_C(0x10000000000000) /* 4 PiB */
#define CPU_MAX 1024000
#define PIDS_MAX 4194304
#define NOFILE_MIN 256
#define NOFILE_MAX 1048576
#define PAGE 4096

#define F(S, m, kind, min, max) \
	{ #m, offsetof(struct verb_##S, m), sizeof(((struct verb_##S *)0)->m), kind, min, max }

static const struct verb_field hello_fields[] = {
	F(hello, abi, VK_U32, 0, UINT32_MAX),
	F(hello, zero, VK_U32, 0, 0),
	F(hello, build, VK_BYTES, 0, 0),
	{},
};
static const struct verb_field sandbox_fields[] = {
	F(sandbox, sandbox, VK_SANDBOX, 0, 0),
	F(sandbox, generation, VK_U64, 1, UINT64_MAX),
	{},
};
static const struct verb_field prepare_fields[] = {
	F(prepare, sandbox, VK_SANDBOX, 0, 0),
	F(prepare, generation, VK_U64, 1, UINT64_MAX),
	F(prepare, tenant, VK_TENANT, 0, 0),
	F(prepare, image, VK_DIGEST, 0, 0),
	F(prepare, disk_bytes, VK_U64, 0, DISK_MAX),
	F(prepare, disk_inodes, VK_U64, 0, UINT32_MAX),
	F(prepare, range, VK_U32, 0, VERB_RANGE_MAX),
	F(prepare, memory, VK_U32, 0, 1),
	{},
};
static const struct verb_field start_fields[] = {
	F(start, sandbox, VK_SANDBOX, 0, 0),
	F(start, generation, VK_U64, 1, UINT64_MAX),
	F(start, memory_bytes, VK_U64, MEMORY_MIN, MEMORY_MAX),
	F(start, shm_bytes, VK_U64, PAGE, MEMORY_MAX), /* 0 would be no limit at all */
	F(start, cpu_milli, VK_U32, 1, CPU_MAX),
	F(start, pids, VK_U32, 1, PIDS_MAX),
	F(start, nofile, VK_U32, NOFILE_MIN, NOFILE_MAX),
	F(start, runtime, VK_U32, 0, 15),
	F(start, disk_bytes, VK_U64, 0, DISK_MAX),
	F(start, disk_inodes, VK_U64, 0, UINT32_MAX),
	F(start, read_only, VK_U32, 0, 1),
	F(start, writable, VK_U32, 0, WRITABLE_ALL),
	F(start, mounts, VK_MOUNTS, 0, 0),
	{},
};
static const struct verb_field limits_fields[] = {
	F(limits, sandbox, VK_SANDBOX, 0, 0),
	F(limits, generation, VK_U64, 1, UINT64_MAX),
	F(limits, memory_bytes, VK_U64, 0, MEMORY_MAX),
	F(limits, disk_bytes, VK_U64, 0, DISK_MAX),
	F(limits, disk_inodes, VK_U64, 0, UINT32_MAX),
	F(limits, cpu_milli, VK_U32, 0, CPU_MAX),
	F(limits, pids, VK_U32, 0, PIDS_MAX),
	{},
};
static const struct verb_field list_fields[] = {
	F(list, after, VK_AFTER, 0, 0),
	F(list, usage, VK_U64, 0, 1),
	{},
};
static const struct verb_field image_add_fields[] = {
	F(image_add, bytes, VK_U64, 1, DISK_MAX),
	F(image_add, which, VK_U64, 0, VERB_IMAGES_MAX),
	{},
};
static const struct verb_field image_remove_fields[] = {
	F(image_remove, digest, VK_DIGEST, 0, 0),
	{},
};
static const struct verb_field image_commit_fields[] = {
	F(image_commit, sandbox, VK_SANDBOX, 0, 0),
	F(image_commit, generation, VK_U64, 1, UINT64_MAX),
	F(image_commit, parent, VK_DIGEST, 0, 0),
	{},
};

static const struct verb_field snapshot_fields[] = {
	F(snapshot, sandbox, VK_SANDBOX, 0, 0),
	F(snapshot, generation, VK_U64, 1, UINT64_MAX),
	F(snapshot, snapshot, VK_SNAPSHOT, 0, 0),
	F(snapshot, running, VK_U64, 0, 1),
	{},
};

static const struct verb_field pack_fields[] = {
	F(pack, sandbox, VK_SANDBOX, 0, 0),
	F(pack, generation, VK_U64, 1, UINT64_MAX),
	F(pack, max_bytes, VK_U64, PAGE, DISK_MAX),
	F(pack, form, VK_U64, 0, VERB_PACK_NUM - 1),
	F(pack, since, VK_BYTES, 0, 0),
	{},
};

static const struct verb_field image_pack_fields[] = {
	F(image_pack, digest, VK_DIGEST, 0, 0),
	F(image_pack, max_bytes, VK_U64, PAGE, DISK_MAX),
	{},
};

static const struct verb_field volume_fields[] = {
	F(volume, volume, VK_VOLUME, 0, 0),
	F(volume, bytes, VK_U64, 0, DISK_MAX),
	F(volume, inodes, VK_U64, 0, UINT32_MAX),
	{},
};

static const struct verb_field volume_copy_fields[] = {
	F(volume_copy, volume, VK_VOLUME, 0, 0),
	F(volume_copy, bytes, VK_U64, 0, DISK_MAX),
	F(volume_copy, inodes, VK_U64, 0, UINT32_MAX),
	F(volume_copy, from, VK_VOLUME, 0, 0),
	F(volume_copy, sandbox, VK_AFTER, 0, 0),
	F(volume_copy, generation, VK_U64, 0, UINT64_MAX),
	F(volume_copy, read_only, VK_U64, 0, 1),
	{},
};

static const struct verb_field volume_name_fields[] = {
	F(volume_name, volume, VK_VOLUME, 0, 0),
	{},
};

static const struct verb_field volume_list_fields[] = {
	F(volume_list, after, VK_VOLUME_AFTER, 0, 0),
	{},
};

static const struct verb_field *const fields[] = {
#define CAY_VERB(sym, number, name, request, ...) [VERB_##sym] = request##_fields,
#include "wire/verbs.def"
#undef CAY_VERB
};

const struct verb_row *verb_row_find(unsigned verb)
{
	return verb > VERB_NONE && verb < VERB_NUM ? &rows[verb] : NULL;
}

const struct verb_field *verb_request_fields(unsigned verb)
{
	return fields[verb];
}

void verb_head_init(struct verb_head *head, enum verb verb, uint64_t seq)
{
	*head = (struct verb_head){ VERB_MAGIC, (uint16_t)verb, rows[verb].request_size, seq };
}

static bool verb_id_is_zero(const uint8_t *at)
{
	uint64_t w[2];

	static_assert(sizeof(w) == sizeof(struct id));
	memcpy(w, at, sizeof(w));
	return (w[0] | w[1]) == 0;
}

static bool verb_digest_is_zero(const uint8_t *at)
{
	uint64_t w[4];

	memcpy(w, at, sizeof(w));
	return (w[0] | w[1] | w[2] | w[3]) == 0;
}

static bool verb_id_is_valid(const uint8_t *at, enum id_noun noun)
{
	struct id id;

	memcpy(&id, at, sizeof(id));
	return id_is_valid(&id, noun);
}

/* Ended by a zero byte, and nothing but zeros follow. */
static bool verb_text_is_ended(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (n == size)
		return false;
	for (; n < size; n++)
		if (text[n])
			return false;
	return true;
}

/* Either a volume, or the name of a directory of the host. */
static bool verb_mount_is_valid(const struct verb_mount *m)
{
	bool named = m->host[0] != 0;

	if (!verb_text_is_ended(m->host, sizeof(m->host)) ||
	    !verb_text_is_ended(m->path, sizeof(m->path)) || m->read_only > 1)
		return false;
	if (named ? !verb_id_is_zero((const uint8_t *)&m->volume) ||
			    !host_name_is_valid(m->host, strlen(m->host))
		  : !id_is_valid(&m->volume, ID_VOLUME))
		return false;
	return !volume_path_fault(m->path, strlen(m->path));
}

/* Rows in use first, by id and name, none twice. */
static bool verb_mounts_are_valid(const uint8_t *at)
{
	static const struct verb_mount unused = {};
	struct verb_mount m, last = {};
	bool end = false;

	for (size_t i = 0; i < VERB_MOUNTS_MAX; i++, last = m) {
		memcpy(&m, at + i * sizeof(m), sizeof(m));
		end |= memcmp(&m, &unused, sizeof(m)) == 0;
		if (end && memcmp(&m, &unused, sizeof(m)) != 0)
			return false;
		if (end)
			continue;
		static_assert(offsetof(struct verb_mount, host) == sizeof(m.volume));
		if (memcmp(&last, &m, sizeof(m.volume) + sizeof(m.host)) >= 0 ||
		    !verb_mount_is_valid(&m))
			return false;
	}
	return true;
}

static bool verb_field_is_valid(const struct verb_field *f, const uint8_t *at)
{
	uint64_t v = 0;
	uint32_t v32;

	switch (f->kind) {
	case VK_SANDBOX:
		return verb_id_is_valid(at, ID_SANDBOX);
	case VK_TENANT:
		return verb_id_is_valid(at, ID_TENANT);
	case VK_SNAPSHOT:
		return verb_id_is_valid(at, ID_SNAPSHOT);
	case VK_VOLUME:
		return verb_id_is_valid(at, ID_VOLUME);
	case VK_VOLUME_AFTER:
		return verb_id_is_valid(at, ID_VOLUME) || verb_id_is_zero(at);
	case VK_MOUNTS:
		return verb_mounts_are_valid(at);
	case VK_AFTER:
		return verb_id_is_valid(at, ID_SANDBOX) || verb_id_is_zero(at);
	case VK_DIGEST:
		return !verb_digest_is_zero(at);
	case VK_BYTES:
		return true;
	case VK_U32:
		memcpy(&v32, at, sizeof(v32));
		v = v32;
		break;
	case VK_U64:
		memcpy(&v, at, sizeof(v));
		break;
	}
	return v >= f->min && v <= f->max;
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
	for (const struct verb_field *f = fields[head.verb]; f->name; f++)
		if (!verb_field_is_valid(f, (const uint8_t *)msg + f->offset))
			return cay_fail_field(err, CAY_E_INVALID, f->name,
					      "%s: '%s' is out of range", row->name, f->name);
	return head.verb;
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
