/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzzer over the files of its corpus; exit 1 when there is none. */
#include <dirent.h>
#include <fcntl.h>

#include "base/path.h"
#include "fuzz.h"

int main(int argc, char **argv)
{
	int dirfd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *dir = dirfd >= 0 ? fdopendir(dirfd) : NULL;
	unsigned n = 0;
	const struct dirent *e;

	if (!dir) {
		(void)fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	while ((e = readdir(dir))) {
		auto_buf b = BUF_INIT(MIB(4));

		if (e->d_type != DT_REG)
			continue;
		if (path_read(dirfd, e->d_name, &b) < 0)
			return 1;
		(void)LLVMFuzzerTestOneInput((const uint8_t *)buf_str(&b), b.len);
		printf("ok %u - %s\n", ++n, e->d_name);
	}
	printf("1..%u\n", n);
	(void)closedir(dir);
	return n ? 0 : 1;
}
