/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_SERVICE_H
#define CAY_INIT_SERVICE_SERVICE_H
/*
 * service - a service in PID 1; struct service_info is its form in a reply
 *
 *	stopped -> starting -> running -> exited, or starting again
 *	              |  ^        `-> stopping -> stopped
 *	              v  |
 *	           backoff -> fatal
 *
 * Supervisord's states and rules.  A service is up when it has run for start_ms (0: when it
 * was executed); if it ends before, it is retried start_retries times with growing delays.  If
 * it ends later, autorestart decides, at once; repeated short runs get growing delays.
 * Stopping sends the signal and, after stop_ms, kills the whole cgroup.
 *
 * Each start is an internal exec (exec.h).  Both outputs of all starts go into one pipe that
 * lives as long as the service, so the offsets of its log never restart.
 */
#include "init/exec/exec.h"
#include "init/service/service-config.h"

#define SERVICE_LOG_MAX KIB(64) /* kept of each log, from the budget of all output */

struct service {
	struct init *init;
	struct service *next;
	struct service_config config;
	enum service_state state;
	struct exec *exec; /* while it has a process */
	int log_write_fd;  /* its processes write to this end */
	struct output log;
	uv_timer_t timer;     /* for the current state */
	unsigned handles;     /* not closed yet */
	bool restart_pending; /* start it when it is stopped */
	unsigned retries;     /* failed starts in a row */
	unsigned quick_exits; /* short runs in a row */
	uint64_t starts, changed_ns, started_ns, started_boot;
	struct end end;
	bool has_end;
	char signal_name[SIGNAL_TEXT_MAX], detail[END_DETAIL_MAX]; /* of end */
	char error[CAY_ERR_MSG_MAX];
	struct service_waiter *waiters;
};

/* Takes the configuration, also on failure; replaces that of a service with the same name. */
[[nodiscard]] int service_put(struct init *in, struct service_config *p, struct service **ret,
			      struct cay_err *err);
struct service *service_find(struct init *in, struct slice name);
[[nodiscard]] int service_start(struct service *s, struct cay_err *err);
void service_stop(struct service *s);
[[nodiscard]] int service_restart(struct service *s, struct cay_err *err);
/* It has no process and will not get one. */
bool service_is_idle(const struct service *s);
/* Only an idle one. */
void service_delete(struct service *s);
void service_describe(const struct service *s, struct service_info *ret);
void service_reply_info(const struct service *s, struct request *rq);
/* Reply once it is neither starting nor stopping, or with the error if err has one. */
void service_reply_when_settled(struct service *s, struct request *rq, const struct cay_err *err);
/* Start those with autostart, each when the one before is up or has failed; then call up. */
void services_start(struct init *in, void (*up)(void *arg), void *arg);
#endif
