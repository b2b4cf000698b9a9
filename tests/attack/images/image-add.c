/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image-add DIR TAR MAXBYTES - image_store_add() by hand, for tests
 * image-add DIR HEX          - image_store_remove()
 *
 * Prints one line: "added HEX BYTES" and then the config, or "refused CODE
 * MESSAGE".  The line before it says what the child took: "rss KIB".
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/path.h"
#include "base/str.h"
#include "keeper/image-store.h"
#include "unpack/digest.h"

static int print_added(const struct image_store_added *a)
{
	char hex[DIGEST_HEX_LEN + 1], config[KIB(64) + 1];
	struct digest d;
	ssize_t n = read(a->config_fd, config, sizeof(config));

	/* nobody changes it any more, whoever holds it */
	if (n < 0 || ftruncate(a->config_fd, 0) == 0 || errno != EPERM)
		return 1;
	memcpy(d.byte, a->digest, sizeof(d.byte));
	digest_format_hex(&d, hex);
	printf("added %s %" PRIu64 " %.*s\n", hex, a->bytes, (int)n, config);
	return 0;
}

static int remove_one(const char *images, const char *hex)
{
	auto_close int dir = open(images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cay_err err = {};
	struct digest d;

	if (dir < 0 || digest_parse_hex(hex, strlen(hex), &d) < 0)
		return 2;
	if (image_store_remove(dir, &(struct disk){}, d.byte, &err) >= 0)
		return 0;
	(void)fprintf(stderr, "%s\n", err.msg);
	return 1;
}

int main(int argc, char **argv)
{
	auto_close int dir = argc == 4 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	auto_close int tar = argc == 4 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	struct image_store_added added;
	struct cay_err err = {};
	struct rusage usage;
	uint64_t max;
	int r;

	if (argc == 3)
		return remove_one(argv[1], argv[2]);
	if (dir < 0 || tar < 0 || str_parse_u64(slice_of(argv[3]), 1, INT64_MAX, &max) < 0) {
		(void)fprintf(stderr, "usage: image-add DIR TAR MAXBYTES\n");
		return 2;
	}
	r = image_store_add(dir, tar, max, 0, &added, &err);
	(void)getrusage(RUSAGE_CHILDREN, &usage);
	printf("rss %ld\n", usage.ru_maxrss);
	if (r >= 0)
		return print_added(&added);
	printf("refused %s %s\n", cay_error_row(err.code)->name, err.msg);
	return 0;
}
