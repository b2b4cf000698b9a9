/* SPDX-License-Identifier: Apache-2.0 */
/* The VNC server of the screen: a request becomes a connection to its socket, in a child that is
 * the user, because a path of the sandbox may be a link to what only root may open. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "init/core/handlers.h"
#include "init/screen/screen.h"
#include "wire/hello.h"

#define SOCKET_PATH "/run/screen/vnc"
#define VIEWERS_MAX 16 /* so that children remain for other operations */
#define WAIT_MS 10000
#define RETRY_MS 20
#define DEADLINE_MS 30000

static int vnc_connect(uint64_t wait_ms)
{
	static const struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = SOCKET_PATH };

	for (uint64_t waited = 0;; waited += RETRY_MS) {
		auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
			return cay_take_fd(&fd);
		if ((errno != ENOENT && errno != ECONNREFUSED) || waited >= wait_ms)
			return -errno;
		(void)poll(NULL, 0, RETRY_MS);
	}
}

static void child_screen_vnc(struct child_op *w, struct request *)
{
	bool starting = screen_is_starting(child_op_init(w));
	auto_close int fd = vnc_connect(starting ? WAIT_MS : 0);
	struct cay_err err = {};

	if (fd >= 0) {
		child_op_join(w, HELLO_SCREEN_PROTOCOL, fd);
		return;
	}
	(void)cay_fail(&err, CAY_E_UNSUPPORTED,
		       "the sandbox has no screen for people: no VNC server is at " SOCKET_PATH);
	cay_err_hint(&err, "create it from an image with one, such as `desktop`; "
			   "`cay service ls SANDBOX` says whether its screen runs");
	child_op_fail(w, &err);
}

void op_screen_vnc(struct request *rq, void *arg)
{
	struct init *in = arg;

	if (!http_equals_nocase(rq->head->upgrade, HELLO_SCREEN_PROTOCOL)) {
		(void)request_add_reply_header(rq, "Upgrade", HELLO_SCREEN_PROTOCOL);
		request_refuse(rq, CAY_E_UPGRADE, "this endpoint needs a WebSocket of cay-edge");
	} else if (child_op_count(in, child_screen_vnc) >= VIEWERS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "too many viewers of this screen");
	} else {
		child_op_start(in, rq, child_screen_vnc, DEADLINE_MS);
	}
}
