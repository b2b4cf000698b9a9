/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client.h"
#include "text/json.h"

#define BODY_MAX 4096
#define BURST_MAX 256

static void write_names(struct jw *w, char names[][NAME_MAX_LEN], size_t n)
{
	jw_array_begin(w, "ids");
	for (size_t i = 0; i < n; i++)
		jw_str(w, NULL, names[i]);
	jw_end(w);
}

int run_claim(const struct job *job, struct cay_err *err)
{
	static char ids[SAMPLES_MAX][NAME_MAX_LEN], body[BODY_MAX];
	static uint64_t ns[SAMPLES_MAX];
	char key[NAME_MAX_LEN];
	auto_close int fd = dial_edge(job, key, err);
	struct call_request q = { .kept = fd,
				  .bearer = key,
				  .method = "POST",
				  .target = "/v1/sandboxes",
				  .body = body,
				  .want = 201 };

	if (fd < 0)
		return fd;
	if (!fgets(body, sizeof(body), stdin))
		return cay_fail(err, CAY_E_INVALID, "nothing to ask for on stdin");
	for (size_t i = 0; i < job->n; i++) {
		auto_json reply = NULL;
		uint64_t start = now_ns();
		int r = call_json(&q, &reply, err);

		ns[i] = now_ns() - start;
		if (r >= 0)
			r = take_name(reply, "id", ids[i], err);
		if (r < 0)
			return r;
	}
	write_times(job->w, "ns", ns, job->n);
	write_names(job->w, ids, job->n);
	return 0;
}

/* The rest of an answer that is on its way. */
static int finish(struct call *c, char id[static NAME_MAX_LEN], struct cay_err *err)
{
	static const struct json_limits limits = { BODY_MAX, 32, 1000 };
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json reply = NULL;
	struct slice piece;
	int r = call_head(c, 201, err);

	while (r >= 0 && (r = call_more(c, &piece, err)) > 0)
		if (buf_append(&body, piece.p, piece.n) < 0)
			return cay_fail(err, CAY_E_TOO_LARGE, "a reply is too long");
	if (r >= 0)
		r = json_parse((struct slice){ body.data, body.len }, &limits, &reply, err);
	return r < 0 ? r : take_name(reply, "id", id, err);
}

int run_burst(const struct job *job, struct cay_err *err)
{
	static char ids[BURST_MAX][NAME_MAX_LEN], body[BODY_MAX];
	static struct call calls[BURST_MAX];
	struct call_request q = { .socket = job->where,
				  .method = "POST",
				  .target = "/v1/sandboxes",
				  .body = body,
				  .want = 201 };
	uint64_t start = now_ns(), took, failed = 0;
	size_t made = 0;
	int n = snprintf(body, sizeof(body), "{\"image\":\"%s\"}", job->image), r = 0;

	if (n < 0 || n >= (int)sizeof(body) || job->n > BURST_MAX)
		return cay_fail(err, CAY_E_INVALID, "too much for one burst");
	for (size_t i = 0; i < job->n && r >= 0; i++)
		r = call_send(&calls[i], &q, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < job->n; i++) {
		struct cay_err why = {};

		if (finish(&calls[i], ids[made], &why) >= 0)
			made++;
		else if (!failed++)
			(void)fprintf(stderr, "client: %s\n", why.msg);
	}
	took = now_ns() - start;
	for (size_t i = 0; i < job->n; i++)
		call_fini(&calls[i]);
	write_times(job->w, "ns", &took, 1);
	jw_u64(job->w, "failed", failed);
	write_names(job->w, ids, made);
	return 0;
}
