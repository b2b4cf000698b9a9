/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_UNPACK_H
#define CAY_UNPACK_UNPACK_H
/* unpack - turn an untrusted tar into a root file system and its config
 *
 * An OCI image layout, an archive of `docker save` or a tree (`docker export`), plain or compressed
 * with gzip or zstd; the content determines which.
 *
 * All of this parses untrusted input, so all of it runs in the confined child (unpack-confine.h).
 * It does not depend on the confinement, so tests and fuzzers can call it directly. */
#include <stdint.h>

#include "base/err.h"
#include "unpack/unpack-texts.h"

struct unpack_result {
	uint64_t bytes;   /* of the files, including those a later layer replaced */
	uint64_t skipped; /* devices, fifos and sockets that were left out */
};

/* root: an empty directory.  which: 0 for the only image in the tar, or the number of one of
 * several, from 1; the config says how many there are and how the tar calls this one. */
[[nodiscard]] int unpack_image(int root, int tar_fd, struct unpack_texts to, uint64_t max_bytes,
			       uint64_t which, struct unpack_result *ret, struct cay_err *err);
#endif
