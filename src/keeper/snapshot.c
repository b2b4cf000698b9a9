/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "keeper/image-store.h"
#include "keeper/keeper-sandbox.h"
#include "unpack/digest.h"

#define FREEZE_MS 5000

static int snapshot_digest(const struct id *snapshot, struct digest *ret)
{
	static const char what[] = VERB_SNAPSHOT_NAME;
	struct hash h;
	int r = hash_init(&h);

	if (r < 0)
		return r;
	r = hash_update(&h, what, sizeof(what));
	r = r < 0 ? r : hash_update(&h, snapshot, sizeof(*snapshot));
	r = r < 0 ? r : hash_finish(&h, ret);
	hash_fini(&h);
	return r;
}

struct snapshot_source {
	const struct keeper *keeper;
	const struct sandbox *sandbox;
	struct disk_size used;
	bool thaw; /* it was frozen for the copy */
};

static int snapshot_thaw(struct snapshot_source *s, struct cay_err *err)
{
	if (!s->thaw)
		return 0;
	s->thaw = false;
	return sandbox_cgroup_freeze(&s->sandbox->cgroup, false, err);
}

/* One that was frozen before stays so: it is paused, or cayd thaws it. */
static int on_snapshot_begin(void *arg, struct cay_err *err)
{
	struct snapshot_source *s = arg;
	const struct sandbox *sb = s->sandbox;
	int r;

	s->thaw = sb->cgroup.v2 >= 0 && !sandbox_cgroup_is_frozen(&sb->cgroup);
	r = s->thaw ? sandbox_cgroup_freeze(&sb->cgroup, true, err) : 0;
	if (r >= 0 && sb->cgroup.v2 >= 0)
		r = sandbox_cgroup_wait_frozen(&sb->cgroup, FREEZE_MS, err);
	r = r < 0 ? r : failpoint_hit(FAULT_SNAPSHOT_FROZEN);
	/* before it is thawed: it may remove its files then */
	if (r >= 0)
		r = disk_read_usage(&s->keeper->disk, sb->dir, SANDBOX_DISK,
				    keeper_sandbox_host_root_id(sb), &s->used);
	if (r >= 0 || r == -ENOTSUP)
		return 0;
	return err->code ? r
			 : cay_fail_sys(err, CAY_E_INTERNAL, -r, "read how much %s uses", sb->name);
}

/* Before the copy is durable: that takes as long as the disk is slow. */
static int on_snapshot_copied(void *arg, struct cay_err *err)
{
	int r = snapshot_thaw(arg, err);

	return r < 0 ? r : failpoint_hit(FAULT_SNAPSHOT_THAWED);
}

static int snapshot_copy(const struct keeper *k, const struct sandbox *sb, const struct digest *d,
			 struct verb_snapshot_reply *ret, struct cay_err *err)
{
	struct snapshot_source s = { k, sb, { DISK_UNKNOWN, DISK_UNKNOWN }, false };
	struct image_copy copy = { .begin = on_snapshot_begin,
				   .copied = on_snapshot_copied,
				   .arg = &s };
	struct cay_err why = {};
	int r = image_store_commit(k->images, &k->disk, sb->dir, sb->record.image, d->byte, &copy,
				   err);

	(void)snapshot_thaw(&s, &why); /* after a failure; also one that may not have been frozen */
	if (r < 0)
		return r;
	memcpy(ret->parent, copy.parent, sizeof(ret->parent));
	ret->bytes = copy.bytes && s.used.bytes != DISK_UNKNOWN ? copy.bytes : s.used.bytes;
	return 0;
}

/*
 * snapshot: copy the changes of a sandbox as an image, without a process of it running meanwhile.
 * An attacker who owns cayd can stop any sandbox for as long as the copy takes, and fill the disk
 * with copies; the files stay in the foreign range and over the image that they were written over.
 */
int verb_snapshot(const struct keeper *k, const void *request, int, struct verb_result *result,
		  struct cay_err *err)
{
	const struct verb_snapshot *q = request;
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	struct digest d;
	struct stat st;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r < 0)
		return r;
	if (fstatat(b.dir, SANDBOX_DISK, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cay_fail(err, CAY_E_STATE, "%s has no disk: its files are in memory",
				b.name);
	/* one that runs and looks as if it did not, would be copied while it writes */
	if ((b.cgroup.v2 >= 0) != (q->running != 0))
		return cay_fail(err, CAY_E_STATE, "%s has %s", b.name,
				q->running ? "no cgroup that can be opened" : "a cgroup");
	if (snapshot_digest(&q->snapshot, &d) < 0)
		return cay_no_memory(err);
	return snapshot_copy(k, &b, &d, &result->snapshot, err);
}
