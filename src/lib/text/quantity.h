/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_QUANTITY_H
#define CAY_TEXT_QUANTITY_H
/* quantity - Kubernetes quantities: "512Mi", "1.5Gi", "500m", "2".  Grammar and suffixes are those
 * of Kubernetes' resource.Quantity without exponents ("1e3") and signs.  The value must be a whole
 * number of the requested unit: half a byte is refused, not rounded. */
#include "base/str.h"

/* -EINVAL for bad text, -ERANGE when it does not fit or is not whole. */
[[nodiscard]] int quantity_parse_bytes(struct slice s, uint64_t *ret);
/* Thousandths: "500m" is 500, "2" is 2000. */
[[nodiscard]] int quantity_parse_milli(struct slice s, uint64_t *ret);

#define QUANTITY_TEXT_MAX 24
/* The largest binary suffix that is exact: 536870912 is "512Mi". */
void quantity_format(uint64_t bytes, char ret[static QUANTITY_TEXT_MAX]);
#endif
