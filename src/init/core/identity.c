/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/identity.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "text/hex.h"

#define ID_BYTES 16
#define ID_TEXT (2 * ID_BYTES + 1) /* with its newline */

/* The second is a link to the first, or a copy of it. */
static const struct {
	const char *dir, *name;
} machine_id_files[] = {
	{ "etc", "machine-id" },
	{ "var/lib/dbus", "machine-id" },
};

/* As a random UUID, which is what systemd writes. */
static int identity_generate(char ret[static ID_TEXT + 1])
{
	uint8_t id[ID_BYTES];

	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	id[6] = (id[6] & 0x0f) | 0x40;
	id[8] = (id[8] & 0x3f) | 0x80;
	hex_encode(id, sizeof(id), ret);
	ret[ID_TEXT - 1] = '\n';
	ret[ID_TEXT] = 0;
	return 0;
}

/* Instead of whatever has the name, unless that is a directory. */
static void identity_write(int dir, const char *name, mode_t mode, const char *text)
{
	auto_close int fd = -EBADF;

	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return;
	fd = path_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd >= 0 && fd_write_all(fd, text, ID_TEXT) >= 0)
		(void)fchmod(fd, mode);
}

void identity_write_generation(void)
{
	auto_close int root = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[ID_TEXT + 1];

	if (root >= 0 && identity_generate(text) >= 0)
		identity_write(root, "cay-generation", 0444, text);
}

static bool machine_id_is_one(struct slice text)
{
	if (text.n == ID_TEXT && text.p[ID_TEXT - 1] == '\n')
		text.n--;
	for (size_t i = 0; i < text.n; i++)
		if (!isxdigit((unsigned char)text.p[i]))
			return false;
	return text.n == ID_TEXT - 1;
}

static void machine_id_replace(int root, size_t which, const char *text)
{
	const char *name = machine_id_files[which].name;
	auto_close int dir =
		path_open(root, machine_id_files[which].dir, O_RDONLY | O_DIRECTORY, 0);
	auto_buf before = BUF_INIT(ID_TEXT);
	struct stat st;

	if (dir < 0 || path_read(dir, name, &before) < 0 ||
	    !machine_id_is_one((struct slice){ buf_str(&before), before.len }) ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	identity_write(dir, name, st.st_mode & 0777, text);
}

void identity_renew_machine_id(void)
{
	auto_close int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[ID_TEXT + 1];

	if (root < 0 || identity_generate(text) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(machine_id_files); i++)
		machine_id_replace(root, i, text);
}
