/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_HOST_DIRS_H
#define CAY_DAEMON_HOST_DIRS_H
/*
 * host-dirs - directories of the host that an operator lets sandboxes mount (docs/adr/0142)
 *
 * paths.host has a file NAME.conf for each, read strictly:
 *
 *	[directory]
 *	path = /srv/models
 *	mode = ro                  or rw
 *	tenants = all              or ids of tenants, with a space between them
 *	as = 0                     the id in a sandbox that the owner of the directory has
 *
 * cay-keeper decides by the files it read when it started; cayd reads the same ones to refuse a
 * request before anything is created for it.
 */
#include "base/err.h"
#include "base/id.h"
#include "wire/volume-path.h"

#define HOST_DIRS_MAX 64
#define HOST_DIR_TENANTS_MAX 16

enum host_dir_mode { HOST_DIR_RO, HOST_DIR_RW, HOST_DIR_MODE_NUM };

struct host_dir {
	char name[HOST_DIR_NAME_MAX + 1];
	char path[4096]; /* absolute, in one spelling, not the root */
	unsigned mode;   /* enum host_dir_mode */
	struct id tenants[HOST_DIR_TENANTS_MAX];
	unsigned n_tenants; /* 0: all */
	uint32_t as;
};

struct host_dirs {
	struct host_dir *rows; /* by name; free() */
	size_t n;
};

/* The files in dir, which must be root's alone to write, as must the directory.  None if there is
 * no such directory. */
[[nodiscard]] int host_dirs_read(const char *dir, struct host_dirs *ret, struct cay_err *err);
/* One file. */
[[nodiscard]] int host_dir_parse(struct slice text, const char *name, struct host_dir *ret,
				 struct cay_err *err);
/* NULL also for one that the tenant may not have. */
const struct host_dir *host_dirs_find(const struct host_dirs *all, const char *name,
				      const struct id *tenant);
#endif
