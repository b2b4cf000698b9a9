/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_E2B_ENVELOPE_H
#define CAY_E2B_ENVELOPE_H
/* envelope - a message of a stream of Connect: a byte of flags, four of the length, most
 * significant first, then JSON.  The one with ENVELOPE_END is the last.  Compression is never
 * negotiated. */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define ENVELOPE_HEAD 5
#define ENVELOPE_END 2

/* The body of a request for a stream: exactly one message. */
[[nodiscard]] int envelope_open(struct slice body, struct slice *ret, struct cay_err *err);
void envelope_head(unsigned flags, size_t n, uint8_t ret[static ENVELOPE_HEAD]);
#endif
