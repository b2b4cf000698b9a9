/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/limit.h"

#include "cayd/link.h"
#include "wire/writable.h"

#define HINT_BYTES "; put paths.state on btrfs or on a file system with project quota"
#define HINT_INODES "; put paths.state on a file system with project quota"
#define DISK_BYTES (UINT64_C(10) << 30)
#define DISK_INODES (UINT64_C(1) << 20)

/* What each kind of quota can see to. */
static const struct {
	bool bytes, inodes;
} sees[VERB_DISK_NUM] = {
	[VERB_DISK_BTRFS] = { .bytes = true },
	[VERB_DISK_PROJECT] = { .bytes = true, .inodes = true },
};

int limit_settle(const struct cayd *c, const struct sandbox_create *spec, struct limits *ret,
		 struct cay_err *err)
{
	bool memory = spec->storage == STORAGE_MEMORY;
	bool bytes = memory || sees[link_disk(c->link)].bytes;
	bool inodes = memory || sees[link_disk(c->link)].inodes;

	*ret = spec->limits;
	if (ret->has_disk_bytes && !bytes)
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "limits.disk_bytes",
				      "nothing on this node limits disk space" HINT_BYTES);
	if (ret->has_disk_inodes && !inodes)
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "limits.disk_inodes",
				      "nothing on this node limits files" HINT_INODES);
	if (!ret->has_disk_bytes)
		ret->disk_bytes = memory ? ret->memory_bytes / 2 : bytes ? DISK_BYTES : 0;
	if (!ret->has_disk_inodes)
		ret->disk_inodes = inodes ? DISK_INODES : 0;
	ret->has_disk_bytes = bytes;
	ret->has_disk_inodes = inodes;
	return 0;
}

static int refuse_path(const char *path, struct cay_err *err)
{
	auto_buf list = BUF_INIT(512);

	for (unsigned i = 0; i < WRITABLE_NUM; i++)
		if (buf_printf(&list, "%s/%s", i ? " " : "", writable_paths[i]) < 0)
			break;
	return cay_fail_field(err, CAY_E_INVALID, "writable", "'%.64s' is not one of %s", path,
			      buf_str(&list));
}

int limit_storage(const struct sandbox_create *spec, struct cay_err *err)
{
	if (spec->has_writable && spec->storage == STORAGE_DISK)
		return cay_fail_field(err, CAY_E_INVALID, "writable",
				      "with storage 'disk' everything is");
	for (size_t i = 0; i < spec->writable.n; i++)
		if (!writable_bit(spec->writable.v[i]))
			return refuse_path(spec->writable.v[i], err);
	return 0;
}

static uint32_t bits(const struct field_texts *t)
{
	uint32_t set = 0;

	for (size_t i = 0; i < t->n; i++)
		set |= writable_bit(t->v[i]);
	return set;
}

bool limit_read_only(const struct box *b, uint32_t *ret_writable)
{
	*ret_writable = bits(&b->info.writable);
	return b->info.storage == STORAGE_READ_ONLY || b->info.has_writable;
}

bool limit_in_memory(const struct box *b)
{
	return b->info.storage == STORAGE_MEMORY;
}

/* What a PID 1 and its mounts are made with, and its disk. */
bool limit_late(const struct box *b, const struct sandbox_create *spec)
{
	const struct limits *a = &b->info.limits;
	struct limits l;

	return limit_settle(b->cayd, spec, &l, NULL) >= 0 && b->info.storage == spec->storage &&
	       b->info.has_writable == spec->has_writable &&
	       bits(&b->info.writable) == bits(&spec->writable) && a->nofile == l.nofile &&
	       a->shm_bytes == l.shm_bytes && a->has_disk_bytes == l.has_disk_bytes &&
	       a->disk_bytes == l.disk_bytes && a->has_disk_inodes == l.has_disk_inodes &&
	       a->disk_inodes == l.disk_inodes;
}

unsigned limit_changed(const struct limits *was, const struct limits *now)
{
	return (was->memory_bytes != now->memory_bytes ? LIMIT_MEMORY : 0) |
	       (was->cpu_milli != now->cpu_milli ? LIMIT_CPU : 0) |
	       (was->pids != now->pids ? LIMIT_PIDS : 0);
}

bool limit_same(const struct box *b, const struct sandbox_create *spec)
{
	const struct limits *a = &b->info.limits;
	struct limits l;

	return limit_settle(b->cayd, spec, &l, NULL) >= 0 && limit_late(b, spec) &&
	       !limit_changed(a, &l) && a->output_bytes == l.output_bytes;
}

/* What PID 1 and its mounts were made with. */
static const char *fixed(const struct box *b, const struct limits_change *q)
{
	bool memory = limit_in_memory(b);

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

/* What no quota sees to. */
static const char *unseen(const struct limits *l, const struct limits_change *q)
{
	return q->has_disk_bytes && !l->has_disk_bytes     ? "disk_bytes"
	       : q->has_disk_inodes && !l->has_disk_inodes ? "disk_inodes"
							   : NULL;
}

int limit_change(const struct box *b, const struct limits_change *q, struct limits *ret,
		 struct cay_err *err)
{
	*ret = b->info.limits;
	if (fixed(b, q))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, fixed(b, q),
				      "'%s' cannot change while a sandbox runs", fixed(b, q));
	if (unseen(ret, q))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, unseen(ret, q),
				      "its disk has no quota that could see to '%s'" HINT_BYTES,
				      unseen(ret, q));
	ret->memory_bytes = q->has_memory ? q->memory_bytes : ret->memory_bytes;
	ret->cpu_milli = q->has_cpu ? q->cpu_milli : ret->cpu_milli;
	ret->pids = q->has_pids ? q->pids : ret->pids;
	ret->disk_bytes = q->has_disk_bytes ? q->disk_bytes : ret->disk_bytes;
	ret->disk_inodes = q->has_disk_inodes ? q->disk_inodes : ret->disk_inodes;
	return 0;
}
