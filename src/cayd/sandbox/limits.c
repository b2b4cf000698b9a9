/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/limits.h"

#include "cayd/core/keeper-link.h"
#include "wire/writable.h"

#define HINT_BYTES "; put paths.state on btrfs or on a file system with project quota"
#define HINT_INODES "; put paths.state on a file system with project quota"
#define DISK_BYTES (UINT64_C(10) << 30)
#define DISK_INODES (UINT64_C(1) << 20)

/* What each kind of quota can limit. */
static const struct {
	bool bytes, inodes;
} disk_quota_kinds[VERB_DISK_NUM] = {
	[VERB_DISK_BTRFS] = { .bytes = true },
	[VERB_DISK_PROJECT] = { .bytes = true, .inodes = true },
};

static uint64_t limits_lower(uint64_t limit, uint64_t ceiling)
{
	return ceiling && ceiling < limit ? ceiling : limit;
}

bool limits_disk_bytes_count(const struct cayd *c)
{
	return disk_quota_kinds[keeper_disk_kind(c->keeper)].bytes;
}

bool limits_disk_inodes_count(const struct cayd *c)
{
	return disk_quota_kinds[keeper_disk_kind(c->keeper)].inodes;
}

int limits_resolve(const struct cayd *c, const struct sandbox_create *spec, struct limits *ret,
		   struct cay_err *err)
{
	bool memory = spec->storage == STORAGE_MEMORY;
	bool bytes = memory || limits_disk_bytes_count(c);
	bool inodes = memory || limits_disk_inodes_count(c);

	*ret = spec->limits;
	if (ret->has_disk_bytes && !bytes)
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "limits.disk_bytes",
				      "this node cannot limit disk space" HINT_BYTES);
	if (ret->has_disk_inodes && !inodes)
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "limits.disk_inodes",
				      "this node cannot limit the number of files" HINT_INODES);
	if (!ret->has_disk_bytes)
		ret->disk_bytes = limits_lower(memory  ? ret->memory_bytes / 2
					       : bytes ? DISK_BYTES
						       : 0,
					       spec->disk_ceiling);
	if (!ret->has_disk_inodes)
		ret->disk_inodes = limits_lower(inodes ? DISK_INODES : 0, spec->inode_ceiling);
	ret->has_disk_bytes = bytes;
	ret->has_disk_inodes = inodes;
	return 0;
}

static int writable_path_refuse(const char *path, struct cay_err *err)
{
	auto_buf list = BUF_INIT(512);

	for (unsigned i = 0; i < WRITABLE_NUM; i++)
		if (buf_printf(&list, "%s/%s", i ? " " : "", writable_paths[i]) < 0)
			break;
	return cay_fail_field(err, CAY_E_INVALID, "writable", "'%.64s' is not one of %s", path,
			      buf_str(&list));
}

int storage_spec_check(const struct sandbox_create *spec, struct cay_err *err)
{
	if (spec->has_writable && spec->storage == STORAGE_DISK)
		return cay_fail_field(err, CAY_E_INVALID, "writable",
				      "with storage 'disk' every path is writable");
	for (size_t i = 0; i < spec->writable.n; i++)
		if (!writable_path_bit(spec->writable.v[i]))
			return writable_path_refuse(spec->writable.v[i], err);
	return 0;
}

static uint32_t writable_paths_to_bits(const struct field_texts *t)
{
	uint32_t set = 0;

	for (size_t i = 0; i < t->n; i++)
		set |= writable_path_bit(t->v[i]);
	return set;
}

bool sandbox_root_is_read_only(const struct sandbox *sb, uint32_t *ret_writable)
{
	*ret_writable = writable_paths_to_bits(&sb->info.writable);
	return sb->info.storage == STORAGE_READ_ONLY || sb->info.has_writable;
}

bool sandbox_is_in_memory(const struct sandbox *sb)
{
	return sb->info.storage == STORAGE_MEMORY;
}

/* Limits that are fixed when PID 1, its mounts and its disk are created. */
bool sandbox_limits_can_become(const struct sandbox *sb, const struct sandbox_create *spec)
{
	const struct limits *a = &sb->info.limits;
	struct limits l;

	return limits_resolve(sb->cayd, spec, &l, NULL) >= 0 && sb->info.storage == spec->storage &&
	       sb->info.has_writable == spec->has_writable &&
	       writable_paths_to_bits(&sb->info.writable) ==
		       writable_paths_to_bits(&spec->writable) &&
	       a->nofile == l.nofile && a->shm_bytes == l.shm_bytes &&
	       a->has_disk_bytes == l.has_disk_bytes && a->disk_bytes == l.disk_bytes &&
	       a->has_disk_inodes == l.has_disk_inodes && a->disk_inodes == l.disk_inodes;
}

unsigned limits_changed_bits(const struct limits *was, const struct limits *now)
{
	return (was->memory_bytes != now->memory_bytes ? LIMIT_MEMORY : 0) |
	       (was->cpu_milli != now->cpu_milli ? LIMIT_CPU : 0) |
	       (was->pids != now->pids ? LIMIT_PIDS : 0);
}

bool sandbox_limits_match_spec(const struct sandbox *sb, const struct sandbox_create *spec)
{
	const struct limits *a = &sb->info.limits;
	struct limits l;

	return limits_resolve(sb->cayd, spec, &l, NULL) >= 0 &&
	       sandbox_limits_can_become(sb, spec) && !limits_changed_bits(a, &l) &&
	       a->output_bytes == l.output_bytes;
}

/* Limits that were fixed when PID 1 and its mounts were created. */
static const char *limits_change_find_fixed(const struct sandbox *sb, const struct limits_change *q)
{
	bool memory = sandbox_is_in_memory(sb);

	if (q->has_nofile)
		return "nofile";
	if (q->has_shm)
		return "shm_bytes";
	if (q->has_output)
		return "output_bytes";
	if (memory && q->has_disk_bytes)
		return "disk_bytes";
	return memory && q->has_disk_inodes ? "disk_inodes" : NULL;
}

static const char *limits_change_find_no_quota(const struct limits *l,
					       const struct limits_change *q)
{
	return q->has_disk_bytes && !l->has_disk_bytes     ? "disk_bytes"
	       : q->has_disk_inodes && !l->has_disk_inodes ? "disk_inodes"
							   : NULL;
}

int limits_apply_change(const struct sandbox *sb, const struct limits_change *q, struct limits *ret,
			struct cay_err *err)
{
	*ret = sb->info.limits;
	if (limits_change_find_fixed(sb, q))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, limits_change_find_fixed(sb, q),
				      "'%s' cannot change while a sandbox runs",
				      limits_change_find_fixed(sb, q));
	if (limits_change_find_no_quota(ret, q))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, limits_change_find_no_quota(ret, q),
				      "its disk has no quota for '%s'" HINT_BYTES,
				      limits_change_find_no_quota(ret, q));
	ret->memory_bytes = q->has_memory ? q->memory_bytes : ret->memory_bytes;
	ret->cpu_milli = q->has_cpu ? q->cpu_milli : ret->cpu_milli;
	ret->pids = q->has_pids ? q->pids : ret->pids;
	ret->disk_bytes = q->has_disk_bytes ? q->disk_bytes : ret->disk_bytes;
	ret->disk_inodes = q->has_disk_inodes ? q->disk_inodes : ret->disk_inodes;
	return 0;
}
