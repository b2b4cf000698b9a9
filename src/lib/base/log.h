/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_LOG_H
#define CAY_BASE_LOG_H
/* log - one line per event, written by programs, never by libraries
 *
 * On a terminal:   01:50:43 warning cayd sb…: remove cgroup failed, ignoring: …
 * Anywhere else, one JSON object a line with these keys and no others:
 *	ts level prog op id request msg
 * (op, id, request only when the context in force has them).  Levels are
 * syslog's.  Never log secrets, tokens or request bodies.  A full or closed pipe
 * costs lines (counted), never the daemon: programs ignore SIGPIPE, and give the
 * loop's log an fd that does not block.
 */
#include "base/clock.h"

enum log_level { LOG_L_ERROR, LOG_L_WARNING, LOG_L_INFO, LOG_L_DEBUG, LOG_NUM_LEVELS };
enum log_form { LOG_TEXT, LOG_JSON };

/* The last errors and warnings, for `cay status`. */
#define LOG_RECENT 16
#define LOG_RECENT_MSG 256
struct log_recent {
	struct log_recent_row {
		uint64_t wall_ns;
		enum log_level level;
		char msg[LOG_RECENT_MSG]; /* printable, cut if it is longer */
	} rows[LOG_RECENT];
	uint64_t n; /* of all that were logged; the newest is rows[(n - 1) % LOG_RECENT] */
};

struct log {
	int fd;
	enum log_level level; /* less important lines are not written */
	enum log_form form;
	const char *prog;
	const struct clk *clk;
	/* The current operation, object and request; NULL: none. */
	const char *op, *id, *request;
	struct log_recent *recent; /* or NULL */
	uint64_t lost;             /* lines that could not be written */
	bool torn;                 /* the last one was cut off in the middle */
};

/* Text when fd is a terminal, JSON otherwise. */
struct log log_create(int fd, const char *prog, const struct clk *clk);
__attribute__((format(printf, 3, 4))) void log_line(struct log *l, enum log_level level,
						    const char *fmt, ...);
/* Ended by NULL, as the choices of settings are. */
extern const char *const log_level_names[LOG_NUM_LEVELS + 1];

#define log_error(l, ...) log_line(l, LOG_L_ERROR, __VA_ARGS__)
#define log_warn(l, ...) log_line(l, LOG_L_WARNING, __VA_ARGS__)
#define log_info(l, ...) log_line(l, LOG_L_INFO, __VA_ARGS__)
#define log_debug(l, ...) log_line(l, LOG_L_DEBUG, __VA_ARGS__)
#endif
