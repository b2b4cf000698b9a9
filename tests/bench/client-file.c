/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client.h"
#include "text/json.h"

/* The head of a file says one of two words; each edit is back to the other one. */
static const char *const bodies[] = {
	"{\"path\":\"/tmp/f\",\"edits\":[{\"old\":\"one\\n\",\"new\":\"two\\n\"}]}",
	"{\"path\":\"/tmp/f\",\"edits\":[{\"old\":\"two\\n\",\"new\":\"one\\n\"}]}",
};

static int timed(const struct call_request *q, uint64_t *ret_ns, struct cay_err *err)
{
	auto_json reply = NULL;
	uint64_t start = now_ns();
	int r = call_json(q, &reply, err);

	*ret_ns = now_ns() - start;
	return r;
}

int run_edit(const struct job *job, struct cay_err *err)
{
	static uint64_t edits[SAMPLES_MAX], stats[SAMPLES_MAX];
	auto_buf look = BUF_INIT(256), change = BUF_INIT(256);
	char key[NAME_MAX_LEN], id[NAME_MAX_LEN] = "";
	auto_close int fd = dial_edge(job, key, err);
	struct call_request stat = { .kept = fd, .bearer = key, .method = "GET", .want = 200 };
	struct call_request edit = stat;

	if (fd < 0)
		return fd;
	if (scanf("%127s", id) != 1 ||
	    buf_printf(&look, "/v1/sandboxes/%s/files/stat?path=/tmp/f", id) < 0 ||
	    buf_printf(&change, "/v1/sandboxes/%s/files/edit", id) < 0)
		return cay_fail(err, CAY_E_INVALID, "no sandbox on stdin");
	stat.target = look.data;
	edit.target = change.data;
	edit.method = "POST";
	for (size_t i = 0; i < job->n; i++) {
		int r = timed(&stat, &stats[i], err);

		edit.body = bodies[i % 2];
		if (r >= 0)
			r = timed(&edit, &edits[i], err);
		if (r < 0)
			return r;
	}
	write_times(job->w, "edits", edits, job->n);
	write_times(job->w, "stats", stats, job->n);
	return 0;
}
