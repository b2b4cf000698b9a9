/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_NAME_MAP_H
#define CAY_EGRESS_NAME_MAP_H
/*
 * name-map - names that are connected to a mirror: the setting egress.map
 *
 * "pypi.example=mirror.example:8080 npm.example=mirror.example".  A policy judges the name on the
 * left, which the sandbox uses; resolved and dialled is the one on the right.  A mirror is not
 * looked up in the map again.  Pure.
 */
#include "base/err.h"
#include "egress/host-name.h"

#define NAME_MAP_MAX 64

struct name_mirror {
	struct host_name from, to;
	uint16_t port; /* 0: that of the connection */
};

struct name_map {
	struct name_mirror v[NAME_MAP_MAX];
	size_t n;
};

[[nodiscard]] int name_map_parse(const char *text, struct name_map *ret, struct cay_err *err);
/* NULL: it has no mirror. */
const struct name_mirror *name_map_find(const struct name_map *map, const struct host_name *name);
#endif
