/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/host-name.h"

#include <errno.h>
#include <string.h>

static char host_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool host_label_is_valid(struct slice label)
{
	if (!label.n || label.n > HOST_LABEL_MAX || label.p[0] == '-' ||
	    label.p[label.n - 1] == '-')
		return false;
	for (size_t i = 0; i < label.n; i++) {
		char c = host_lower(label.p[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
			return false;
	}
	return true;
}

/* As every top-level name does; numbers are parts of addresses, in whatever base. */
static bool host_label_begins_with_letter(struct slice label)
{
	return host_lower(label.p[0]) >= 'a' && host_lower(label.p[0]) <= 'z';
}

int host_name_parse(struct slice text, struct host_name *ret)
{
	struct slice rest = text, label = {};
	unsigned labels = 0;

	if (!text.n || text.n > HOST_NAME_MAX_LEN)
		return -EINVAL;
	for (; rest.p; labels++) {
		label = slice_cut(&rest, '.');
		if (!host_label_is_valid(label))
			return -EINVAL;
	}
	if (labels < 2 || !host_label_begins_with_letter(label))
		return -EINVAL;
	for (size_t i = 0; i < text.n; i++)
		ret->text[i] = host_lower(text.p[i]);
	ret->text[text.n] = 0;
	ret->n = (uint8_t)text.n;
	return 0;
}

ssize_t host_name_read_wire(const uint8_t *p, size_t n, struct host_name *ret)
{
	char text[HOST_NAME_MAX_LEN];
	size_t at = 0, len = 0;
	bool fits = true;

	while (at < n && p[at]) {
		size_t label = p[at];

		if (label > HOST_LABEL_MAX || label >= n - at)
			return -EBADMSG;
		/* a dot inside a label would become one between labels */
		fits = fits && len + (len > 0) + label <= sizeof(text) &&
		       !memchr(p + at + 1, '.', label);
		if (fits && len)
			text[len++] = '.';
		if (fits) {
			memcpy(text + len, p + at + 1, label);
			len += label;
		}
		at += label + 1;
	}
	if (at >= n)
		return -EBADMSG;
	if (!fits || host_name_parse((struct slice){ text, len }, ret) < 0)
		return -EINVAL;
	return (ssize_t)at + 1;
}

bool host_name_eq(const struct host_name *name, struct slice text)
{
	return slice_eq((struct slice){ name->text, name->n }, text);
}

bool host_name_is_below(const struct host_name *name, struct slice parent)
{
	const char *end = name->text + name->n;

	return parent.n && name->n > parent.n + 1 && *(end - parent.n - 1) == '.' &&
	       memcmp(end - parent.n, parent.p, parent.n) == 0;
}

bool host_name_is_of_group(const struct host_name *name, struct slice *ret_label)
{
	const struct slice parent = SLICE(HOST_GROUP_PARENT);

	if (!host_name_is_below(name, parent))
		return false;
	*ret_label = (struct slice){ name->text, name->n - parent.n - 1 };
	return true;
}
