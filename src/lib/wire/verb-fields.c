/* SPDX-License-Identifier: Apache-2.0 */
/* What the fields of each request may hold. */
#include <assert.h>

#include "wire/verb-internal.h"
#include "wire/writable.h"

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

const struct verb_field *verb_request_fields(unsigned verb)
{
	return fields[verb];
}

bool verb_id_is_zero(const uint8_t *at)
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

int verb_fields_check(unsigned verb, const void *msg, struct cay_err *err)
{
	for (const struct verb_field *f = fields[verb]; f->name; f++)
		if (!verb_field_is_valid(f, (const uint8_t *)msg + f->offset))
			return cay_fail_field(err, CAY_E_INVALID, f->name,
					      "%s: '%s' is out of range", verb_row_find(verb)->name,
					      f->name);
	return 0;
}
