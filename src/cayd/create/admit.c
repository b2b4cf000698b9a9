/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/create/admit.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/count.h"
#include "cayd/template/build.h"
#include "cayd/template/pool.h"
#include "cayd/tenant/tenant.h"
#include "life/node-room.h"

/* What is free is looked at once in a while: making one takes longer than that. */
#define LOOK_NS (100 * NS_PER_MS)
#define FILE_MAX KIB(4)
#define INODES_KEPT 1024

/* The number behind a word of a /proc file, or the first one. */
static uint64_t proc_file_read_number(const char *path, const char *word)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t n = ADMIT_UNKNOWN;
	char text[FILE_MAX];
	ssize_t len = fd < 0 ? fd : read(fd, text, sizeof(text) - 1);
	const char *at;
	struct slice s;

	if (len < 0)
		return n;
	text[len] = 0;
	at = strstr(text, word);
	if (!at)
		return n;
	at += strlen(word);
	at += strspn(at, " \t");
	s = (struct slice){ at, strspn(at, "0123456789") };
	return str_parse_u64(s, 0, UINT64_MAX, &n) < 0 ? ADMIT_UNKNOWN : n;
}

static uint64_t node_room_subtract(uint64_t a, uint64_t b)
{
	if (a == ADMIT_UNKNOWN || b == ADMIT_UNKNOWN)
		return ADMIT_UNKNOWN;
	return a > b ? a - b : 0;
}

static void node_room_measure(struct cayd *c)
{
	struct node_room *free = &c->room_free, *kept = &c->room_kept;
	uint64_t memory = proc_file_read_number("/proc/meminfo", "MemAvailable:");
	struct statvfs fs;

	/* "0.00 0.01 0.05 1/234 567": of which 234 are all there are */
	*free = (struct node_room){
		.of = { [ADMIT_MEMORY] = memory == ADMIT_UNKNOWN ? memory : memory * KIB(1),
			[ADMIT_PIDS] = node_room_subtract(
				proc_file_read_number("/proc/sys/kernel/pid_max", ""),
				proc_file_read_number("/proc/loadavg", "/")),
			[ADMIT_DISK] = ADMIT_UNKNOWN,
			[ADMIT_INODES] = ADMIT_UNKNOWN }
	};
	*kept = (struct node_room){ .of = { [ADMIT_MEMORY] = c->settings.node_memory,
					    [ADMIT_PIDS] = c->settings.node_pids } };
	if (fstatvfs(c->tmp, &fs) < 0)
		return;
	free->of[ADMIT_DISK] = (uint64_t)fs.f_bavail * fs.f_frsize;
	kept->of[ADMIT_DISK] =
		c->settings.node_disk ? c->settings.node_disk
				      : node_room_disk_reserve((uint64_t)fs.f_blocks * fs.f_frsize);
	if (!fs.f_files)
		return; /* btrfs makes them as it goes */
	free->of[ADMIT_INODES] = fs.f_favail;
	kept->of[ADMIT_INODES] = fs.f_files / 20 < INODES_KEPT ? fs.f_files / 20 : INODES_KEPT;
}

static void node_room_refresh(struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	if (now >= c->room_until) {
		node_room_measure(c);
		c->room_until = now + LOOK_NS;
	}
}

static int node_room_check(struct cayd *c, struct cay_err *err)
{
	node_room_refresh(c);
	return node_room_require(&c->room_free, &c->room_kept, err);
}

static bool sandbox_is_in_group(const struct sandbox *sb, const char *group)
{
	return !group || (sb->info.group && str_eq(sb->info.group, group));
}

static unsigned tenant_count_placed(struct sandboxes *all, const struct id *tenant,
				    const char *group)
{
	return sandbox_counts_get(sandboxes_get_counts(all), group ? COUNT_GROUP : COUNT_TENANT,
				  tenant, group);
}

static struct sandbox *sandbox_find_longest_idle(struct sandboxes *all, const struct id *tenant,
						 const char *group)
{
	struct sandbox *best = NULL;

	for (struct sandbox *sb = sandbox_find_before(all, tenant, 0); sb;
	     sb = sandbox_next_of_tenant(sb))
		if (sandbox_is_in_group(sb, group) &&
		    node_room_is_better_victim(&sb->life, best ? &best->life : NULL))
			best = sb;
	return best;
}

static int node_sandbox_limit_check(struct cayd *c, struct cay_err *err)
{
	const struct settings *s = &c->settings;

	if (sandboxes_count_placed(c->sandboxes) >= s->max_sandboxes)
		return cay_fail(err, CAY_E_CAPACITY, "this node has %llu sandboxes",
				(unsigned long long)s->max_sandboxes);
	return 0;
}

int admit_check_node(struct cayd *c, struct cay_err *err)
{
	return node_sandbox_limit_check(c, err) < 0 ? -ENOSR : node_room_check(c, err);
}

int admit_check_disk(struct cayd *c, struct cay_err *err)
{
	struct node_room kept;

	node_room_refresh(c);
	kept = c->room_kept;
	kept.of[ADMIT_MEMORY] = kept.of[ADMIT_PIDS] = 0;
	return node_room_require(&c->room_free, &kept, err);
}

/* Where there is a quota and it is used up; group is where somebody could make room. */
static int admit_check_quota(struct cayd *c, const struct id *tenant,
			     const struct sandbox_create *spec, const char **ret_group,
			     struct cay_err *err)
{
	const struct settings *s = &c->settings;

	*ret_group = NULL;
	/* one that is there already has its place */
	if (!pool_has_match(c, spec) && node_sandbox_limit_check(c, err) < 0)
		return -ENOSR;
	if (s->max_tenant < s->max_sandboxes &&
	    tenant_count_placed(c->sandboxes, tenant, NULL) >= s->max_tenant)
		return cay_fail(err, CAY_E_LIMIT, "this tenant has %llu sandboxes",
				(unsigned long long)s->max_tenant);
	if (spec->group && s->max_group < s->max_sandboxes &&
	    tenant_count_placed(c->sandboxes, tenant, spec->group) >= s->max_group) {
		*ret_group = spec->group;
		return cay_fail(err, CAY_E_LIMIT, "group '%s' has %llu sandboxes", spec->group,
				(unsigned long long)s->max_group);
	}
	return node_room_check(c, err);
}

static int admit_decide(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
			bool act, struct cay_err *err)
{
	struct cay_err full = {};
	const char *group;
	struct sandbox *sb;

	if (!tenant_is_for_builds(tenant) &&
	    !tenant_exists(c, tenant)) /* it went while the request was read */
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (!keeper_is_up(c->keeper))
		return cay_fail(err, CAY_E_UNAVAILABLE, "the keeper is away");
	if (!(keeper_runtimes(c->keeper) & 1u << spec->runtime))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "runtime",
				      "this runtime is not installed here or failed its probes");
	if (admit_check_quota(c, tenant, spec, &group, &full) >= 0)
		return 0;
	sb = spec->on_full == ON_FULL_EVICT_IDLE
		     ? sandbox_find_longest_idle(c->sandboxes, tenant, group)
		     : NULL;
	if (!sb) {
		*err = full;
		return -ENOSR;
	}
	if (act) {
		sandbox_end(sb, END_EVICTED,
			    "it was idle, and another of its tenant needed its place");
		c->room_until = 0;
	}
	return 0;
}

int admit_check(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		struct cay_err *err)
{
	return admit_decide(c, tenant, spec, false, err);
}

int admit_check_and_evict(struct cayd *c, const struct id *tenant,
			  const struct sandbox_create *spec, struct cay_err *err)
{
	return admit_decide(c, tenant, spec, true, err);
}
