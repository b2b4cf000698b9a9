/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_SKOPEO_H
#define CAY_CAYD_IMAGE_SKOPEO_H
/*
 * skopeo - start the program that talks to registries, and read its outcome
 *
 * It works in one directory of tmp/ and leaves everything there: its output, the archive, its
 * temporary files.  Of its output only the sizes are used, and of its errors only whether they
 * contain one of a few phrases.
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
	bool copy; /* else it only inspects */
};

[[nodiscard]] int skopeo_start(const struct skopeo *job, struct child *ret, struct cay_err *err);
/* The size of all layers, from the output of inspect. */
[[nodiscard]] int skopeo_read_total_size(int dir_fd, uint64_t *ret);
/* Of all files in the directory. */
uint64_t skopeo_count_bytes(int dir_fd);
/* The kind of failure, in our own words. */
enum cay_code skopeo_describe_failure(int dir_fd, int status, const char **ret_text);
#endif
