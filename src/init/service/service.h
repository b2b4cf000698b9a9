/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_SERVICE_H
#define CAY_INIT_SERVICE_SERVICE_H
/*
 * svc - a service as PID 1 keeps it; struct service_info is what is told of it
 *
 *	stopped -> starting -> running -> exited, or starting again
 *	              |  ^        `-> stopping -> stopped
 *	              v  |
 *	           backoff -> fatal
 *
 * Supervisord's states and rules: started is who stayed up for start_ms (0: who was
 * executed); who ends before is tried again start_retries times, later each time.
 * Who ends later is started again at once, by autorestart; if that goes on and on,
 * later each time too.  Stopping is the signal, stop_ms, then the whole cgroup.
 *
 * Each start is a job of PID 1's own (exec.h).  Both outputs of all of them go into one
 * pipe that lives as long as the service, so its log has one count of bytes.
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
	int log_write_fd;  /* the end its processes write to */
	struct output log;
	uv_timer_t timer;     /* what the state waits for */
	unsigned handles;     /* not closed yet */
	bool restart_pending; /* start it when it is stopped */
	unsigned retries;     /* starts that failed, in a row */
	unsigned quick_exits; /* runs that were short, in a row */
	uint64_t starts, changed_ns, started_ns, started_boot;
	struct end end;
	bool has_end;
	char signal_name[16], detail[128]; /* of end */
	char error[CAY_ERR_MSG_MAX];
	struct service_waiter *waiters;
};

/* Takes the program, also on failure; one of that name becomes another. */
[[nodiscard]] int service_put(struct init *in, struct service_config *p, struct service **ret,
			      struct cay_err *err);
struct service *service_find(struct init *in, struct slice name);
[[nodiscard]] int service_start(struct service *s, struct cay_err *err);
void service_stop(struct service *s);
[[nodiscard]] int service_restart(struct service *s, struct cay_err *err);
/* Whether it has no process and is to have none. */
bool service_is_idle(const struct service *s);
/* Forget an idle one. */
void service_delete(struct service *s);
void service_describe(const struct service *s, struct service_info *ret);
/* Answer once it is neither starting nor stopping. */
void service_reply_when_settled(struct service *s, struct request *rq);
/* Start those that start by themselves, one when the one before is up or has failed; then up. */
void services_start(struct init *in, void (*up)(void *arg), void *arg);
#endif
