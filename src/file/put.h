/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_PUT_H
#define CAY_FILE_PUT_H
/*
 * put - a file's new content, whole or not at all
 *
 *	put_begin() -> put_add() ... -> put_commit()
 *	                   `-> put_fini() alone: as if nothing had been
 *
 * What is written has no name until all of it is there and is what was promised; then one
 * rename makes it the file.  So a reader sees the old content or the new, of two writers
 * one is last, and who dies in the middle leaves nothing (temp.h).
 *
 * Mode and owner of a file that was there stay unless others are asked for, as far as this
 * user may; setuid and setgid go, as with any write.  A symbolic link is followed: the file
 * it leads to is replaced, not the link.
 *
 * Appending writes to the file that is there, one appender at a time, and what does not
 * become whole is cut off again.
 */
#include <stdint.h>

#include "file/at.h"
#include "file/hash.h"
#include "file/temp.h"

struct put_conf {
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

struct put {
	struct put_conf conf;
	struct file_at at;
	int fd, lock;
	struct temp temp;
	bool created, done;
	struct file_hash hash;
	unsigned char got[FILE_HASH_LEN]; /* after the commit: of what was added */
	uint64_t size;                    /* so far */
	uint64_t before;                  /* appending: what was there */
};

#define PUT_INIT \
	((struct put){ .at = FILE_AT_INIT, .fd = -EBADF, .lock = -EBADF, .temp = TEMP_INIT })
#define auto_put CAY_CLEANUP(put_fini) struct put

/* Nothing is changed yet, but with `parents`. */
[[nodiscard]] int put_begin(struct put *p, const struct put_conf *conf, struct cay_err *err);
[[nodiscard]] int put_add(struct put *p, const void *bytes, size_t n, struct cay_err *err);
[[nodiscard]] int put_commit(struct put *p, struct cay_err *err);
void put_fini(struct put *p);
#endif
