/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/keeper-link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/seqpacket.h"
#include "life/create-queue.h"

#define RETRY_MS 200
#define HELLO_MS 15000
#define CALL_MS 60000
#define RESTART_NS (10 * NS_PER_S) /* a unit's RestartSec, and the start itself */
#define LOG_NS (60 * NS_PER_S)
#define SOCKET_BUFFER 1048576

/* Verbs of a class wait for each other and never for those of another class. */
enum keeper_class {
	KEEPER_PROMPT,
	KEEPER_CREATE,
	KEEPER_REMOVE,
	KEEPER_IMAGE,
	KEEPER_COPY,    /* takes minutes */
	KEEPER_RECLAIM, /* the same */
	KEEPER_CLASS_NUM
};

static const enum keeper_class keeper_verb_classes[VERB_NUM] = {
	[VERB_PREPARE] = KEEPER_CREATE,       [VERB_START] = KEEPER_CREATE,
	[VERB_RESTORE] = KEEPER_CREATE,       [VERB_STOP] = KEEPER_REMOVE,
	[VERB_REMOVE] = KEEPER_REMOVE,        [VERB_IMAGE_ADD] = KEEPER_IMAGE,
	[VERB_IMAGE_REMOVE] = KEEPER_IMAGE,   [VERB_IMAGE_COMMIT] = KEEPER_IMAGE,
	[VERB_SNAPSHOT] = KEEPER_COPY,        [VERB_PACK] = KEEPER_COPY,
	[VERB_IMAGE_PACK] = KEEPER_COPY,      [VERB_VOLUME_MAKE] = KEEPER_REMOVE,
	[VERB_VOLUME_REMOVE] = KEEPER_REMOVE, [VERB_RECLAIM] = KEEPER_RECLAIM,
	[VERB_VOLUME_COPY] = KEEPER_COPY,
};

/* Together as many as the keeper has workers, so that a message never waits in the socket.  Creates
 * have a queue of their own, in which tenants take turns. */
static const struct {
	unsigned workers;
	bool by_tenant;
} keeper_classes[KEEPER_CLASS_NUM] = {
	[KEEPER_PROMPT] = { 12, true }, [KEEPER_CREATE] = { CREATE_QUEUE_RUNNING_MAX, false },
	[KEEPER_REMOVE] = { 8, true },  [KEEPER_IMAGE] = { 4, true },
	[KEEPER_COPY] = { 4, true },    [KEEPER_RECLAIM] = { 1, false },
};
static_assert(12 + CREATE_QUEUE_RUNNING_MAX + 8 + 4 + 4 + 1 == VERB_WORKERS_MAX);

struct keeper_pending_call {
	struct keeper_pending_call *next;
	keeper_call_fn *fn;
	void *arg;
	int fd;
	enum keeper_class class;
	struct id tenant;           /* ID_NONE: the node's own */
	struct verb_head request[]; /* as long as its verb's */
};

struct keeper_class_calls {
	struct keeper_pending_call *first, **last; /* that wait, in order of their calls */
	unsigned n_waiting, n_running;
};

struct keeper_link {
	struct cayd *cayd;
	int fd;
	uv_poll_t *poll; /* NULL while disconnected; freed by its close */
	bool greeted;    /* it answered our hello: calls are accepted */
	uv_timer_t retry;
	uint64_t lost_ns;   /* when the link went down */
	uint64_t logged_ns; /* when that was logged last; 0: not since it was up */
	uint64_t seq;
	uint32_t runtimes, disk;
	char cgroup[VERB_CGROUP_MAX + 1];
	struct keeper_pending_call *first, **last; /* that have a worker, in this order */
	struct keeper_pending_call **unsent;       /* the first that is not sent yet */
	struct keeper_class_calls classes[KEEPER_CLASS_NUM];
};

static void keeper_class_start_waiting(struct keeper_link *l, enum keeper_class class);
static void keeper_link_start_polling(struct keeper_link *l);
static void on_keeper_retry_timer(uv_timer_t *t);
static void on_keeper_poll(uv_poll_t *p, int status, int events);

static int keeper_dial(const struct settings *s)
{
	int fd = seqpacket_connect(s->run_dir, "box/" VERB_SOCKET);

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ SOCKET_BUFFER }, sizeof(int));
	return fd;
}

static int keeper_call_with_timeout(struct keeper_link *l, enum verb verb, void *request,
				    void *reply, int timeout_ms, struct cay_err *err)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };
	struct cay_err outcome = {};
	auto_close int fd = -EBADF;
	unsigned n_fds = 0;
	ssize_t n = 0;
	int r;

	verb_head_init(request, verb, ++l->seq);
	r = seqpacket_send(l->fd, request, verb_row_find(verb)->request_size, -EBADF);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "call cay-keeper");
	if (poll(&p, 1, timeout_ms) > 0)
		n = seqpacket_receive(l->fd, reply, VERB_MESSAGE_MAX, &fd, &n_fds);
	if (n <= 0)
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper does not answer");
	r = verb_reply_check(reply, (size_t)n, n_fds, request, &outcome, err);
	if (r >= 0 && outcome.code) {
		*err = outcome;
		r = -cay_error_row(outcome.code)->errnum;
	}
	return r;
}

static struct verb_hello keeper_hello_create(void)
{
	struct verb_hello h = { .abi = VERB_ABI };

	memcpy(h.build, VERB_BUILD, sizeof(VERB_BUILD) - 1);
	return h;
}

static void keeper_hello_accept(struct keeper_link *l, const void *msg)
{
	struct verb_hello_reply reply;

	memcpy(&reply, msg, sizeof(reply));
	l->runtimes = reply.runtimes;
	l->disk = reply.disk < VERB_DISK_NUM ? reply.disk : VERB_DISK_NONE;
	memcpy(l->cgroup, reply.cgroup, VERB_CGROUP_MAX);
	l->greeted = true;
}

static int keeper_link_connect(struct keeper_link *l, struct cay_err *err)
{
	l->fd = keeper_dial(&l->cayd->settings);
	if (l->fd < 0)
		return cay_fail_sys(err, CAY_E_UNAVAILABLE, -l->fd, "connect to cay-keeper at %s",
				    l->cayd->settings.run_dir);
	return 0;
}

static int keeper_link_connect_blocking(struct keeper_link *l, struct cay_err *err)
{
	alignas(uint64_t) char msg[VERB_MESSAGE_MAX];
	struct verb_hello request = keeper_hello_create();
	int r = keeper_link_connect(l, err);

	if (r < 0)
		return r;
	r = keeper_call_with_timeout(l, VERB_HELLO, &request, msg, HELLO_MS, err);
	if (r < 0) {
		cay_closep(&l->fd);
		l->fd = -EBADF;
		return r;
	}
	keeper_hello_accept(l, msg);
	return 0;
}

int keeper_link_open(struct cayd *c, struct cay_err *err)
{
	uint64_t end = clk_boot_ns(c->clk) + KEEPER_OPEN_MS * NS_PER_MS;
	struct keeper_link *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return cay_no_memory(err);
	*l = (struct keeper_link){ .cayd = c, .fd = -EBADF };
	l->last = l->unsent = &l->first;
	for (unsigned i = 0; i < KEEPER_CLASS_NUM; i++)
		l->classes[i].last = &l->classes[i].first;
	do {
		*err = (struct cay_err){};
		r = keeper_link_connect_blocking(l, err);
		if (r < 0 && err->code == CAY_E_UNAVAILABLE)
			(void)poll(NULL, 0, 20);
	} while (r < 0 && err->code == CAY_E_UNAVAILABLE && clk_boot_ns(c->clk) < end);
	if (r < 0) {
		free(l);
		return r;
	}
	(void)uv_timer_init(&c->loop, &l->retry);
	l->retry.data = l;
	c->keeper = l;
	keeper_link_start_polling(l);
	return 0;
}

bool keeper_is_up(const struct keeper_link *l)
{
	return l->greeted;
}

bool keeper_is_gone(const struct keeper_link *l, uint64_t now_boot_ns)
{
	return !l->greeted && now_boot_ns > l->lost_ns + RESTART_NS;
}

static bool keeper_link_log_is_due(struct keeper_link *l)
{
	uint64_t now = clk_boot_ns(l->cayd->clk);

	if (l->logged_ns && now < l->logged_ns + LOG_NS)
		return false;
	l->logged_ns = now;
	return true;
}

uint32_t keeper_runtimes(const struct keeper_link *l)
{
	return l->runtimes;
}

enum verb_disk keeper_disk_kind(const struct keeper_link *l)
{
	return (enum verb_disk)l->disk;
}

void keeper_cgroup_copy(const struct keeper_link *l, char ret[static VERB_CGROUP_MAX + 1])
{
	memcpy(ret, l->cgroup, sizeof(l->cgroup));
}

/* Unlink a call and run its callback. */
static void keeper_call_finish(struct keeper_link *l, struct keeper_pending_call **at,
			       const struct cay_err *outcome, const void *reply, int fd)
{
	struct keeper_pending_call *c = *at;

	if (l->unsent == &c->next)
		l->unsent = at;
	if (l->last == &c->next)
		l->last = at;
	*at = c->next;
	l->classes[c->class].n_running--;
	cay_closep(&c->fd);
	c->fn(c->arg, outcome, reply, fd);
	keeper_class_start_waiting(l, c->class);
	free(c);
}

/* Give a waiting call a worker; keeper_link_flush() sends it. */
static void keeper_call_start(struct keeper_link *l, struct keeper_pending_call **at)
{
	struct keeper_pending_call *c = *at;

	*at = c->next;
	if (l->classes[c->class].last == &c->next)
		l->classes[c->class].last = at;
	l->classes[c->class].n_waiting--;
	l->classes[c->class].n_running++;
	c->next = NULL;
	*l->last = c;
	l->last = &c->next;
}

static void keeper_link_drop(struct keeper_link *l, const char *why)
{
	struct cay_err err = {};

	if (l->greeted) {
		l->lost_ns = clk_boot_ns(l->cayd->clk);
		l->logged_ns = 0;
	}
	if (keeper_link_log_is_due(l))
		log_error(&l->cayd->log, "lost the connection to cay-keeper: %s", why);
	(void)cay_fail(&err, CAY_E_UNAVAILABLE, "lost the connection to cay-keeper");
	uv_close((uv_handle_t *)l->poll, on_handle_closed);
	l->poll = NULL;
	l->greeted = false;
	cay_closep(&l->fd);
	l->fd = -EBADF;
	for (unsigned i = 0; i < KEEPER_CLASS_NUM; i++)
		while (l->classes[i].first)
			keeper_call_start(l, &l->classes[i].first);
	while (l->first)
		keeper_call_finish(l, &l->first, &err, NULL, -EBADF);
	(void)uv_timer_start(&l->retry, on_keeper_retry_timer, RETRY_MS, 0);
}

static void keeper_link_flush(struct keeper_link *l)
{
	while (*l->unsent) {
		struct keeper_pending_call *c = *l->unsent;
		int r = seqpacket_send(l->fd, c->request, c->request->size, c->fd);

		if (r == -EAGAIN)
			return; /* continued at POLLOUT */
		if (r < 0) {
			keeper_link_drop(l, strerror(-r)); /* NOLINT(concurrency-mt-unsafe) */
			return;
		}
		l->unsent = &c->next;
	}
}

static void keeper_link_read_replies(struct keeper_link *l)
{
	alignas(uint64_t) char msg[VERB_MESSAGE_MAX];

	for (;;) {
		struct cay_err err = {}, outcome = {};
		struct verb_head head = {};
		struct keeper_pending_call **at = &l->first;
		unsigned n_fds;
		int fd;
		ssize_t n = seqpacket_receive(l->fd, msg, sizeof(msg), &fd, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n < (ssize_t)sizeof(head)) {
			keeper_link_drop(l, n < 0 ? strerror((int)-n) : "end of file"); /* NOLINT */
			return;
		}
		memcpy(&head, msg, sizeof(head));
		while (*at && (*at)->request->seq != head.seq)
			at = &(*at)->next;
		if (!*at && head.seq <= l->seq) {
			/* the worker died after its reply, so the keeper replied once more */
			cay_closep(&fd);
			continue;
		}
		if (!*at ||
		    verb_reply_check(msg, (size_t)n, n_fds, (*at)->request, &outcome, &err) < 0) {
			cay_closep(&fd);
			keeper_link_drop(l, *at ? err.msg : "a reply to no call");
			return;
		}
		keeper_call_finish(l, at, &outcome, msg, fd);
		if (!l->poll)
			return;
	}
}

static void on_keeper_poll(uv_poll_t *p, int status, int events)
{
	struct keeper_link *l = p->data;

	if (status < 0) {
		keeper_link_drop(l, uv_strerror(status));
		return;
	}
	if (events & UV_WRITABLE)
		keeper_link_flush(l);
	if (l->poll && events & (UV_READABLE | UV_DISCONNECT))
		keeper_link_read_replies(l);
	if (l->poll)
		(void)uv_poll_start(l->poll, UV_READABLE | (*l->unsent ? UV_WRITABLE : 0),
				    on_keeper_poll);
}

static void keeper_link_start_polling(struct keeper_link *l)
{
	l->poll = calloc(1, sizeof(*l->poll));
	if (!l->poll || uv_poll_init(&l->cayd->loop, l->poll, l->fd) < 0) {
		free(l->poll);
		l->poll = NULL;
		l->greeted = false;
		cay_closep(&l->fd);
		l->fd = -EBADF;
		(void)uv_timer_start(&l->retry, on_keeper_retry_timer, RETRY_MS, 0);
		return;
	}
	l->poll->data = l;
	(void)uv_poll_start(l->poll, UV_READABLE, on_keeper_poll);
}

static unsigned keeper_calls_count(const struct keeper_pending_call *c, enum keeper_class class,
				   const struct id *tenant)
{
	unsigned n = 0;

	for (; c; c = c->next)
		n += c->class == class && id_eq(&c->tenant, tenant);
	return n;
}

/* A tenant has no more than what is left for the others: half when it is alone, and one that has
 * none is always next. */
static bool keeper_share_allows(unsigned own, unsigned all, unsigned most)
{
	return all < most && own < most - all;
}

static bool keeper_class_may_start(const struct keeper_link *l, const struct keeper_pending_call *c)
{
	unsigned own = keeper_classes[c->class].by_tenant
			       ? keeper_calls_count(l->first, c->class, &c->tenant)
			       : 0;

	return keeper_share_allows(own, l->classes[c->class].n_running,
				   keeper_classes[c->class].workers);
}

static void keeper_class_start_waiting(struct keeper_link *l, enum keeper_class class)
{
	struct keeper_pending_call **at = &l->classes[class].first;
	const struct id *refused = NULL; /* most that wait are of one tenant */

	if (!l->poll)
		return;
	while (*at && l->classes[class].n_running < keeper_classes[class].workers)
		if ((refused && id_eq(refused, &(*at)->tenant)) ||
		    !keeper_class_may_start(l, *at)) {
			refused = &(*at)->tenant;
			at = &(*at)->next;
		} else {
			keeper_call_start(l, at);
		}
	keeper_link_flush(l);
	if (l->poll && *l->unsent)
		(void)uv_poll_start(l->poll, UV_READABLE | UV_WRITABLE, on_keeper_poll);
}

bool keeper_can_copy_now(const struct keeper_link *l, const struct id *tenant)
{
	const struct keeper_class_calls *copies = &l->classes[KEEPER_COPY];

	return !keeper_is_up(l) ||
	       (!copies->n_waiting &&
		keeper_share_allows(keeper_calls_count(l->first, KEEPER_COPY, tenant),
				    copies->n_running, keeper_classes[KEEPER_COPY].workers));
}

static void keeper_call_enqueue(struct keeper_link *l, const struct id *tenant, enum verb verb,
				void *request, int fd, keeper_call_fn *fn, void *arg)
{
	enum keeper_class class = keeper_verb_classes[verb];
	unsigned own = keeper_calls_count(l->classes[class].first, class, tenant);
	size_t size = verb_row_find(verb)->request_size;
	struct keeper_pending_call *c =
		keeper_share_allows(own, l->classes[class].n_waiting, KEEPER_WAITING_MAX)
			? calloc(1, sizeof(*c) + size)
			: NULL;
	struct cay_err err = {};

	if (!c) {
		(void)cay_fail(&err, CAY_E_CAPACITY, "too many calls to cay-keeper under way");
		fn(arg, &err, NULL, -EBADF);
		return;
	}
	verb_head_init(request, verb, ++l->seq);
	*c = (struct keeper_pending_call){
		.fn = fn, .arg = arg, .fd = -EBADF, .class = class, .tenant = *tenant
	};
	memcpy(c->request, request, size);
	if (fd >= 0)
		c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && c->fd < 0) {
		(void)cay_fail_sys(&err, CAY_E_CAPACITY, errno, "too many files are open");
		free(c);
		fn(arg, &err, NULL, -EBADF);
		return;
	}
	*l->classes[class].last = c;
	l->classes[class].last = &c->next;
	l->classes[class].n_waiting++;
	keeper_class_start_waiting(l, class);
}

static void keeper_call_if_up(struct keeper_link *l, const struct id *tenant, enum verb verb,
			      void *request, int fd, keeper_call_fn *fn, void *arg)
{
	struct cay_err err = {};

	if (keeper_is_up(l)) {
		keeper_call_enqueue(l, tenant, verb, request, fd, fn, arg);
		return;
	}
	(void)cay_fail(&err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	fn(arg, &err, NULL, -EBADF);
}

void keeper_call(struct keeper_link *l, enum verb verb, void *request, int fd, keeper_call_fn *fn,
		 void *arg)
{
	keeper_call_if_up(l, &(struct id){}, verb, request, fd, fn, arg);
}

void keeper_call_for(struct keeper_link *l, const struct id *tenant, enum verb verb, void *request,
		     keeper_call_fn *fn, void *arg)
{
	keeper_call_if_up(l, tenant, verb, request, -EBADF, fn, arg);
}

void keeper_call_for_with_fd(struct keeper_link *l, const struct id *tenant, enum verb verb,
			     void *request, int fd, keeper_call_fn *fn, void *arg)
{
	keeper_call_if_up(l, tenant, verb, request, fd, fn, arg);
}

/* Reconnect */

static void on_keeper_hello(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct keeper_link *l = arg;

	cay_closep(&fd);
	if (!l->poll)
		return; /* lost meanwhile */
	if (outcome->code || !reply) {
		keeper_link_drop(l, outcome->msg);
		return;
	}
	(void)uv_timer_stop(&l->retry);
	keeper_hello_accept(l, reply);
	log_info(&l->cayd->log, "connected to cay-keeper again");
	l->cayd->hooks->keeper_up(l->cayd);
}

/* A keeper that has just started may take long to scan before it replies, so the reply comes to the
 * loop. */
static void on_keeper_retry_timer(uv_timer_t *t)
{
	struct keeper_link *l = t->data;
	struct verb_hello request = keeper_hello_create();
	struct cay_err err = {};

	if (l->poll) {
		keeper_link_drop(l, "no reply to hello");
		return;
	}
	if (keeper_link_connect(l, &err) < 0) {
		if (keeper_link_log_is_due(l))
			log_warn(&l->cayd->log, "%s", err.msg);
		(void)uv_timer_start(t, on_keeper_retry_timer, RETRY_MS, 0);
		return;
	}
	keeper_link_start_polling(l);
	if (!l->poll)
		return;
	(void)uv_timer_start(t, on_keeper_retry_timer, HELLO_MS, 0);
	keeper_call_enqueue(l, &(struct id){}, VERB_HELLO, &request, -EBADF, on_keeper_hello, l);
}

int keeper_call_blocking(struct keeper_link *l, enum verb verb, void *request, void *reply,
			 struct cay_err *err)
{
	return keeper_call_with_timeout(l, verb, request, reply, CALL_MS, err);
}
