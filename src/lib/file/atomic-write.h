/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_ATOMIC_WRITE_H
#define CAY_FILE_ATOMIC_WRITE_H
/* atomic-write - replace a file's content completely or not at all
 *
 *	atomic_write_begin() -> atomic_write_add() ... -> atomic_write_commit()
 *	                   `-> atomic_write_fini() alone: no change
 *
 * The new content has no name until it is complete and verified; then one rename makes it the file.
 * So a reader sees the old content or the new, the last of two writers wins, and a killed process
 * leaves nothing (tmpfile.h).
 *
 * Mode and owner of an existing file stay unless others are requested, as far as this user is
 * permitted; setuid and setgid are cleared, as with any write.  A symbolic link is followed: the
 * file it leads to is replaced, not the link.
 *
 * Appending writes to the existing file, one appender at a time, and an incomplete append is cut
 * off again. */
#include <stdint.h>

#include "file/hash.h"
#include "file/path-at.h"
#include "file/tmpfile.h"

struct atomic_write_conf {
	const char *path;
	bool parents;     /* create missing directories */
	bool create_only; /* there must be none */
	bool append;
	bool has_mode, has_size;
	mode_t mode;
	uid_t uid; /* (uid_t)-1: as it comes */
	gid_t gid;
	uint64_t size;
	const unsigned char *old_hash; /* required current hash, or NULL */
	const unsigned char *new_hash; /* required hash of the new content, or NULL */
};

struct atomic_write {
	struct atomic_write_conf conf;
	struct path_at at;
	int fd, lock;
	struct tmpfile tmpfile;
	bool created, committed;
	struct file_hash hash;
	unsigned char written_hash[FILE_HASH_LEN]; /* after the commit: of the added bytes */
	uint64_t size;                             /* so far */
	uint64_t old_size;                         /* appending: previous size */
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
