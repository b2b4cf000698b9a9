/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/admit.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cayd/build.h"
#include "cayd/link.h"
#include "cayd/stock.h"
#include "cayd/tally.h"
#include "cayd/tenant.h"
#include "life/admit.h"

/* What is free is looked at once in a while: making one takes longer than that. */
#define LOOK_NS (100 * NS_PER_MS)
#define FILE_MAX KIB(4)
#define INODES_KEPT 1024

/* The number behind a word of a /proc file, or the first one. */
static uint64_t number(const char *path, const char *word)
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
	return str_u64(s, 0, UINT64_MAX, &n) < 0 ? ADMIT_UNKNOWN : n;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	if (a == ADMIT_UNKNOWN || b == ADMIT_UNKNOWN)
		return ADMIT_UNKNOWN;
	return a > b ? a - b : 0;
}

static void look(struct cayd *c)
{
	struct admit_room *free = &c->room_free, *kept = &c->room_kept;
	uint64_t memory = number("/proc/meminfo", "MemAvailable:");
	struct statvfs fs;

	/* "0.00 0.01 0.05 1/234 567": of which 234 are all there are */
	*free = (struct admit_room){
		.of = { [ADMIT_MEMORY] = memory == ADMIT_UNKNOWN ? memory : memory * KIB(1),
			[ADMIT_PIDS] = minus(number("/proc/sys/kernel/pid_max", ""),
					     number("/proc/loadavg", "/")),
			[ADMIT_DISK] = ADMIT_UNKNOWN,
			[ADMIT_INODES] = ADMIT_UNKNOWN }
	};
	*kept = (struct admit_room){ .of = { [ADMIT_MEMORY] = c->settings.node_memory,
					     [ADMIT_PIDS] = c->settings.node_pids } };
	if (fstatvfs(c->tmp, &fs) < 0)
		return;
	free->of[ADMIT_DISK] = (uint64_t)fs.f_bavail * fs.f_frsize;
	kept->of[ADMIT_DISK] = c->settings.node_disk
				       ? c->settings.node_disk
				       : admit_disk_kept((uint64_t)fs.f_blocks * fs.f_frsize);
	if (!fs.f_files)
		return; /* btrfs makes them as it goes */
	free->of[ADMIT_INODES] = fs.f_favail;
	kept->of[ADMIT_INODES] = fs.f_files / 20 < INODES_KEPT ? fs.f_files / 20 : INODES_KEPT;
}

static void look_again(struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	if (now >= c->room_until) {
		look(c);
		c->room_until = now + LOOK_NS;
	}
}

static int has_room(struct cayd *c, struct cay_err *err)
{
	look_again(c);
	return admit_room(&c->room_free, &c->room_kept, err);
}

static bool is_of(const struct box *b, const char *group)
{
	return !group || (b->info.group && str_eq(b->info.group, group));
}

static unsigned places(struct boxes *all, const struct id *tenant, const char *group)
{
	return tally_of(boxes_tally(all), group ? TALLY_GROUP : TALLY_TENANT, tenant, group);
}

static struct box *longest_idle(struct boxes *all, const struct id *tenant, const char *group)
{
	struct box *best = NULL;

	for (struct box *b = box_before(all, tenant, 0); b; b = box_older(b))
		if (is_of(b, group) && admit_rather(&b->life, best ? &best->life : NULL))
			best = b;
	return best;
}

static int has_places(struct cayd *c, struct cay_err *err)
{
	const struct settings *s = &c->settings;

	if (boxes_placed(c->boxes) >= s->max_boxes)
		return cay_fail(err, CAY_E_CAPACITY, "this node has %llu sandboxes",
				(unsigned long long)s->max_boxes);
	return 0;
}

int admit_node(struct cayd *c, struct cay_err *err)
{
	return has_places(c, err) < 0 ? -ENOSR : has_room(c, err);
}

int admit_disk(struct cayd *c, struct cay_err *err)
{
	struct admit_room kept;

	look_again(c);
	kept = c->room_kept;
	kept.of[ADMIT_MEMORY] = kept.of[ADMIT_PIDS] = 0;
	return admit_room(&c->room_free, &kept, err);
}

/* Where there is a quota and it is used up; group is where somebody could make room. */
static int quota(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		 const char **ret_group, struct cay_err *err)
{
	const struct settings *s = &c->settings;

	*ret_group = NULL;
	/* one that is there already has its place */
	if (!stock_has(c, spec) && has_places(c, err) < 0)
		return -ENOSR;
	if (s->max_tenant < s->max_boxes && places(c->boxes, tenant, NULL) >= s->max_tenant)
		return cay_fail(err, CAY_E_LIMIT, "this tenant has %llu sandboxes",
				(unsigned long long)s->max_tenant);
	if (spec->group && s->max_group < s->max_boxes &&
	    places(c->boxes, tenant, spec->group) >= s->max_group) {
		*ret_group = spec->group;
		return cay_fail(err, CAY_E_LIMIT, "group '%s' has %llu sandboxes", spec->group,
				(unsigned long long)s->max_group);
	}
	return has_room(c, err);
}

static int admit(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		 bool act, struct cay_err *err)
{
	struct cay_err full = {};
	const char *group;
	struct box *b;

	if (!build_has(tenant) && !tenant_known(c, tenant)) /* it went while the request was read */
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (!link_up(c->link))
		return cay_fail(err, CAY_E_UNAVAILABLE, "the keeper is away");
	if (!(link_runtimes(c->link) & 1u << spec->runtime))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "runtime",
				      "this runtime is not installed here or failed its probes");
	if (quota(c, tenant, spec, &group, &full) >= 0)
		return 0;
	b = spec->on_full == ON_FULL_EVICT_IDLE ? longest_idle(c->boxes, tenant, group) : NULL;
	if (!b) {
		*err = full;
		return -ENOSR;
	}
	if (act) {
		box_end(b, END_EVICTED, "it was idle, and another of its tenant needed its place");
		c->room_until = 0;
	}
	return 0;
}

int admit_check(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		struct cay_err *err)
{
	return admit(c, tenant, spec, false, err);
}

int admit_take(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
	       struct cay_err *err)
{
	return admit(c, tenant, spec, true, err);
}
