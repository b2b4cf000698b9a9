/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_DAEMON_H
#define CAY_DAEMON_DAEMON_H
/*
 * prog - what every daemon does first: options, cay.conf, the environment, the log
 *
 *	--config FILE   instead of /etc/cay/cay.conf, which may be absent
 *	--check         read it, say whether it is right, and end
 *	--version
 */
#include "base/log.h"
#include "ops/settings.h"

#define DAEMON_CONFIG_PATH "/etc/cay/cay.conf"

/* 0: go on.  1: the option was all there was to do.  -errno: err says why. */
[[nodiscard]] int daemon_parse_options(int argc, char *const *argv, struct settings *ret,
				       struct cay_err *err);
/* All that a daemon does first that is not root: signals, umask, settings (as above), failpoints,
 * the log, slices, fds, no core.  as: as whom it is to be started, for who started it as root. */
[[nodiscard]] int daemon_start(int argc, char *const *argv, const char *as, struct settings *ret,
			       struct log *log, struct cay_err *err);
/* What main() returns; the log says why. */
int daemon_exit_status(int r, struct log *log, const struct cay_err *err);
/* A file somebody named in the settings: read as whoever runs us may. */
[[nodiscard]] int daemon_read_file(const char *path, struct buf *ret);
/* cay.conf or PATH, then CAY_*; path NULL for the default, which may be absent. */
[[nodiscard]] int daemon_read_settings(const char *path, struct settings *ret, struct cay_err *err);
/* Whoever comes to a CPU that somebody burns waits until that one's slice is over, and the
 * kernel's preset is as long as all that a short command takes.  Inherited by what is started:
 * runtimes, PID 1s and what they run.  Kernels before 6.12 take it and do nothing
 * (docs/adr/0045). */
void daemon_set_short_slices(void);
/* As many fds as we may have. */
void daemon_raise_fd_limit(void);
/* What a daemon knows is in its memory: no core of it is written, and nobody of its own
 * user reads it. */
[[nodiscard]] int daemon_disable_core_dumps(struct cay_err *err);
/* Say that the daemon serves: in the log, and to who started it (systemd's
 * NOTIFY_SOCKET), which starts what needs it only then. */
void daemon_notify_ready(struct log *log);
/* On SIGHUP: read again and apply what is `live`; a mistake changes nothing. */
void daemon_reload_settings(int argc, char *const *argv, struct settings *now, struct log *log);
/* Level and format as the settings say. */
void daemon_configure_log(const struct settings *s, struct log *log);
#endif
