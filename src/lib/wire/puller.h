/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_PULLER_H
#define CAY_WIRE_PULLER_H
/* puller - what cayd asks of cay-pull, and what cay-pull replies
 *
 * A SEQPACKET connection is one pull; closing it ends the pull.  cayd sends one request with one
 * fd, a memfd with the authfile.  cay-pull sends any number of PROGRESS and then one of DONE, with
 * one fd, the archive, or FAILED.  Both are structs of fixed size, of this machine's byte order.
 *
 * Neither side trusts the other.  A reply has no text of a registry: a failure is a row of
 * puller_failures[]. */
#include "base/err.h"
#include "text/reference.h"

#define PULLER_DIR "pull" /* in paths.run and in paths.state */
#define PULLER_SOCKET PULLER_DIR "/pull.sock"
#define PULLER_MAGIC 0x316c6c7570796163u /* "caypull1" */
#define PULLER_FILE_MAX ((uint64_t)1 << 41)

struct puller_request {
	uint64_t magic;
	uint64_t file_max; /* bytes of the archive, at least 1 */
	uint32_t insecure; /* 0 or 1: without TLS, or without checking the certificate */
	uint32_t zero;
	char reference[REFERENCE_MAX + 1]; /* 0-padded */
};

enum puller_kind { PULLER_PROGRESS = 1, PULLER_DONE, PULLER_FAILED };

enum puller_failure {
	PULLER_OK,
	PULLER_TOO_LARGE,
	PULLER_DISK_FULL,
	PULLER_CREDENTIALS,
	PULLER_DENIED,
	PULLER_UNKNOWN,
	PULLER_PLATFORM,
	PULLER_MANIFEST,
	PULLER_UNREACHABLE,
	PULLER_BROKEN,
	PULLER_FAILURES
};

struct puller_reply {
	uint64_t magic;
	uint32_t kind;    /* enum puller_kind */
	uint32_t failure; /* enum puller_failure; of FAILED, else 0 */
	uint64_t bytes;   /* so far */
	uint64_t total;   /* of all layers; 0: not known yet, it still asks */
};

/* The words of a failure. */
struct puller_failure_row {
	enum cay_code code;
	const char *text;
};
extern const struct puller_failure_row puller_failures[PULLER_FAILURES];

/* n bytes and n_fds fds that came: -EINVAL unless they are one valid message. */
[[nodiscard]] int puller_request_check(const struct puller_request *q, size_t n, unsigned n_fds,
				       struct reference *ret);
[[nodiscard]] int puller_reply_check(const struct puller_reply *a, size_t n, unsigned n_fds);
#endif
