/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_REFERENCE_H
#define CAY_TEXT_REFERENCE_H
/* reference - an image in a registry: HOST[:PORT]/PATH[:TAG][@sha256:HEX]
 *
 * The host is required: there is no default registry.  It has a dot or a port, or is "localhost",
 * which is how docker distinguishes it from the first part of a path.  Accepted references have no
 * character that is special to a shell or a URL. */
#include "base/buf.h"
#include "base/str.h"

#define REFERENCE_MAX 255

struct reference {
	struct slice host; /* with the port */
	struct slice path;
	struct slice tag, digest; /* empty when absent; digest with "sha256:" */
};

/* -EINVAL for everything else. */
[[nodiscard]] int reference_parse(struct slice text, struct reference *ret);
/* Append the reference that a name stands for.  One with a registry stands for itself; another is
 * completed as docker does: PREFIX/NAME, and without the path of PREFIX if NAME has a '/'.
 * -EINVAL: it is none, or there is no prefix. */
[[nodiscard]] int reference_complete(struct slice prefix, struct slice name, struct buf *ret);
/* HOST[:PORT] alone. */
bool reference_is_host(struct slice text);
#endif
