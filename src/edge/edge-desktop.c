/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host of a sandbox's screen: a page, the modules it loads, and the WebSocket it opens.  The
 * caller is authenticated by a preview token for the screen, whose scope says what it may do.
 */
#include "edge/desktop/viewer-files.h"
#include "edge/edge.h"

#define VIEWERS_MAX 160 /* requests of pages to one sandbox, as of other previews */
#define SOCKET_PATH "/vnc"

/* The server in the sandbox is hostile, and noVNC reads its bytes: the page may load and
 * connect to nothing but this host, and nobody may show it in a frame. */
static const struct relay_header desktop_guards[] = {
	{ "Content-Security-Policy",
	  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; "
	  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	  "require-trusted-types-for 'script'; trusted-types 'none'" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()" },
};

static void desktop_reply_file(struct request *rq, const struct viewer_file *f)
{
	auto_buf body = BUF_INIT(MIB(1));
	int r = buf_append(&body, f->content.p, f->content.n);

	for (size_t i = 0; i < ARRAY_SIZE(desktop_guards) && r >= 0; i++)
		r = request_add_reply_header(rq, desktop_guards[i].name, desktop_guards[i].value);
	if (r >= 0)
		r = request_add_reply_header(rq, "Cache-Control",
					     f->fixed ? "private, max-age=3600" : "no-store");
	if (r < 0)
		request_no_memory(rq);
	else
		request_reply(rq, 200, f->media, &body);
}

void edge_desktop_start(struct edge *e, struct request *rq, struct control_state_sandbox *s)
{
	struct slice query = rq->head->target, path = slice_cut(&query, '?');
	bool get = slice_eq(rq->head->method, SLICE("GET")) ||
		   slice_eq(rq->head->method, SLICE("HEAD"));
	struct viewer_file file;

	rq->mark = true;
	if (get && slice_eq(path, SLICE(SOCKET_PATH))) {
		if (route_check_sandbox(e, rq, s, VIEWERS_MAX))
			route_to_screen(e, rq, s);
	} else if (!get || !viewer_files_find(e->viewer_files, path, rq->actor.scope >= SCOPE_WRITE,
					      &file)) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is nothing at this path");
	} else if (!viewer_files_are_whole(e->viewer_files)) {
		request_refuse_hinted(rq, CAY_E_UNSUPPORTED,
				      "the page of the screen needs noVNC, which this node lacks",
				      "have the operator install Debian's package novnc, or set "
				      "edge.novnc of cay.conf, and restart cay-edge");
	} else {
		desktop_reply_file(rq, &file);
	}
}
