/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client.h"
#include "text/json.h"

#define MUX_HEAD 8 /* stream, three zeros, length */
#define FIRST_MAX KIB(4)

static int post(const struct job *job, const char *target, const char *body, unsigned want,
		char id[static NAME_MAX_LEN], struct cay_err *err)
{
	auto_json reply = NULL;
	int r = call_json(&(struct call_request){ .socket = job->where,
						  .method = "POST",
						  .target = target,
						  .body = body,
						  .want = want },
			  &reply, err);

	return r < 0 || !reply ? r : take_name(reply, "Id", id, err);
}

/* What `docker run --network none` asks for, with something to stay alive. */
static int create(const struct job *job, char id[static NAME_MAX_LEN], struct cay_err *err)
{
	auto_buf body = BUF_INIT(KIB(1));
	struct jw w = jw_to(&body);
	int r;

	jw_object_begin(&w, NULL);
	jw_str(&w, "Image", job->image);
	jw_array_begin(&w, "Cmd");
	jw_str(&w, NULL, "/bin/sleep");
	jw_str(&w, NULL, "infinity");
	jw_end(&w);
	jw_bool(&w, "NetworkDisabled", true);
	jw_object_begin(&w, "HostConfig");
	jw_str(&w, "NetworkMode", "none");
	jw_end(&w);
	jw_end(&w);
	r = jw_finish(&w);
	return r < 0 ? r : post(job, "/containers/create", body.data, 201, id, err);
}

/* A reply without a length, which our parser refuses: the head must be a 200, and
 * the first data behind it is what we are here for. */
static int first_output(const struct job *job, const char *exec, struct cay_err *err)
{
	auto_buf target = BUF_INIT(256), got = BUF_INIT(FIRST_MAX);
	auto_call c = { .fd = -EBADF };
	const char *body = NULL;
	int r;

	if (buf_printf(&target, "/exec/%s/start", exec) < 0 || buf_reserve(&got, FIRST_MAX) < 0)
		return -ENOMEM;
	r = call_send(&c,
		      &(struct call_request){ .socket = job->where,
					      .method = "POST",
					      .target = target.data,
					      .body = "{\"Detach\":false,\"Tty\":false}" },
		      err);
	if (r < 0)
		return r;
	while (!body || (size_t)(got.data + got.len - body) < MUX_HEAD + 3) {
		ssize_t n = call_raw(&c, got.data + got.len, FIRST_MAX - got.len, err);

		if (n <= 0)
			return n < 0 ? (int)n
				     : cay_fail(err, CAY_E_INTERNAL, "no output: %s", got.data);
		got.len += (size_t)n;
		got.data[got.len] = 0;
		body = strstr(got.data, "\r\n\r\n");
		body = body ? body + 4 : NULL;
	}
	if (strncmp(got.data, "HTTP/1.1 200 ", 13) != 0 || body[0] != 1 ||
	    strncmp(body + MUX_HEAD, "hi\n", 3) != 0)
		return cay_fail(err, CAY_E_INTERNAL, "another output than 'hi'");
	return 0;
}

static int once(const struct job *job, char id[static NAME_MAX_LEN], struct cay_err *err)
{
	static const char exec_body[] =
		"{\"AttachStdout\":true,\"AttachStderr\":true,\"Cmd\":[\"/bin/echo\",\"hi\"]}";
	auto_buf start = BUF_INIT(256), execs = BUF_INIT(256);
	char exec[NAME_MAX_LEN] = "";
	int r = create(job, id, err);

	if (r < 0)
		return r;
	if (buf_printf(&start, "/containers/%s/start", id) < 0 ||
	    buf_printf(&execs, "/containers/%s/exec", id) < 0)
		return -ENOMEM;
	r = post(job, start.data, NULL, 204, exec, err);
	if (r >= 0)
		r = post(job, execs.data, exec_body, 201, exec, err);
	return r < 0 ? r : first_output(job, exec, err);
}

int run_docker(const struct job *job, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];

	for (size_t i = 0; i < job->n; i++) {
		auto_buf target = BUF_INIT(256);
		auto_json reply = NULL;
		char id[NAME_MAX_LEN];
		uint64_t start = now_ns();
		int r = once(job, id, err);

		if (r < 0)
			return r;
		ns[i] = now_ns() - start;
		if (buf_printf(&target, "/containers/%s?force=1", id) < 0)
			return -ENOMEM;
		r = call_json(&(struct call_request){ .socket = job->where,
						      .method = "DELETE",
						      .target = target.data,
						      .want = 204 },
			      &reply, err);
		if (r < 0)
			return r;
	}
	write_times(job->w, "ns", ns, job->n);
	return 0;
}
