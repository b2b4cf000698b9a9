/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include <fcntl.h>
#include <malloc.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/failpoint.h"

#define SLICE_NS (UINT64_C(500) * 1000)

int daemon_read_file(const char *path, struct buf *ret)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do {
		if (buf_reserve(ret, KIB(4)) < 0)
			return -EFBIG;
		n = read(fd, ret->data + ret->len, KIB(4));
		if (n < 0)
			return -errno;
		ret->len += (size_t)n;
	} while (n);
	return 0;
}

/* cay.conf or PATH, then CAY_*; path NULL for the default, which may be absent. */
static int daemon_read_settings(const char *path, struct settings *ret, struct cay_err *err)
{
	const char *name = path ? path : DAEMON_CONFIG_PATH;
	auto_buf text = BUF_INIT(MIB(1));
	int r = daemon_read_file(name, &text);

	conf_set_defaults(&settings_table, ret);
	if (r < 0 && (path || r != -ENOENT))
		return cay_fail_sys(err, CAY_E_INVALID, -r, "read %s", name);
	r = conf_parse(&settings_table, (struct slice){ buf_str(&text), text.len }, name, ret, err);
	return r < 0 ? r : conf_apply_env(&settings_table, (const char *const *)environ, ret, err);
}

int daemon_parse_options(int argc, char *const *argv, struct settings *ret, struct cay_err *err)
{
	const char *config = NULL;
	bool check = false;
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--config") && i + 1 < argc) {
			config = argv[++i];
		} else if (str_eq(argv[i], "--check")) {
			check = true;
		} else if (str_eq(argv[i], "--version")) {
			(void)puts("cay " CAY_VERSION);
			return 1;
		} else {
			return cay_fail(err, CAY_E_INVALID,
					"'%s' is none of --config FILE, --check, --version",
					argv[i]);
		}
	}
	r = daemon_read_settings(config, ret, err);
	if (r >= 0 && check)
		r = settings_check(ret, err);
	return r < 0 ? r : check;
}

static void daemon_raise_fd_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
}

void daemon_set_short_slices(void)
{
	struct sched_attr attr = { .size = sizeof(attr) };

	if (sched_getattr(0, &attr, sizeof(attr), 0) < 0 || attr.sched_policy != SCHED_OTHER)
		return;
	attr.size = sizeof(attr);
	attr.sched_runtime = SLICE_NS;
	(void)sched_setattr(0, &attr, 0);
}

int daemon_disable_core_dumps(struct cay_err *err)
{
	const struct rlimit none = {};

	/* the limit does not apply where cores are piped to a program; the flag always does */
	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "forbid core dumps");
	return 0;
}

/* Large buffers go back to the kernel when they are freed; threads share two heaps. */
static void daemon_bound_allocator(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, KIB(128));
	(void)mallopt(M_TRIM_THRESHOLD, KIB(512));
	(void)mallopt(M_ARENA_MAX, 2);
}

int daemon_start(int argc, char *const *argv, const char *as, struct settings *ret, struct log *log,
		 struct cay_err *err)
{
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(077);
	r = daemon_parse_options(argc, argv, ret, err);
	if (r != 0)
		return r;
	r = failpoint_arm(getenv("CAY_FAULT"), err);
	if (r < 0)
		return r;
	if (geteuid() == 0)
		return cay_fail(err, CAY_E_FORBIDDEN, "%s must not be root: start it as %s",
				log->prog, as);
	daemon_configure_log(ret, log);
	daemon_bound_allocator();
	daemon_set_short_slices();
	daemon_raise_fd_limit();
	return daemon_disable_core_dumps(err);
}

int daemon_find_user(const char *what, const char *name, uid_t *ret_uid, gid_t *ret_gid,
		     struct cay_err *err)
{
	uint64_t uid;
	const struct passwd *pw;

	if (str_parse_u64(slice_of(name), 1, UINT32_MAX - 1, &uid) == 0) {
		*ret_uid = (uid_t)uid;
		*ret_gid = (gid_t)uid;
		return 0;
	}
	pw = getpwnam(name); /* NOLINT(concurrency-mt-unsafe): no threads */
	if (!pw)
		return cay_fail(err, CAY_E_INVALID, "%s: no such user '%s'", what, name);
	if (!pw->pw_uid)
		return cay_fail(err, CAY_E_INVALID, "%s: it must not be root", what);
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return 0;
}

int daemon_exit_status(int r, struct log *log, const struct cay_err *err)
{
	if (r >= 0)
		return 0;
	log_error(log, "%s", err->msg);
	return cay_error_row(err->code)->exit;
}

void daemon_notify_ready(struct log *log)
{
	static const char word[] = "READY=1";
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	auto_close int fd = -EBADF;

	log_info(log, "ready");
	if (!n || n >= sizeof(at.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(at.sun_path, path, n);
	if (path[0] == '@')
		at.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, word, sizeof(word) - 1, MSG_NOSIGNAL, (const struct sockaddr *)&at,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		log_warn(log, "NOTIFY_SOCKET: %s", strerror(errno));
}

void daemon_reload_settings(int argc, char *const *argv, struct settings *now, struct log *log)
{
	struct settings again = {};
	struct cay_err err = {};

	if (daemon_parse_options(argc, argv, &again, &err) != 0) {
		log_error(log, "SIGHUP: settings unchanged: %s", err.msg);
		return;
	}
	settings_apply_live(now, &again);
	log->level = (enum log_level)now->log_level;
	log_info(log, "settings read again");
}

void daemon_configure_log(const struct settings *s, struct log *log)
{
	log->level = (enum log_level)s->log_level;
	if (s->log_format != LOG_FORMAT_AUTO)
		log->form = s->log_format == LOG_FORMAT_TEXT ? LOG_TEXT : LOG_JSON;
}
