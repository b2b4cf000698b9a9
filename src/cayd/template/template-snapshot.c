/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template-snapshot - templates whose sandboxes start with the files of a snapshot (ADR 0118)
 *
 * The template has the id of the snapshot and nothing else of it.  Owner, group, bound and layer
 * are those of its row, which stays while a template names it.  So whoever may not have the
 * snapshot finds no such template either; only operators, who administer all templates, see its
 * row.
 */
#include "cayd/snapshot/snapshot.h"
#include "cayd/template/template.h"
#include "ops/package.h"

static bool template_info_names(const struct cayd *c, const struct template_info *t,
				const struct id *owned)
{
	const struct id *id = &t->defaults.snapshot;
	const struct snapshot *s = id->noun == ID_NONE ? NULL : snapshot_find_any(c, id);

	if (owned->noun == ID_TENANT)
		return s && id_eq(&s->info.tenant, owned);
	return id->noun != ID_NONE && id_eq(id, owned);
}

bool template_names(const struct cayd *c, const struct template *t, const struct id *owned)
{
	return template_info_names(c, &t->info, owned) ||
	       (t->next_version && template_info_names(c, &t->next_version->info, owned));
}

bool template_may_be_used_by(const struct cayd *c, const struct template *t, const struct actor *by)
{
	const struct id *id = &t->info.defaults.snapshot;

	return id->noun == ID_NONE || snapshot_find(c, by, id);
}

bool template_is_visible_to(const struct cayd *c, const struct template *t, const struct actor *by)
{
	return by->scope == SCOPE_OPERATOR || template_may_be_used_by(c, t, by);
}

static int template_check_no_build(const struct template_create *q, struct cay_err *err)
{
	const char *field = q->files.n                                ? "files"
			    : packages_has_any(&q->packages)          ? "packages"
			    : q->setup.n                              ? "setup"
			    : packages_has_any(&q->defaults.packages) ? "defaults.packages"
								      : NULL;

	if (!field)
		return 0;
	(void)cay_fail_field(err, CAY_E_INVALID, field,
			     "nothing is built over the files of a snapshot");
	cay_err_hint(err, "change the files in a sandbox of it and name a snapshot of that");
	return -EINVAL;
}

int template_check_snapshot(const struct cayd *c, const struct actor *by,
			    const struct template_create *q, struct cay_err *err)
{
	const struct sandbox_create *d = &q->defaults;
	struct sandbox_create files = {};
	const struct snapshot *s;

	if (d->snapshot.noun == ID_NONE)
		return 0;
	if (d->image)
		return cay_fail_field(err, CAY_E_INVALID, "defaults.snapshot",
				      "give one of 'snapshot' and 'image'");
	if (template_check_no_build(q, err) < 0)
		return -EINVAL;
	s = snapshot_find(c, by, &d->snapshot);
	if (s && !s->fork && s->info.state == SNAPSHOT_CREATING)
		return cay_fail_field(err, CAY_E_UNAVAILABLE, "defaults.snapshot",
				      "the snapshot is being created");
	if (!s || s->fork || !snapshot_give_files(s, &files))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "defaults.snapshot",
				      "there is no such snapshot");
	if (d->has_egress && s->has_template_egress) /* two bounds, of which one would be lost */
		return cay_fail_field(err, CAY_E_INVALID, "defaults.egress",
				      "the policy of the template of its sandbox already bounds "
				      "sandboxes of this snapshot");
	return 0;
}

int template_give_files(const struct cayd *c, const struct template *t, struct sandbox_create *spec,
			struct cay_err *err)
{
	const struct id *id = &t->info.defaults.snapshot;
	const struct snapshot *s = id->noun == ID_NONE ? NULL : snapshot_find_any(c, id);

	if (id->noun == ID_NONE)
		return 0;
	if (packages_has_any(&spec->packages))
		return cay_fail_field(err, CAY_E_INVALID, "packages",
				      "packages are installed over an image, not over a snapshot");
	if (!s || !snapshot_give_files(s, spec))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "template",
				      "the snapshot of template '%s' has lost its files",
				      t->info.name);
	return 0;
}
