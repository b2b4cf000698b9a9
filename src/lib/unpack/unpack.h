/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_UNPACK_H
#define CAY_UNPACK_UNPACK_H
/*
 * unpack - a stranger's tar becomes a tree and a config
 *
 * An OCI image layout, an archive of `docker save` or a tree (`docker export`), plain
 * or by gzip or zstd; what it is, its content says.
 *
 * All of it is parsing what strangers wrote, so all of it runs in the confined
 * child (unpack-confine.h).  It does not know that, which is why tests and fuzzers can
 * call it as it is.
 */
#include <stdint.h>

#include "base/err.h"
#include "unpack/digest.h"

#define UNPACK_CONFIG_MAX KIB(64)

struct unpack_result {
	struct digest digest; /* of the manifest, or of the one it would have had */
	uint64_t bytes;       /* of the files; those a later layer replaced count too */
	uint64_t skipped;     /* devices, fifos and sockets that were left out */
};

/* root: an empty directory; config_fd: a file, image_config as JSON goes there. */
[[nodiscard]] int unpack_image(int root, int tar_fd, int config_fd, uint64_t max_bytes,
			       struct unpack_result *ret, struct cay_err *err);
#endif
