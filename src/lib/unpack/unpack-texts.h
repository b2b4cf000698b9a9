/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_UNPACK_TEXTS_H
#define CAY_UNPACK_UNPACK_TEXTS_H
/* unpack-texts - what the confined child returns beside the tree: two memfds
 *
 * The child writes them; root seals them, checks their sizes and computes the image's name from the
 * manifest.  Root parses neither. */
#include "base/err.h"
#include "base/mem.h"
#include "unpack/oci-layout.h"

#define UNPACK_CONFIG_MAX KIB(64)
#define UNPACK_MANIFEST_MAX LAYOUT_JSON_MAX

struct unpack_texts {
	int config_fd;   /* image_config as JSON */
	int manifest_fd; /* the manifest, or the one it would have had */
};

#define UNPACK_TEXTS_INIT ((struct unpack_texts){ -EBADF, -EBADF })

[[nodiscard]] int unpack_texts_create(struct unpack_texts *ret, struct cay_err *err);
/* Once the child is gone: nothing changes them any more.  *ret_name is the manifest's digest. */
[[nodiscard]] int unpack_texts_seal(const struct unpack_texts *t, struct digest *ret_name,
				    struct cay_err *err);
void unpack_texts_fini(struct unpack_texts *t);
#endif
