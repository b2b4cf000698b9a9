/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/info-child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/path.h"
#include "init/exec/pipes.h"
#include "init/proc/proc-query.h"

#define VERSIONS_MS 2000 /* for all of them */
#define VERSION_MAX 200
#define OS_RELEASE_MAX KIB(16)

static const struct {
	const char *name, *ask; /* the argument that prints the version */
} known_tools[] = {
	{ "sh", NULL },
	{ "bash", "--version" },
	{ "python3", "--version" },
	{ "pip", "--version" },
	{ "uv", "--version" },
	{ "node", "--version" },
	{ "npm", "--version" },
	{ "git", "--version" },
	{ "rg", "--version" },
	{ "gcc", "--version" },
	{ "make", "--version" },
	{ "go", "version" },
	{ "rustc", "--version" },
	{ "cargo", "--version" },
	{ "java", "-version" },
	{ "ruby", "--version" },
	{ "perl", "--version" },
	{ "php", "--version" },
	{ "R", "--version" },
	{ "curl", "--version" },
	{ "jq", "--version" },
	{ "tar", "--version" },
	{ "sqlite3", "--version" },
	{ "ffmpeg", "-version" },
	{ "chromium", "--version" },
};

struct tool_probe {
	char path[4096], version[VERSION_MAX + 1];
	size_t n;
	int fd;
};

/* Globals of a process of its own. */
static struct tool_probe found_tools[ARRAY_SIZE(known_tools)];
static struct tool tools[ARRAY_SIZE(known_tools)];

static bool tool_find_in_path(const char *name, char *path, size_t max)
{
	const char *var = getenv("PATH");
	struct slice rest = slice_of(var ? var : "");
	struct stat st;

	while (rest.p) {
		struct slice dir = slice_cut(&rest, ':');
		int n = snprintf(path, max, "%.*s/%s", (int)dir.n, dir.p, name);

		if (dir.n && n > 0 && (size_t)n < max && utf8_is_valid(path, (size_t)n) &&
		    stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* Not by fork(): libuv registers fork handlers, whose fds are closed here. */
static void tool_version_spawn(struct tool_probe *f, const char *name, const char *how)
{
	char *const argv[] = { (char *)(uintptr_t)name, (char *)(uintptr_t)how, NULL };
	posix_spawn_file_actions_t to;
	int fds[2], r;
	pid_t pid;

	f->fd = -EBADF;
	if (pipe_create(fds, 0) < 0)
		return;
	r = posix_spawn_file_actions_init(&to);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&to, fds[1], STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&to, fds[1], STDERR_FILENO);
	if (r == 0)
		r = posix_spawn(&pid, f->path, &to, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&to);
	(void)close(fds[1]);
	if (r == 0)
		f->fd = fds[0];
	else
		(void)close(fds[0]);
}

/* False at the end, or when there is enough. */
static bool tool_version_read(struct tool_probe *f)
{
	ssize_t n = read(f->fd, f->version + f->n, VERSION_MAX - f->n);

	if (n > 0)
		f->n += (size_t)n;
	return (n > 0 && f->n < VERSION_MAX && !memchr(f->version, '\n', f->n)) ||
	       (n < 0 && errno == EAGAIN);
}

/* False when a tool was late. */
static bool tool_versions_collect(void)
{
	uint64_t end = clk_boot_ns(&clk_system) + VERSIONS_MS * NS_PER_MS;

	for (;;) {
		struct pollfd polls[ARRAY_SIZE(known_tools)];
		uint64_t now = clk_boot_ns(&clk_system);
		bool any = false;

		for (size_t i = 0; i < ARRAY_SIZE(known_tools); i++) {
			polls[i] = (struct pollfd){ .fd = found_tools[i].fd, .events = POLLIN };
			any |= found_tools[i].fd >= 0;
		}
		if (!any)
			return true;
		if (now >= end ||
		    poll(polls, ARRAY_SIZE(known_tools), (int)((end - now) / NS_PER_MS) + 1) <= 0)
			return false; /* late tools are killed with this process */
		for (size_t i = 0; i < ARRAY_SIZE(known_tools); i++)
			if (polls[i].revents && !tool_version_read(&found_tools[i]))
				(void)close(cay_take_fd(&found_tools[i].fd));
	}
}

/* Its first line, if it is UTF-8. */
static const char *tool_version_first_line(struct tool_probe *f)
{
	char *end = memchr(f->version, '\n', f->n);
	size_t n = end ? (size_t)(end - f->version) : f->n;

	f->version[n] = 0;
	if (!n || strlen(f->version) != n || !utf8_is_valid(f->version, n))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)f->version[i] < 0x20)
			f->version[i] = ' ';
	return f->version;
}

static size_t tools_find(bool versions, bool *ret_all)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known_tools); i++) {
		found_tools[i].fd = -EBADF;
		if (!tool_find_in_path(known_tools[i].name, found_tools[i].path,
				       sizeof(found_tools[i].path)))
			found_tools[i].path[0] = 0;
		else if (versions && known_tools[i].ask)
			tool_version_spawn(&found_tools[i], known_tools[i].name,
					   known_tools[i].ask);
	}
	*ret_all = tool_versions_collect();
	for (size_t i = 0; i < ARRAY_SIZE(known_tools); i++)
		if (found_tools[i].path[0])
			tools[n++] = (struct tool){ known_tools[i].name, found_tools[i].path,
						    tool_version_first_line(&found_tools[i]) };
	return n;
}

/* A value of os-release as a shell reads it; NULL when it is not UTF-8. */
static const char *os_release_unquote(struct slice value)
{
	char quote = value.n && (value.p[0] == '"' || value.p[0] == '\'') ? value.p[0] : 0;
	char *out = malloc(value.n + 1);
	size_t n = 0;

	for (size_t i = quote != 0; out && i < value.n && value.p[i] != quote; i++) {
		if (value.p[i] == '\\' && quote != '\'' && i + 1 < value.n)
			i++;
		out[n++] = value.p[i];
	}
	if (!out)
		return NULL;
	out[n] = 0;
	if (n && n <= 255 && utf8_is_valid(out, n) && strlen(out) == n)
		return out;
	free(out);
	return NULL;
}

static void os_release_read(struct info *to)
{
	static const char *const files[] = { "/etc/os-release", "/usr/lib/os-release" };
	const struct {
		struct slice key;
		const char **to;
	} keys[] = { { SLICE("PRETTY_NAME"), &to->os },
		     { SLICE("ID"), &to->os_id },
		     { SLICE("VERSION_ID"), &to->os_version } };
	static char text[OS_RELEASE_MAX];
	struct slice rest = {};

	for (size_t i = 0; i < ARRAY_SIZE(files) && !rest.p; i++) {
		auto_close int fd = open(files[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

		if (n > 0)
			rest = (struct slice){ text, (size_t)n };
	}
	while (rest.p) {
		struct slice value = slice_cut(&rest, '\n'), key = slice_cut(&value, '=');

		for (size_t i = 0; value.p && i < ARRAY_SIZE(keys); i++)
			if (slice_eq(key, keys[i].key))
				*keys[i].to = os_release_unquote(value);
	}
}

static const char *info_text_or_default(const char *s, const char *otherwise)
{
	return s && s[0] && strlen(s) < 4096 && utf8_is_valid(s, strlen(s)) ? s : otherwise;
}

int child_sandbox_info(void *arg)
{
	const struct proc_query *q = arg;
	const struct info_query *query = q->rq->query;
	auto_buf kernel = BUF_INIT(256);
	struct utsname u;
	bool all;
	struct info reply = {
		.workspace = info_text_or_default(q->init->claim.cwd, "/"),
		.user = info_text_or_default(getenv("USER"), NULL),
		.home = info_text_or_default(getenv("HOME"), "/"),
		.uid = getuid(),
		.gid = getgid(),
	};

	if (uname(&u) < 0 || buf_printf(&kernel, "%s %s", u.sysname, u.release) < 0)
		return 1;
	reply.kernel = info_text_or_default(buf_str(&kernel), "Linux");
	reply.arch = info_text_or_default(u.machine, "unknown");
	reply.hostname = info_text_or_default(u.nodename, "");
	os_release_read(&reply);
	reply.tools = (struct field_list){ tools, tools_find(query->versions, &all) };
	if (proc_query_write_json(&info_table, &reply, INFO_JSON_MAX) != 0)
		return 1;
	return all ? 0 : PROC_QUERY_INCOMPLETE;
}
