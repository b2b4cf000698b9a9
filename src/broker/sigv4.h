/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BROKER_SIGV4_H
#define CAY_BROKER_SIGV4_H
/*
 * sigv4 - requests signed by AWS Signature Version 4, for S3 and what speaks like it
 *
 * The value of such a credential is KEY_ID:SECRET, its scope REGION/SERVICE.  A program inside
 * signs with anything; its signature is dropped, and the request signed again.  Signed are Host,
 * Content-Type, Content-MD5 and every X-Amz-*, the path, the query, and the hash of the body that
 * the request names in X-Amz-Content-Sha256.  No I/O and no clock.
 */
#include "base/buf.h"
#include "http/http.h"
#include "wire/broker-message.h"

/* Whether a header of the request is dropped, because it is of the old signature. */
bool sigv4_drops_header(struct slice name);
/* Append X-Amz-Date, X-Amz-Content-Sha256 and Authorization.  CAY_E_INVALID for a request that
 * cannot be signed: its body has no hash or is signed in parts, or it is signed in its query. */
[[nodiscard]] int sigv4_headers_write(const struct http_head *h, const struct broker_record *to,
				      struct slice value, struct slice scope, uint64_t now_ns,
				      struct buf *ret, struct cay_err *err);
#endif
