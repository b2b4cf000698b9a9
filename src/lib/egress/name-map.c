/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/name-map.h"

static int name_mirror_parse(struct slice word, struct name_mirror *ret)
{
	struct slice right = word, from = slice_cut(&right, '=');
	struct slice port = right, to = slice_cut(&port, ':');
	uint64_t number = 0;

	*ret = (struct name_mirror){};
	if (!right.p || host_name_parse(from, &ret->from) < 0 || host_name_parse(to, &ret->to) < 0)
		return -EINVAL;
	if (port.p && str_parse_u64(port, 1, UINT16_MAX, &number) < 0)
		return -EINVAL;
	ret->port = (uint16_t)number;
	return 0;
}

int name_map_parse(const char *text, struct name_map *ret, struct cay_err *err)
{
	struct slice left = slice_of(text);

	ret->n = 0;
	while (left.n) {
		struct slice word = slice_cut(&left, ' ');
		struct name_mirror m;

		if (!word.n)
			continue;
		if (name_mirror_parse(word, &m) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"egress.map: '%.*s' is not NAME=NAME or NAME=NAME:PORT",
					(int)word.n, word.p);
		if (name_map_find(ret, &m.from))
			return cay_fail(err, CAY_E_INVALID, "egress.map has '%s' twice",
					m.from.text);
		if (ret->n == NAME_MAP_MAX)
			return cay_fail(err, CAY_E_INVALID, "egress.map has more than %d names",
					NAME_MAP_MAX);
		ret->v[ret->n++] = m;
	}
	return 0;
}

const struct name_mirror *name_map_find(const struct name_map *map, const struct host_name *name)
{
	for (size_t i = 0; i < map->n; i++)
		if (host_name_eq(&map->v[i].from, (struct slice){ name->text, name->n }))
			return &map->v[i];
	return NULL;
}
