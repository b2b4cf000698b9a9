/* SPDX-License-Identifier: Apache-2.0 */
/* volume-users - which sandboxes have a volume, and whether another may */
#include <stdlib.h>

#include "cayd/volume/volume.h"
#include "daemon/host-dirs.h"
#include "wire/volume-path.h"

/* One that is stopped has given them up; one that ends has them until it has ended. */
static bool sandbox_has_its_volumes(const struct sandbox *sb)
{
	return sb->info.volumes.n && sb->life.state != SB_STOPPED && !life_is_finished(&sb->life);
}

static int volume_compare(const void *a, const void *b)
{
	return memcmp(&(*(struct volume *const *)a)->info.id,
		      &(*(struct volume *const *)b)->info.id, sizeof(struct id));
}

/* In order of their ids, without users. */
static size_t volumes_sort(const struct cayd *c, struct volume *ret[static VOLUMES_MAX])
{
	size_t n = 0;
	struct volume *v;

	while ((v = volume_at(c, n))) {
		v->info.readers = 0;
		v->info.writer = (struct id){};
		ret[n++] = v;
	}
	if (n)
		qsort(ret, n, sizeof(struct volume *), volume_compare);
	return n;
}

static struct volume *volume_find_sorted(struct volume *const *sorted, size_t n,
					 const struct id *id)
{
	struct volume key = { .info.id = *id }, *at = &key;
	struct volume *const *found =
		n ? bsearch(&at, sorted, n, sizeof(struct volume *), volume_compare) : NULL;

	return found ? *found : NULL;
}

/* Anybody who may read can ask for this at any rate, so it walks over the sandboxes of the node
 * only after one with volumes has changed. */
void volumes_count_users(struct cayd *c)
{
	struct volume *sorted[VOLUMES_MAX], *v;
	size_t n;

	if (volumes_have_users_of_now(c))
		return;
	n = volumes_sort(c, sorted);
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older) {
		const struct volume_mount *m = sb->info.volumes.v;

		for (size_t i = 0; sandbox_has_its_volumes(sb) && i < sb->info.volumes.n; i++) {
			v = m[i].host ? NULL : volume_find_sorted(sorted, n, &m[i].volume);
			if (v && m[i].read_only)
				v->info.readers++;
			else if (v)
				v->info.writer = sb->info.id;
		}
	}
}

int volume_fail_used(const struct volume *v, struct cay_err *err)
{
	char id[ID_TEXT_LEN + 1];

	if (v->info.writer.noun != ID_NONE) {
		id_format(&v->info.writer, id);
		(void)cay_fail_field(err, CAY_E_CONFLICT, "volumes",
				     "%s has the volume '%s', and may write to it", id,
				     v->info.name);
		cay_err_hint(err, "stop or delete that sandbox first");
	} else {
		(void)cay_fail_field(err, CAY_E_CONFLICT, "volumes",
				     "%llu sandboxes read the volume '%s'",
				     (unsigned long long)v->info.readers, v->info.name);
		cay_err_hint(err, "stop or delete them first, or mount it read-only");
	}
	return -EBUSY;
}

/* Whether one of the paths leads through the other. */
static bool volume_paths_nest(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;

	return strncmp(a, b, least) == 0 && (n == m || (n > m ? a[least] == '/' : b[least] == '/'));
}

static int volume_mount_check_others(const struct volume_mount *m, size_t i, struct cay_err *err)
{
	for (size_t k = 0; k < i; k++) {
		if (!m[i].host == !m[k].host &&
		    (m[i].host ? str_eq(m[i].host, m[k].host) : id_eq(&m[i].volume, &m[k].volume)))
			return cay_fail_field(err, CAY_E_INVALID, "volumes",
					      "a volume is there twice");
		if (volume_paths_nest(m[i].path, m[k].path))
			return cay_fail_field(err, CAY_E_INVALID, "volumes",
					      "'%s' and '%s' are the same path, or one is in the "
					      "other",
					      m[k].path, m[i].path);
	}
	return 0;
}

/* cay-keeper asks the same of the files it read when it started. */
static int host_mount_check(const struct cayd *c, const struct id *tenant,
			    const struct volume_mount *m, struct cay_err *err)
{
	const struct host_dir *d = host_dirs_find(c->host_dirs, m->host, tenant);

	if (!d)
		return cay_fail_field(err, CAY_E_NOT_FOUND, "volumes",
				      "there is no such host directory");
	if (d->mode == HOST_DIR_RW || m->read_only)
		return 0;
	(void)cay_fail_field(err, CAY_E_INVALID, "volumes", "the host directory '%s' is read-only",
			     d->name);
	cay_err_hint(err, "say so with read_only, or NAME:PATH:ro");
	return -EINVAL;
}

/* A key of a group has nothing of the whole tenant. */
static int volume_mount_check_source(const struct cayd *c, const struct actor *by,
				     const struct volume_mount *m, struct cay_err *err)
{
	const struct volume *v;

	if (!m->host == (m->volume.noun == ID_NONE))
		return cay_fail_field(err, CAY_E_INVALID, "volumes",
				      "give either 'volume' or 'host' of each");
	if (m->host && actor_has_group(by, NULL))
		return host_mount_check(c, &by->tenant, m, err);
	v = m->host ? NULL : volume_find(c, by, &m->volume);
	if (v && v->info.read_only && !m->read_only)
		return cay_fail_field(err, CAY_E_INVALID, "volumes",
				      "the volume '%s' can only be mounted with read_only",
				      v->info.name);
	if (v)
		return 0;
	return cay_fail_field(err, CAY_E_NOT_FOUND, "volumes",
			      m->host ? "there is no such host directory"
				      : "there is no such volume");
}

int volume_mounts_check(const struct cayd *c, const struct actor *by,
			const struct sandbox_create *spec, struct cay_err *err)
{
	const struct volume_mount *m = spec->volumes.v;

	for (size_t i = 0; i < spec->volumes.n; i++) {
		const char *fault = volume_path_fault(m[i].path, strlen(m[i].path));

		if (fault)
			return cay_fail_field(err, CAY_E_INVALID, "volumes", "the path '%s' %s",
					      m[i].path, fault);
		if (volume_mount_check_source(c, by, &m[i], err) < 0 ||
		    volume_mount_check_others(m, i, err) < 0)
			return -EINVAL;
	}
	return 0;
}

int volume_mounts_admit(struct cayd *c, const struct id *tenant, const struct field_list *mounts,
			struct cay_err *err)
{
	const struct volume_mount *m = mounts->v;

	if (mounts->n)
		volumes_count_users(c);
	for (size_t i = 0; i < mounts->n; i++) {
		const struct volume *v = volume_find_any(c, &m[i].volume);

		if (m[i].host && host_mount_check(c, tenant, &m[i], err) < 0)
			return -ENOENT;
		if (m[i].host)
			continue;
		if (!v || !id_eq(&v->info.tenant, tenant) || v->info.state == VOLUME_DELETING)
			return cay_fail_field(err, CAY_E_NOT_FOUND, "volumes",
					      "there is no such volume");
		if (v->info.state == VOLUME_CREATING)
			return cay_fail_field(err, CAY_E_UNAVAILABLE, "volumes",
					      "the volume '%s' is being created", v->info.name);
		if (v->n_copies && !m[i].read_only)
			return cay_fail_field(err, CAY_E_UNAVAILABLE, "volumes",
					      "the volume '%s' is being copied; try again",
					      v->info.name);
		if (v->info.writer.noun != ID_NONE || (v->info.readers && !m[i].read_only))
			return volume_fail_used(v, err);
	}
	return 0;
}
