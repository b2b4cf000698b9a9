/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/fsck-volumes.h"

#include "cayd/core/keeper-link.h"
#include "cayd/volume/volume.h"

#define ROWS_MAX ((size_t)4 * VOLUMES_MAX)

static const char *const fsck_volume_details[FSCK_NUM] = {
#define CAY_FSCK(sym, name, detail, ...) [FSCK_##sym] = detail,
#include "ops/fsck.def"
#undef CAY_FSCK
};

void fsck_volumes_fini(struct fsck_volumes *k)
{
	free(k->rows);
	k->rows = NULL;
	k->n = 0;
}

static int fsck_volumes_append(struct fsck_volumes *k, const struct verb_volume_list_reply *page,
			       struct cay_err *err)
{
	size_t n = k->n + page->n_rows;
	struct verb_volume_row *rows;

	if (page->more && !page->n_rows)
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper's list changes too fast");
	rows = n > ROWS_MAX ? NULL : realloc(k->rows, (n + 1) * sizeof(*rows));
	if (!rows)
		return cay_fail(err, CAY_E_NO_MEMORY, "cay-keeper lists too many volumes");
	memcpy(&rows[k->n], page->rows, page->n_rows * sizeof(*rows));
	k->rows = rows;
	k->n = n;
	return 0;
}

static void on_fsck_volumes_page(void *arg, const struct cay_err *outcome, const void *reply,
				 int fd)
{
	struct fsck_volumes *k = arg;
	struct verb_volume_list_reply page = {};
	struct cay_err err = *outcome;

	cay_closep(&fd);
	if (!err.code) {
		memcpy(&page, reply, sizeof(page));
		(void)fsck_volumes_append(k, &page, &err);
	}
	if (err.code || !page.more) {
		k->fn(k->arg, &err);
		return;
	}
	k->q.after = page.rows[page.n_rows - 1].volume;
	keeper_call(k->cayd->keeper, VERB_VOLUME_LIST, &k->q, -EBADF, on_fsck_volumes_page, k);
}

void fsck_volumes_list(struct fsck_volumes *k, struct cayd *c,
		       void (*fn)(void *arg, const struct cay_err *outcome), void *arg)
{
	k->cayd = c;
	k->began_ns = clk_boot_ns(c->clk);
	k->fn = fn;
	k->arg = arg;
	keeper_call(c->keeper, VERB_VOLUME_LIST, &k->q, -EBADF, on_fsck_volumes_page, k);
}

static void on_stray_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct cayd *c = arg;

	cay_closep(&fd);
	if (outcome->code)
		log_error(&c->log, "cannot remove files of a volume: %s", outcome->msg);
}

/* Whether there was room: only reported ones are repaired. */
static bool fsck_volume_add(struct fsck_findings *f, const struct id *volume, enum fsck_kind kind,
			    bool repaired)
{
	if (f->n == FSCK_FINDINGS_MAX)
		return false;
	f->rows[f->n++] = (struct fsck_row){ .volume = *volume,
					     .kind = kind,
					     .detail = fsck_volume_details[kind],
					     .repaired = repaired };
	return true;
}

static const struct verb_volume_row *fsck_volume_find(const struct fsck_volumes *k,
						      const struct id *id)
{
	for (size_t i = 0; i < k->n; i++)
		if (id_eq(&k->rows[i].volume, id))
			return &k->rows[i];
	return NULL;
}

/* Of the volumes of the journal that nothing has changed since the list began. */
static void fsck_compare_void(const struct fsck_volumes *k, struct cayd *c, bool repair,
			      struct fsck_findings *f)
{
	struct volume *v;

	volumes_count_users(c);
	for (size_t i = 0; (v = volume_at(c, i)); i++) {
		const struct verb_volume_row *row = fsck_volume_find(k, &v->info.id);
		bool unused;

		if (v->busy || v->n_copies || v->info.state != VOLUME_READY ||
		    v->ready_ns >= k->began_ns || (row && row->whole))
			continue;
		unused = v->info.writer.noun == ID_NONE && !v->info.readers;
		if (fsck_volume_add(f, &v->info.id, FSCK_VOID, repair && unused) && repair &&
		    unused)
			volume_remove(v, NULL, NULL);
	}
}

void fsck_volumes_compare(const struct fsck_volumes *k, struct cayd *c,
			  const struct fsck_repairs *how, struct fsck_findings *f)
{
	bool remove = how->end_foreign && !c->volume_unread;

	fsck_compare_void(k, c, how->repair, f);
	for (size_t i = 0; i < k->n; i++) {
		struct verb_volume_name q = { .volume = k->rows[i].volume };

		if (volume_find_any(c, &q.volume))
			continue;
		if (fsck_volume_add(f, &q.volume, FSCK_STRAY, remove) && remove)
			keeper_call(c->keeper, VERB_VOLUME_REMOVE, &q, -EBADF, on_stray_removed, c);
	}
}
