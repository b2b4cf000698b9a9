/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_SKOPEO_H
#define CAY_CAYD_IMAGE_SKOPEO_H
/*
 * skopeo - the program that speaks to registries: how it is started, what came of it
 *
 * It works in one directory of tmp/ and leaves everything there: what it says, the
 * archive, its own temporary files.  Of what it says, sizes are taken as numbers, and
 * of its complaints which of a few words are in them.
 */
#include "base/spawn.h"
#include "ops/settings.h"

#define SKOPEO_AUTH "auth.json"
#define SKOPEO_CONF "registries.conf"
#define SKOPEO_ARCHIVE "image.tar"

struct skopeo {
	const struct settings *settings;
	const char *reference, *dir; /* dir: its name in tmp/ */
	int dir_fd;
	bool copy; /* else it only asks */
};

[[nodiscard]] int skopeo_start(const struct skopeo *job, struct child *ret, struct cay_err *err);
/* The sum of the layers, of what asking said. */
[[nodiscard]] int skopeo_read_total_size(int dir_fd, uint64_t *ret);
/* Of all files in the directory. */
uint64_t skopeo_count_bytes(int dir_fd);
/* What kind of failure it was, and in our words. */
enum cay_code skopeo_describe_failure(int dir_fd, int status, const char **ret_text);
#endif
