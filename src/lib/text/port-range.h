/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_PORT_RANGE_H
#define CAY_TEXT_PORT_RANGE_H
/* port-range - "443" or "8000-8010", ports from 1 to 65535 */
#include "base/str.h"

/* -EINVAL unless the text is one port or a range that does not go down. */
[[nodiscard]] int port_range_parse(struct slice text, uint16_t *ret_from, uint16_t *ret_to);
bool port_range_is_valid(struct slice text);
#endif
