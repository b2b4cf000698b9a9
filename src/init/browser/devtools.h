/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_BROWSER_DEVTOOLS_H
#define CAY_INIT_BROWSER_DEVTOOLS_H
/*
 * devtools - a connection to the browser of the sandbox, by Chromium's DevTools: HTTP and WebSocket
 *
 * The browser is found by the file that Chromium writes into its profile, whose directory the
 * environment names (BROWSER_PROFILE).  It is a program of the sandbox, and may be another one than
 * it seems: what it sends is checked here and in cdp.h.  Calls block, until the deadline at most;
 * the process is a child (child-op.h).
 *
 * Bounded: a reply or a message of DEVTOOLS_MESSAGE_MAX bytes.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define DEVTOOLS_MESSAGE_MAX MIB(24)
#define DEVTOOLS_WAIT_MS 20000 /* for a browser that is starting */
#define DEVTOOLS_PATH_MAX 128

struct devtools {
	int in, out; /* one socket; the fuzzer has two files */
	uint16_t port;
	char browser_path[DEVTOOLS_PATH_MAX]; /* of the WebSocket of the whole browser */
	uint64_t deadline_ns;                 /* of clk_system's boot clock */
	struct buf received;                  /* and not consumed yet */
};

#define DEVTOOLS_INIT \
	((struct devtools){ .in = -EBADF, \
			    .out = -EBADF, \
			    .received = BUF_INIT(DEVTOOLS_MESSAGE_MAX + KIB(64)) })
#define auto_devtools CAY_CLEANUP(devtools_fini) struct devtools

void devtools_fini(struct devtools *d);
void devtools_set_deadline(struct devtools *d, uint64_t ms);
bool devtools_is_late(const struct devtools *d);
/* The port and the path in a DevToolsActivePort file. */
[[nodiscard]] int devtools_parse_port_file(struct slice text, uint16_t *port,
					   char path[static DEVTOOLS_PATH_MAX]);
/* Connect to the browser; wait for one that is starting.  CAY_E_STATE: none runs. */
[[nodiscard]] int devtools_open(struct devtools *d, bool is_starting, struct cay_err *err);
/* Send a request and read its reply; the connection can be used again. */
[[nodiscard]] int devtools_fetch(struct devtools *d, const char *method, const char *path,
				 struct buf *body, struct cay_err *err);
/* Make the connection a WebSocket.  key is the value of Sec-WebSocket-Key in the request; accept
 * gets that of Sec-WebSocket-Accept in the reply. */
#define DEVTOOLS_ACCEPT_MAX 64
[[nodiscard]] int devtools_upgrade(struct devtools *d, const char *path, struct slice key,
				   char accept[static DEVTOOLS_ACCEPT_MAX], struct cay_err *err);
/* Wait for bytes and add them to received. */
[[nodiscard]] int devtools_receive(struct devtools *d, struct cay_err *err);
/* 1: bytes can be read; 0: not within ms, or not before the deadline. */
[[nodiscard]] int devtools_wait(struct devtools *d, uint64_t ms);
[[nodiscard]] int devtools_send(struct devtools *d, const void *p, size_t n, struct cay_err *err);
/* Record that the browser broke the protocol, or left. */
int devtools_fail(struct cay_err *err, const char *what);
#endif
