/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_E2B_METADATA_H
#define CAY_E2B_METADATA_H
/*
 * metadata - E2B's metadata, which is free text, as labels of Cay, which are not
 *
 * A pair that is a label is that label.  Any other is spread over labels e2b-HASH-0, e2b-HASH-1 ...
 * whose values are its base64url, in pieces; HASH is of the pair, so that a list can be limited to
 * the sandboxes that have it.
 */
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

#define METADATA_PIECES_MAX 16

/* Add a pair to an object of labels. */
[[nodiscard]] int metadata_add_label(const char *key, const char *value, json_t *labels,
				     struct cay_err *err);
/* The metadata that labels have; NULL without memory. */
json_t *metadata_from_labels(const json_t *labels);
/* Add the pairs of a query, as the SDKs encode them, to a selector of labels. */
[[nodiscard]] int metadata_add_query(const char *query, struct buf *selector, struct cay_err *err);
#endif
