/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_SANDBOX_NAME_H
#define CAY_TEXT_SANDBOX_NAME_H
/* sandbox-name - the name that a client gives a sandbox, and one segment of a path that has it
 *
 * A name is 1 to SANDBOX_NAME_MAX bytes of UTF-8 that people can see: no control characters, none
 * that are invisible or turn the direction of the text around, no '/'.  It does not begin with '.',
 * and it is not spelled as the id of a sandbox.  Names are compared byte by byte. */
#include "base/str.h"

#define SANDBOX_NAME_MAX 128

bool sandbox_name_is_valid(struct slice name);
/* From a path, percent-decoded once; ret ends with a NUL.  -EINVAL unless it is a name then. */
[[nodiscard]] int sandbox_name_decode(struct slice segment, char ret[static SANDBOX_NAME_MAX + 1]);
#endif
