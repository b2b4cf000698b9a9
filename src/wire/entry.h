/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_ENTRY_H
#define CAY_WIRE_ENTRY_H
/*
 * entry - what cay-init says of a sandbox's main program
 *
 * POST /v1/enter starts it, once: asked again, PID 1 tells of the one there is.  GET
 * /v1/entry asks after it.  The answer is 32 bytes, fixed, because cayd reads it and does not
 * parse JSON that came from a sandbox.
 *
 *	 0  u32  magic "CAYE"
 *	 4  u8   state
 *	 5  u8   signal that ended it, or 0
 *	 6  u8   exit code, when no signal did
 *	 7  u8   0
 *	 8  u8[16] its exec id
 *	24  u64  0
 */
#include "base/id.h"

#define ENTRY_SIZE 32
#define ENTRY_MEDIA_TYPE "application/vnd.cay.entry"
#define INIT_PATH_ENTER "/v1/enter" /* POST: an ExecRun */
#define INIT_PATH_ENTRY "/v1/entry" /* GET; 404: none was started */

enum entry_state { ENTRY_NONE, ENTRY_RUNNING, ENTRY_ENDED, ENTRY_NUM_STATES };

struct entry {
	uint8_t state, signal, exit_code; /* those two: when it has ended */
	struct id exec;
};

void entry_encode(const struct entry *e, uint8_t out[static ENTRY_SIZE]);
/* -EPROTO for anything that entry_encode() does not write of one that was started. */
[[nodiscard]] int entry_decode(const uint8_t *in, size_t n, struct entry *ret);
#endif
