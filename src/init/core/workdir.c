/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/workdir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void workdir_create(const char *path)
{
	char at[PATH_MAX];
	size_t n = path ? strlen(path) : 0;

	if (!n || n >= sizeof(at))
		return;
	memcpy(at, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (at[i] != '/' && at[i])
			continue;
		at[i] = 0;
		if (mkdir(at, 0755) < 0 && errno != EEXIST)
			return;
		if (i < n)
			at[i] = '/';
	}
}
