/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_START_H
#define CAY_WIRE_START_H
/* start - the start script that failed, and how
 *
 * cay-init's reply with status 422 when a script of the image failed: to the claim, or, if the
 * claim has "Prefer: respond-async" and was answered with 202 because there are scripts to run, to
 * a request that waits for the end of the start.  So a claim is answered at once by any PID 1 that
 * responds, and scripts take the time they need.  512 bytes, fixed, because cayd does not parse
 * JSON from a sandbox.  Its texts are untrusted: they must be UTF-8 without control characters, or
 * the whole is refused.
 *
 *	  0  u32  magic "CAYS"
 *	  4  u8   outcome
 *	  5  u8   signal that ended it, or 0
 *	  6  u8   exit code, if it exited
 *	  7  u8   0
 *	  8  u8[120] the script, zero-padded; empty: none was started
 *	128  u8[384] the end of its output, or why it could not be run; zero-padded
 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define START_SIZE 512
#define START_SCRIPT_MAX 119
#define START_TEXT_MAX 383
#define START_MEDIA_TYPE "application/vnd.cay.start"
#define START_STATUS 422
#define START_BEGUN 202
/* How long all scripts together may take, and services to be up. */
#define START_MAX_MS 60000

enum start_failure_kind {
	START_NONE,
	START_EXITED,
	START_KILLED,
	START_TIMED_OUT,
	START_NOT_RUN,
	START_NUM
};

struct start_failure {
	uint8_t what, signal, exit_code;
	char script[START_SCRIPT_MAX + 1], text[START_TEXT_MAX + 1];
};

/* The end of the text, cut to size and cleaned. */
void start_failure_set_text(char *to, size_t max, struct slice text);
void start_failure_encode(const struct start_failure *f, uint8_t out[static START_SIZE]);
/* -EPROTO for anything that start_failure_encode() does not write for texts of
 * start_failure_set_text(). */
[[nodiscard]] int start_failure_decode(const uint8_t *in, size_t n, struct start_failure *ret);
#endif
