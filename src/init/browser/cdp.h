/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_BROWSER_CDP_H
#define CAY_INIT_BROWSER_CDP_H
/*
 * cdp - calls and events of Chromium's DevTools protocol, on a WebSocket of devtools.h
 *
 *	cdp_begin(c, &w, "Page.navigate");
 *	jw_str(&w, "url", url);
 *	r = cdp_call(c, &w, &result, err);
 *
 * Calls may be sent ahead (cdp_send) and waited for later (cdp_wait).  Events that arrive meanwhile
 * go to their handlers in events; all others are dropped unread.  A handler may send.
 *
 * Texts in a message come from pages.  Half a surrogate pair or a NUL, which no text of ours may
 * have, becomes U+FFFD instead of making the whole message invalid (cdp_mend_text).
 */
#include "init/browser/devtools.h"
#include "text/json.h"

#define CDP_SENT_MAX MIB(2)
#define CDP_ERROR_MAX 200

struct cdp_event {
	const char *name;
	int (*handle)(void *arg, const json_t *params, struct cay_err *err);
};

struct cdp {
	struct devtools *to;
	struct buf out;     /* the call that is being written */
	struct buf message; /* the last one that was received */
	int64_t last_id;
	char refusal[CDP_ERROR_MAX];    /* what the browser said to a call it refused */
	const struct cdp_event *events; /* ended by a row without a name; or NULL */
	void *arg;                      /* of their handlers */
};

#define auto_cdp CAY_CLEANUP(cdp_fini) struct cdp

void cdp_init(struct cdp *c, struct devtools *to);
void cdp_fini(struct cdp *c);
/* Begin a call: its parameters are written into w, an open object. */
void cdp_begin(struct cdp *c, struct jw *w, const char *method);
/* Send it; its id, for cdp_wait(). */
[[nodiscard]] int64_t cdp_send(struct cdp *c, struct jw *w, struct cay_err *err);
/* Wait for the reply to a call.  -EREMOTEIO: the browser refused it, c->refusal says why, and err
 * is not set.  ret may be NULL. */
[[nodiscard]] int cdp_wait(struct cdp *c, int64_t id, json_t **ret, struct cay_err *err);
[[nodiscard]] int cdp_call(struct cdp *c, struct jw *w, json_t **ret, struct cay_err *err);
/* Handle events for up to ms, until one has been handled: 1, or 0. */
[[nodiscard]] int cdp_wait_event(struct cdp *c, uint64_t ms, struct cay_err *err);
/* Record c->refusal as the error of what was asked. */
int cdp_fail_refused(const struct cdp *c, struct cay_err *err, const char *what);
/* Replace half pairs and NULs among the escapes of JSON, in place. */
void cdp_mend_text(char *text, size_t n);
/* Parse a message of the browser. */
[[nodiscard]] int cdp_parse(char *text, size_t n, json_t **ret, struct cay_err *err);
#endif
