/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_HOST_NAME_H
#define CAY_EGRESS_HOST_NAME_H
/*
 * host-name - the name of a host outside, read once from text or from a DNS question
 *
 * Two or more labels of 1 to 63 letters, digits, '-' and '_', at most 253 bytes, in lower case.  A
 * label neither begins nor ends with '-', and the last one begins with a letter: "1.2.3.4" is an
 * address and no name.  There is no dot at the end, and other alphabets are in their "xn--" form.
 * Nothing is stripped or repaired: text that is not exactly a name is none.  What is judged, logged
 * and dialled is a struct host_name, so that no two readers of one text can disagree.
 */
#include "base/str.h"

#define HOST_NAME_MAX_LEN 253
#define HOST_LABEL_MAX 63
/* Below it are the sandboxes of a group, for each other: "NAME.group.cay.internal". */
#define HOST_GROUP_PARENT "group.cay.internal"

struct host_name {
	uint8_t n;
	char text[HOST_NAME_MAX_LEN + 1]; /* ends with NUL */
};

/* -EINVAL unless it is a name; upper case becomes lower case. */
[[nodiscard]] int host_name_parse(struct slice text, struct host_name *ret);
/* Of a question of DNS: labels with their lengths, ended by 0.  Returns how many bytes it takes,
 * -EINVAL if that is no name, -EBADMSG if the bytes end early or refer elsewhere. */
[[nodiscard]] ssize_t host_name_read_wire(const uint8_t *p, size_t n, struct host_name *ret);
bool host_name_eq(const struct host_name *name, struct slice text);
/* Whether it ends with '.' and parent, at any depth. */
bool host_name_is_below(const struct host_name *name, struct slice parent);
/* Whether it is that of a sandbox in a group; *ret_label is what precedes the parent. */
bool host_name_is_of_group(const struct host_name *name, struct slice *ret_label);
#endif
