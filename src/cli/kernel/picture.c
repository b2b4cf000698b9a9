/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/picture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "text/base64.h"

#define NAMES_MAX 100000u
/* The protocol has at most 4096 characters of base64 in a sequence. */
#define PIECE ((size_t)3072)
#define PIXELS_MAX 10000u /* of a side: what kitty accepts */

static bool picture_env_is(const char *name, const char *value)
{
	const char *is = getenv(name);

	return is && is[0] && (!value || str_eq(is, value));
}

bool picture_is_drawn_here(void)
{
	static const char *const drawing[][2] = {
		{ "CAY_GRAPHICS", "kitty" },   { "KITTY_WINDOW_ID", NULL },
		{ "TERM", "xterm-kitty" },     { "TERM", "xterm-ghostty" },
		{ "TERM_PROGRAM", "kitty" },   { "TERM_PROGRAM", "ghostty" },
		{ "TERM_PROGRAM", "WezTerm" },
	};

	if (!isatty(STDOUT_FILENO) || picture_env_is("CAY_GRAPHICS", "none"))
		return false;
	/* tmux and screen do not pass the sequences on */
	if (!picture_env_is("CAY_GRAPHICS", NULL) &&
	    (picture_env_is("TMUX", NULL) || picture_env_is("STY", NULL)))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(drawing); i++)
		if (picture_env_is(drawing[i][0], drawing[i][1]))
			return true;
	return false;
}

/* The first free name from *next on, which is in path then. */
static int picture_open(int dirfd, const char *dir, const char *extension, unsigned *next,
			struct buf *path)
{
	for (*next = *next ? *next : 1; *next <= NAMES_MAX;) {
		unsigned i = (*next)++;
		size_t begin;
		int fd, r;

		buf_clear(path);
		r = str_eq(dir, ".") ? 0 : buf_printf(path, "%s/", dir);
		begin = path->len;
		if (r >= 0)
			r = buf_printf(path, "picture-%u.%s", i, extension);
		if (r < 0)
			return r;
		fd = openat(dirfd, path->data + begin,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	return -EEXIST;
}

int picture_open_dir(const char *dir, struct cay_err *err)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? cay_fail_sys(err, CAY_E_INVALID, errno, "open the directory '%s'", dir)
		      : fd;
}

int picture_save(const char *dir, const char *extension, struct slice bytes, unsigned *next,
		 struct buf *path, struct cay_err *err)
{
	auto_close int dirfd = picture_open_dir(dir, err);
	auto_close int fd = -EBADF;
	int r;

	if (dirfd < 0)
		return dirfd;
	fd = picture_open(dirfd, dir, extension, next, path);
	r = fd < 0 ? fd : fd_write_all(fd, bytes.p, bytes.n);
	if (r < 0 && fd >= 0) /* no half a picture */
		(void)unlink(buf_str(path));
	return r < 0 ? cay_fail_sys(err, CAY_E_INVALID, -r, "save a picture in '%s'", dir) : 0;
}

static unsigned picture_read_u32(const uint8_t *p)
{
	return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

/* A signature, and a first chunk with a size that terminals accept. */
static bool picture_may_be_drawn(struct slice png)
{
	static const uint8_t begins[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
					  0,    0,   0,   13,  'I',  'H',  'D',  'R' };
	const uint8_t *p = (const uint8_t *)png.p;

	if (png.n < sizeof(begins) + 8 || memcmp(p, begins, sizeof(begins)) != 0)
		return false;
	return picture_read_u32(p + 16) - 1 < PIXELS_MAX &&
	       picture_read_u32(p + 20) - 1 < PIXELS_MAX;
}

int picture_append_drawing(struct buf *out, struct slice png)
{
	int r = 0;

	if (!picture_may_be_drawn(png))
		return -EINVAL;
	for (size_t at = 0; r >= 0 && at < png.n; at += PIECE) {
		size_t n = png.n - at < PIECE ? png.n - at : PIECE;

		/* q=2: the terminal answers nothing */
		r = buf_printf(out, "\x1b_G%sq=2,m=%d;", at ? "" : "a=T,f=100,", at + n < png.n);
		if (r >= 0)
			r = buf_reserve(out, BASE64_TEXT(n));
		if (r < 0)
			break;
		base64_encode((const uint8_t *)png.p + at, n, out->data + out->len);
		out->len += BASE64_TEXT(n);
		r = buf_puts(out, "\x1b\\");
	}
	return r < 0 ? r : buf_putc(out, '\n');
}
