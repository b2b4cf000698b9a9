/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_DAEMON_H
#define CAY_DAEMON_DAEMON_H
/*
 * daemon - common start-up of the daemons: options, cay.conf, the environment, the log
 *
 *	--config FILE   instead of /etc/cay/cay.conf, which may be absent
 *	--check         read it, report whether it is valid, and exit
 *	--version
 */
#include <sys/types.h>

#include "base/log.h"
#include "ops/settings.h"

#define DAEMON_CONFIG_PATH "/etc/cay/cay.conf"

/* 0: continue. 1: the option was handled; exit. -errno: see err. */
[[nodiscard]] int daemon_parse_options(int argc, char *const *argv, struct settings *ret,
				       struct cay_err *err);
/* Start-up of a daemon that is not root: signals, umask, settings (as above), failpoints, the log,
 * slices, fds, no core.  as: the user to run it as, for the message when it is root. */
[[nodiscard]] int daemon_start(int argc, char *const *argv, const char *as, struct settings *ret,
			       struct log *log, struct cay_err *err);
/* The value main() returns; the log has the reason. */
int daemon_exit_status(int r, struct log *log, const struct cay_err *err);
/* A user by name or number; what: the setting, for the message.  Never root. */
[[nodiscard]] int daemon_find_user(const char *what, const char *name, uid_t *ret_uid,
				   gid_t *ret_gid, struct cay_err *err);
/* A file named in the settings, read with the daemon's own permissions. */
[[nodiscard]] int daemon_read_file(const char *path, struct buf *ret);
/* A process that wakes on a busy CPU waits until the running slice ends, and the kernel's default
 * slice is as long as a whole short command.  Child processes inherit the setting: runtimes, PID 1s
 * and their commands.  Kernels before 6.12 accept it without effect (docs/adr/0045). */
void daemon_set_short_slices(void);
/* The daemon's memory holds secrets: write no core, and let no process of the same user read it. */
[[nodiscard]] int daemon_disable_core_dumps(struct cay_err *err);
/* Report that the daemon serves: in the log, and to systemd, which then starts dependent units. */
void daemon_notify_ready(struct log *log);
/* On SIGHUP: read the settings again and apply those that are `live`; an error changes nothing. */
void daemon_reload_settings(int argc, char *const *argv, struct settings *now, struct log *log);
/* Set level and format from the settings. */
void daemon_configure_log(const struct settings *s, struct log *log);
#endif
