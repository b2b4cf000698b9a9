/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_ATOMIC_WRITE_H
#define CAY_FILE_ATOMIC_WRITE_H
/*
 * put - a file's new content, whole or not at all
 *
 *	atomic_write_begin() -> atomic_write_add() ... -> atomic_write_commit()
 *	                   `-> atomic_write_fini() alone: as if nothing had been
 *
 * What is written has no name until all of it is there and is what was promised; then one
 * rename makes it the file.  So a reader sees the old content or the new, of two writers
 * one is last, and who dies in the middle leaves nothing (tmpfile.h).
 *
 * Mode and owner of a file that was there stay unless others are asked for, as far as this
 * user may; setuid and setgid go, as with any write.  A symbolic link is followed: the file
 * it leads to is replaced, not the link.
 *
 * Appending writes to the file that is there, one appender at a time, and what does not
 * become whole is cut off again.
 */
#include <stdint.h>

#include "file/hash.h"
#include "file/path-at.h"
#include "file/tmpfile.h"

struct atomic_write_conf {
	const char *path;
	bool parents;     /* make directories that are missing */
	bool create_only; /* there must be none */
	bool append;
	bool has_mode, has_size;
	mode_t mode;
	uid_t uid; /* (uid_t)-1: as it comes */
	gid_t gid;
	uint64_t size;
	const unsigned char *old_hash; /* what the file must have now, or NULL */
	const unsigned char *new_hash; /* what must have come, or NULL */
};

struct atomic_write {
	struct atomic_write_conf conf;
	struct path_at at;
	int fd, lock;
	struct tmpfile tmpfile;
	bool created, committed;
	struct file_hash hash;
	unsigned char written_hash[FILE_HASH_LEN]; /* after the commit: of what was added */
	uint64_t size;                             /* so far */
	uint64_t old_size;                         /* appending: what was there */
};

#define ATOMIC_WRITE_INIT \
	((struct atomic_write){ \
		.at = PATH_AT_INIT, .fd = -EBADF, .lock = -EBADF, .tmpfile = TMPFILE_INIT })
#define auto_atomic_write CAY_CLEANUP(atomic_write_fini) struct atomic_write

/* Nothing is changed yet, but with `parents`. */
[[nodiscard]] int atomic_write_begin(struct atomic_write *p, const struct atomic_write_conf *conf,
				     struct cay_err *err);
[[nodiscard]] int atomic_write_add(struct atomic_write *p, const void *bytes, size_t n,
				   struct cay_err *err);
[[nodiscard]] int atomic_write_commit(struct atomic_write *p, struct cay_err *err);
void atomic_write_fini(struct atomic_write *p);
#endif
