/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_PULL_SKOPEO_H
#define CAY_PULL_SKOPEO_H
/*
 * skopeo - start the program that talks to registries, confined, and read its outcome
 *
 * It works in one directory and leaves everything there: its output, the archive, its temporary
 * files.  Of its output only the sizes are used, and of its errors only whether they contain one
 * of a few phrases.
 */
#include "base/spawn.h"
#include "wire/puller.h"

#define SKOPEO_ARCHIVE "image.tar"

struct skopeo {
	const char *program;
	const char *dir; /* absolute */
	int dir_fd, auth_fd;
	const struct reference *ref;
	bool insecure;
	bool copy; /* else it only inspects */
	uint64_t file_max;
};

/* It dies with the calling process. */
[[nodiscard]] int skopeo_start(const struct skopeo *job, struct child *ret, struct cay_err *err);
/* The size of all layers, from the output of inspect. */
[[nodiscard]] int skopeo_read_total_size(int dir_fd, uint64_t *ret);
/* Of all files in the directory. */
uint64_t skopeo_count_bytes(int dir_fd);
/* The kind of failure. */
enum puller_failure skopeo_describe_failure(int dir_fd, int status);
#endif
