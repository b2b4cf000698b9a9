/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/image-scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "init/service/service-config.h"

#define NAMES_MAX 512
#define NAME_MAX_LEN 80

static const struct {
	const char *path;
	bool scripts;
} image_scan_dirs[] = {
	{ "/etc/cay/init.d", true },
	{ "/docker-entrypoint.d", true },
	{ "/etc/cay/services.d", false },
	{ "/etc/supervisor/conf.d", false },
};

bool image_scan_is_needed(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(image_scan_dirs); i++)
		if (access(image_scan_dirs[i].path, F_OK) == 0)
			return true;
	return false;
}

/* In the child */

struct image_scan {
	unsigned scripts, files;
	size_t bytes;
	int status;
};

static bool file_name_has_suffix(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && str_eq(name + n - m, end);
}

/* Skip what editors and package managers leave. */
static bool image_scan_name_is_wanted(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > NAME_MAX_LEN || name[0] == '.' || file_name_has_suffix(name, "~"))
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] <= 0x20 || name[i] >= 0x7f)
			return false;
	return true;
}

static int image_scan_compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t image_scan_list_dir(const char *path, char *names[static NAMES_MAX])
{
	DIR *d = opendir(path);
	size_t n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; n < NAMES_MAX && (e = readdir(d));)
		if (image_scan_name_is_wanted(e->d_name) && (names[n] = strdup(e->d_name)))
			n++;
	(void)closedir(d);
	qsort(names, n, sizeof(*names), image_scan_compare_names);
	return n;
}

static void image_scan_write_record(struct image_scan *g, enum image_scan_kind kind,
				    const char *path, struct slice content)
{
	if (dprintf(STDOUT_FILENO, "%c %zu %s\n", (int)kind, content.n, path) < 0 ||
	    fd_write_all(STDOUT_FILENO, content.p, content.n) < 0)
		g->status = 1;
}

static void image_scan_add_script(struct image_scan *g, const char *path, const char *name,
				  mode_t mode)
{
	bool runs = mode & 0111;

	if (!runs && !file_name_has_suffix(name, ".sh"))
		return;
	if (++g->scripts > SCAN_SCRIPTS_MAX)
		image_scan_write_record(g, SCAN_MANY, path, (struct slice){});
	else
		image_scan_write_record(g, runs ? SCAN_RUN : SCAN_SOURCE, path, (struct slice){});
}

static void image_scan_add_service_file(struct image_scan *g, const char *path)
{
	auto_buf text = BUF_INIT(SERVICE_CONFIG_FILE_MAX);
	auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd < 0 || buf_reserve(&text, SERVICE_CONFIG_FILE_MAX) < 0
			    ? -1
			    : read(fd, text.data, SERVICE_CONFIG_FILE_MAX);
	char more;

	if (n < 0 || read(fd, &more, 1) != 0 || ++g->files > SCAN_FILES_MAX ||
	    g->bytes + (size_t)n > SCAN_BYTES_MAX) {
		image_scan_write_record(g, SCAN_LEFT, path, (struct slice){});
		return;
	}
	g->bytes += (size_t)n;
	image_scan_write_record(g, SCAN_FILE, path, (struct slice){ text.data, (size_t)n });
}

int child_image_scan(void *)
{
	static char *names[NAMES_MAX]; /* static: the process is its own */
	struct image_scan g = {};

	for (size_t i = 0; i < ARRAY_SIZE(image_scan_dirs); i++) {
		size_t n = image_scan_list_dir(image_scan_dirs[i].path, names);

		for (size_t k = 0; k < n; k++) {
			char path[SCAN_PATH_MAX + 1];
			struct stat st;

			if (snprintf(path, sizeof(path), "%s/%s", image_scan_dirs[i].path,
				     names[k]) >= (int)sizeof(path) ||
			    stat(path, &st) < 0 || !S_ISREG(st.st_mode))
				continue;
			if (image_scan_dirs[i].scripts)
				image_scan_add_script(&g, path, names[k], st.st_mode);
			else if (file_name_has_suffix(names[k], ".conf"))
				image_scan_add_service_file(&g, path);
		}
	}
	return g.status;
}

/* In PID 1 */

int image_scan_next_item(struct slice *rest, struct image_scan_item *ret)
{
	struct image_scan_item item = {};
	struct slice line, kind;
	uint64_t length;

	if (!rest->n)
		return 0;
	line = slice_cut(rest, '\n');
	kind = slice_cut(&line, ' ');
	if (!rest->p || kind.n != 1 || !kind.p[0] || !strchr("rsfxm", kind.p[0]) ||
	    str_parse_u64(slice_cut(&line, ' '), 0, SCAN_BYTES_MAX, &length) < 0 ||
	    length > rest->n)
		return -EPROTO;
	if (!line.n || line.n > SCAN_PATH_MAX || line.p[0] != '/' ||
	    strnlen(line.p, line.n) != line.n)
		return -EPROTO;
	item.kind = (enum image_scan_kind)kind.p[0];
	memcpy(item.path, line.p, line.n);
	item.content = (struct slice){ rest->p, (size_t)length };
	rest->p += length;
	rest->n -= (size_t)length;
	*ret = item;
	return 1;
}
