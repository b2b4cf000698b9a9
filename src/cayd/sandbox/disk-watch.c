/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/disk-watch.h"

#include "cayd/core/keeper-link.h"

#define SHARE 16 /* part of node.disk that a tenant may write during a shortage */
#define FASTEST \
	4 /* of the tenant's sandboxes: those that wrote this part of what the first did \
	   */
#define RESUME_NS NS_PER_S

const char disk_watch_hold_text[] =
	"the disk of this node is nearly full, and this sandbox was filling it: it is paused until "
	"there is space; delete sandboxes that are not needed, or ask the operator for space";

struct disk_watch {
	struct cayd *cayd;
	struct verb_list list;
	bool counting;        /* calls to the keeper are under way */
	uint64_t shortage;    /* number of the present one; 0: there is none */
	uint64_t n_shortages; /* so far */
	uint64_t free, reserve;
	uint64_t measured_ns, rate; /* bytes a second by which free space shrank, decaying */
	uint64_t resume_ns;         /* when the next one may resume */
	bool may_hold;              /* sandboxes may be held: look for them */
};

/* A sandbox that wrote during this shortage. */
struct disk_writer {
	struct sandbox *sandbox;
	uint64_t bytes;
};

uint64_t disk_watch_enough(uint64_t reserve)
{
	return 2 * reserve + reserve / 4;
}

bool disk_watch_is_short(const struct cayd *c)
{
	uint64_t free, reserve;

	return node_space_read_disk(c, &free, &reserve) && free < disk_watch_enough(reserve);
}

/* A fast writer makes a shortage earlier: sweeps and the keeper may be late on a busy machine. */
static bool disk_watch_measure(struct disk_watch *w, uint64_t now)
{
	uint64_t before = w->free, took = now - w->measured_ns, rate = 0;

	if (!node_space_read_disk(w->cayd, &w->free, &w->reserve))
		return false;
	if (w->measured_ns && took && before > w->free)
		rate = (uint64_t)((double)(before - w->free) * (double)NS_PER_S / (double)took);
	w->rate = rate > w->rate - w->rate / 8 ? rate : w->rate - w->rate / 8;
	w->measured_ns = now;
	return true;
}

static void disk_watch_report(const struct disk_watch *w, const struct sandbox *sb, bool held)
{
	struct hold_event e = { .tenant = sb->info.tenant,
				.sandbox = sb->info.id,
				.held = held,
				.free_bytes = w->free,
				.reserve_bytes = w->reserve };
	char tenant[ID_TEXT_LEN + 1], sandbox[ID_TEXT_LEN + 1];

	id_format(&e.tenant, tenant);
	id_format(&e.sandbox, sandbox);
	log_warn(&w->cayd->log,
		 held ? "%llu MiB of disk are free: paused %s of tenant %s, which was filling it; "
			"delete sandboxes or images, or add space"
		      : "%llu MiB of disk are free again: %s of tenant %s resumes",
		 (unsigned long long)(w->free / MIB(1)), sandbox, tenant);
	w->cayd->hooks->sandbox_held(w->cayd, &e);
}

static void disk_watch_hold(struct disk_watch *w, struct sandbox *sb)
{
	sb->info.hold = disk_watch_hold_text;
	if (sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_PAUSE }) != CAY_OK) {
		sb->info.hold = NULL; /* another effect is under way; the next sweep tries again */
		return;
	}
	w->may_hold = true;
	disk_watch_report(w, sb, true);
}

static int disk_writer_compare(const void *a, const void *b)
{
	const struct disk_writer *x = a, *y = b;

	return memcmp(&x->sandbox->info.tenant, &y->sandbox->info.tenant, sizeof(struct id));
}

/* Writers of one tenant: hold the fastest if all have written more than their share. */
static void disk_watch_judge_tenant(struct disk_watch *w, const struct disk_writer *of, size_t n)
{
	uint64_t sum = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		sum += of[i].bytes;
		most = of[i].bytes > most ? of[i].bytes : most;
	}
	if (sum < w->reserve / SHARE)
		return;
	for (size_t i = 0; i < n; i++)
		if (of[i].bytes >= most / FASTEST)
			disk_watch_hold(w, of[i].sandbox);
}

static uint64_t disk_watch_count(const struct disk_watch *w, const struct sandbox *sb)
{
	if (sb->life.state != SB_RUNNING || sb->life.pending_effect != DO_NOTHING ||
	    sb->disk_watch.since != w->shortage)
		return 0;
	return sb->disk_watch.before + sb->disk_watch.written - sb->disk_watch.base;
}

static void disk_watch_judge(struct disk_watch *w)
{
	struct sandboxes *all = w->cayd->sandboxes;
	struct disk_writer *writers = calloc(sandboxes_count_live(all) + 1, sizeof(*writers));
	size_t n = 0, first = 0;

	for (struct sandbox *sb = sandboxes_newest(all); writers && sb; sb = sb->older)
		if (disk_watch_count(w, sb))
			writers[n++] = (struct disk_writer){ sb, disk_watch_count(w, sb) };
	if (n)
		qsort(writers, n, sizeof(*writers), disk_writer_compare);
	for (size_t i = 1; i <= n; i++)
		if (i == n || disk_writer_compare(&writers[first], &writers[i]) != 0) {
			disk_watch_judge_tenant(w, &writers[first], i - first);
			first = i;
		}
	free(writers);
}

static void disk_watch_note(const struct disk_watch *w, const struct verb_list_row *row)
{
	struct sandbox *sb = sandbox_find(w->cayd->sandboxes, &row->sandbox);

	if (!sb || sb->life.generation != row->generation || life_is_at_rest(&sb->life))
		return;
	if (sb->disk_watch.since != w->shortage) {
		sb->disk_watch.since = w->shortage;
		sb->disk_watch.base = row->written_bytes;
		sb->disk_watch.before = 0;
	} else if (row->written_bytes < sb->disk_watch.written) {
		/* a process ended that its parent did not wait for */
		sb->disk_watch.before += sb->disk_watch.written - sb->disk_watch.base;
		sb->disk_watch.base = row->written_bytes;
	}
	sb->disk_watch.written = row->written_bytes;
}

static void on_disk_watch_listed(void *arg, const struct cay_err *outcome, const void *reply, int)
{
	struct disk_watch *w = arg;
	struct verb_list_reply page = {};

	if (!outcome->code)
		memcpy(&page, reply, sizeof(page));
	for (uint32_t i = 0; i < page.n_rows && w->shortage; i++)
		disk_watch_note(w, &page.rows[i]);
	if (page.more && page.n_rows) {
		w->list.after = page.rows[page.n_rows - 1].sandbox;
		keeper_call(w->cayd->keeper, VERB_LIST, &w->list, -EBADF, on_disk_watch_listed, w);
		return;
	}
	w->counting = false;
	if (w->shortage && !outcome->code)
		disk_watch_judge(w);
}

/* One at a time, so that the next measurement counts what the one before writes. */
static void disk_watch_resume_one(struct disk_watch *w, uint64_t now)
{
	struct sandbox *oldest = NULL;

	for (struct sandbox *sb = sandboxes_newest(w->cayd->sandboxes); sb; sb = sb->older) {
		if (sb->info.hold && sb->life.state == SB_PAUSED)
			oldest = sb;
		else if (sb->life.pending_effect == DO_NOTHING)
			sb->info.hold = NULL; /* it could not be paused */
	}
	w->resume_ns = now + RESUME_NS;
	w->may_hold = oldest;
	if (oldest &&
	    sandbox_apply_event(oldest, &(struct life_event){ .kind = LIFE_RESUME }) == CAY_OK)
		disk_watch_report(w, oldest, false);
}

static struct disk_watch *disk_watch_get(struct cayd *c)
{
	struct disk_watch *w = c->disk_watch ? c->disk_watch : calloc(1, sizeof(*w));

	if (w && !c->disk_watch)
		*w = (struct disk_watch){ .cayd = c, .may_hold = true };
	c->disk_watch = w;
	return w;
}

void disk_watch_sweep(struct cayd *c, uint64_t now)
{
	struct disk_watch *w = disk_watch_get(c);

	if (!w || !disk_watch_measure(w, now))
		return;
	if (w->free >= 2 * w->reserve + w->rate) {
		w->shortage = 0;
		if (w->may_hold && now >= w->resume_ns && w->free >= disk_watch_enough(w->reserve))
			disk_watch_resume_one(w, now);
		return;
	}
	if (!w->shortage)
		w->shortage = ++w->n_shortages;
	if (w->counting || !keeper_is_up(c->keeper))
		return;
	w->counting = true;
	w->list = (struct verb_list){ .usage = 1 };
	keeper_call(c->keeper, VERB_LIST, &w->list, -EBADF, on_disk_watch_listed, w);
}
