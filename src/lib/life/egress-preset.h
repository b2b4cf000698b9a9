/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_EGRESS_PRESET_H
#define CAY_LIFE_EGRESS_PRESET_H
/*
 * egress-preset - the file of a preset
 *
 *	# Public git hosts
 *	allow git.example.com 22,443
 *	allow *.git.example.com
 *	allow api.example.com methods=GET,HEAD paths=/v1/status
 *
 * A line is empty, a comment, or "allow TARGET [PORTS] [methods=...] [paths=...] [credential=NAME]
 * [inspect]" in this order; lists are separated by commas, and ports are 443 without them. Anything
 * else is an error that names the line.  Pure.
 */
#include "egress/policy.h"

#define EGRESS_PRESET_RULES_MAX 256
#define EGRESS_PRESET_FILE_MAX KIB(64)

/* help is the first comment, in text, or empty. */
[[nodiscard]] int egress_preset_read(struct slice text, struct egress_rule *rules, size_t max,
				     size_t *ret_n, struct slice *ret_help, struct cay_err *err);
#endif
