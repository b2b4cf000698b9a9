/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TAR_H
#define CAY_ARCHIVE_TAR_H
/* tar - read and write archives over callbacks; of files only tar_write_file() reads
 *
 *	reader: tar_read_entry() -> an entry -> tar_read_data() until 0 -> tar_read_entry() ... -> 0
 *	writer: tar_write_entry() -> tar_write_data() its size -> tar_write_entry() ... ->
 * tar_write_end()
 *
 * The input is untrusted.  Supported: ustar, pax (path, linkpath, size, mtime), GNU long names and
 * large sizes, v7.  Refused: malformed numbers, wrong checksums, sparse files, several volumes, a
 * global size or name, an end without its mark.  Names come out relative, without ".", ".." or
 * double slashes; others are refused, so callers need not check again.  Owners are not read.
 *
 * Bounded: a block, two names (PATH_MAX) and TAR_PAX_MAX of a pax header. */
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define TAR_BLOCK 512
#define TAR_CHUNK KIB(64)
#define TAR_NAME_MAX 4095
#define TAR_PAX_MAX KIB(64)
#define TAR_NOTE_MAX 255
#define TAR_ID_MAX 07777777
/* Most padding after the end: tar pads to 10 KiB, others to more. */
#define TAR_TAIL_MAX MIB(1)

enum tar_type {
	TAR_FILE,
	TAR_DIRECTORY,
	TAR_SYMLINK,
	TAR_HARDLINK,
	TAR_OTHER, /* a device, a FIFO, an unknown type: to be skipped */
	TAR_FIFO,  /* is only written */
};

struct tar_entry {
	enum tar_type type;
	const char *name;  /* "" is the directory itself; valid until the next call */
	const char *link;  /* of links: a symlink's text as it is, a hard link's name cleaned */
	unsigned mode;     /* 07777 */
	uint32_t uid, gid; /* are only written; at most TAR_ID_MAX */
	uint64_t size;     /* of the data of tar_read_data() */
	int64_t mtime;     /* seconds */
	const char *note;  /* to be written as a comment, which other tars pass over; or NULL */
};

/* Up to n bytes, 0 at the end, -errno. */
typedef ssize_t tar_read_fn(void *arg, void *p, size_t n, struct cay_err *err);
/* All n bytes, or -errno. */
typedef int tar_write_fn(void *arg, const void *p, size_t n, struct cay_err *err);

struct tar_reader {
	tar_read_fn *read;
	void *arg;
	uint64_t left; /* of this entry's data */
	unsigned pad;  /* after it */
	bool ended;
	struct buf name, link, pax;
	bool has_name, has_link, has_size, has_mtime;
	uint64_t size;
	int64_t mtime;
	char note[TAR_NOTE_MAX + 1]; /* the last comment of a pax header, "" when none */
};

struct tar_writer {
	tar_write_fn *write;
	void *arg;
	uint64_t left;
	unsigned pad;
	struct buf pax;
};

void tar_reader_init(struct tar_reader *t, tar_read_fn *read, void *arg);
void tar_reader_fini(struct tar_reader *t);
/* 1: an entry; 0: the end of the archive and of its stream.  Unread data is skipped. */
[[nodiscard]] int tar_read_entry(struct tar_reader *t, struct tar_entry *ret, struct cay_err *err);
[[nodiscard]] ssize_t tar_read_data(struct tar_reader *t, void *p, size_t n, struct cay_err *err);

void tar_writer_init(struct tar_writer *t, tar_write_fn *write, void *arg);
void tar_writer_fini(struct tar_writer *t);
/* Names are written as given; values that do not fit ustar go into a pax header. */
[[nodiscard]] int tar_write_entry(struct tar_writer *t, const struct tar_entry *e,
				  struct cay_err *err);
[[nodiscard]] int tar_write_data(struct tar_writer *t, const void *p, size_t n,
				 struct cay_err *err);
/* The data of an entry from a file that may change meanwhile: one that has less than the header
 * says is padded with zeros, and then *ret_changed is set. */
[[nodiscard]] int tar_write_file(struct tar_writer *t, int fd, char chunk[static TAR_CHUNK],
				 bool *ret_changed, struct cay_err *err);
[[nodiscard]] int tar_write_end(struct tar_writer *t, struct cay_err *err);

/* An untrusted name for a message: printable ASCII, at most TAR_QUOTED_MAX of it. */
#define TAR_QUOTED_MAX 96
const char *tar_quote_name(const char *name, char ret[static TAR_QUOTED_MAX + 1]);
#endif
