/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_ENTRYPOINT_H
#define CAY_WIRE_ENTRYPOINT_H
/* entrypoint - cay-init's status of a sandbox's main program
 *
 * POST /v1/enter starts it, once; a repetition returns the status of the running one.  GET
 * /v1/entry returns the status.  The reply is 32 bytes, fixed, because cayd does not parse JSON
 * from a sandbox.
 *
 *	 0  u32  magic "CAYE"
 *	 4  u8   state
 *	 5  u8   signal that ended it, or 0
 *	 6  u8   exit code, if no signal did
 *	 7  u8   0
 *	 8  u8[16] its exec id
 *	24  u64  0
 */
#include "base/id.h"

#define ENTRYPOINT_STATUS_SIZE 32
#define ENTRYPOINT_MEDIA_TYPE "application/vnd.cay.entry"
#define INIT_PATH_ENTER "/v1/enter" /* POST: an ExecRun */
#define INIT_PATH_ENTRY "/v1/entry" /* GET; 404: none was started */

enum entrypoint_state {
	ENTRYPOINT_NONE,
	ENTRYPOINT_RUNNING,
	ENTRYPOINT_ENDED,
	ENTRYPOINT_NUM_STATES
};

struct entrypoint_status {
	uint8_t state, signal, exit_code; /* those two: when it has ended */
	struct id exec;
};

void entrypoint_status_encode(const struct entrypoint_status *e,
			      uint8_t out[static ENTRYPOINT_STATUS_SIZE]);
/* -EPROTO for anything that entrypoint_status_encode() does not write of one that was started. */
[[nodiscard]] int entrypoint_status_decode(const uint8_t *in, size_t n,
					   struct entrypoint_status *ret);
#endif
