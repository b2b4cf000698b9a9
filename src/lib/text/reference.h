/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_REFERENCE_H
#define CAY_TEXT_REFERENCE_H
/* reference - an image in a registry: HOST[:PORT]/PATH[:TAG][@sha256:HEX]
 *
 * The host is required: there is no default registry.  It has a dot or a port, or is "localhost",
 * which is how docker distinguishes it from the first part of a path.  Accepted references have no
 * character that is special to a shell or a URL. */
#include "base/str.h"

#define REFERENCE_MAX 255

struct reference {
	struct slice host; /* with the port */
	struct slice path;
	struct slice tag, digest; /* empty when absent; digest with "sha256:" */
};

/* -EINVAL for everything else. */
[[nodiscard]] int reference_parse(struct slice text, struct reference *ret);
/* HOST[:PORT] alone. */
bool reference_is_host(struct slice text);
#endif
