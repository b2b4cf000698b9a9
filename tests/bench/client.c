/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client - what sandbox.py measures with: requests, a clock around them, JSON out
 *
 *	client cold SOCKET IMAGE N      create, first byte of `echo hi`; deleted after
 *	client again SOCKET IMAGE N     of one sandbox: stop; start, first byte of `echo hi`
 *	client cycle SOCKET IMAGE N     create, /bin/true waited for, delete
 *	client get SOCKET TARGET N      GET, to the last byte of the answer
 *	client fill SOCKET IMAGE N      create and keep
 *	client exec DIRECTORY N         /bin/true, straight to each sandbox's PID 1
 *	client edge PORT KEY N          /bin/true, through an edge by a connection that is kept;
 *	                                KEY is a file with one
 *	client claim PORT KEY N         create through an edge by a connection that is kept; what,
 *	                                is a line of JSON on stdin
 *	client edit PORT KEY N          file.stat and file.edit of /tmp/f in turns, the same way
 *	client burst SOCKET IMAGE N     create, all at once; how long until the last one runs
 *	client empty SOCKET             delete
 *	client spawn PROGRAM N          posix_spawn and wait, on this machine
 *	client docker SOCKET IMAGE N    cold, through the Docker engine's interface
 *
 * exec, edge, edit and empty take ids on stdin, one a line.  Printed: an object of arrays, times
 * in nanoseconds of CLOCK_MONOTONIC.  The first thing that goes wrong ends it.
 */
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/id.h"
#include "base/jsonw.h"
#include "client.h"
#include "text/json.h"
#include "wire/frame-reader.h"

#define OUT_MAX MIB(4)

static const char echo_body[] = "{\"argv\":[\"/bin/echo\",\"hi\"]}";
static const char true_body[] = "{\"argv\":[\"/bin/true\"]}";

uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void write_times(struct jw *w, const char *key, const uint64_t *ns, size_t n)
{
	jw_array_begin(w, key);
	for (size_t i = 0; i < n; i++)
		jw_u64(w, NULL, ns[i]);
	jw_end(w);
}

int take_name(const json_t *j, const char *key, char ret[static NAME_MAX_LEN], struct cay_err *err)
{
	const char *s = json_string_value(json_object_get(j, key));
	size_t n = s ? strlen(s) : 0;

	for (size_t i = 0; i < n; i++)
		if (!ascii_is_alnum(s[i]))
			n = 0;
	if (!n || n >= NAME_MAX_LEN)
		return cay_fail(err, CAY_E_INTERNAL, "a reply without a proper '%s'", key);
	memcpy(ret, s, n + 1);
	return 0;
}

/* "end" must say: left by itself, with 0. */
static int check_end(const json_t *end, struct cay_err *err)
{
	const json_t *code = json_object_get(end, "exit_code");

	if (!json_is_integer(code) || json_integer_value(code) != 0)
		return cay_fail(err, CAY_E_INTERNAL, "the command did not end with 0");
	return 0;
}

static int create(const struct job *job, char id[static NAME_MAX_LEN], struct cay_err *err)
{
	auto_buf body = BUF_INIT(512);
	struct jw w = jw_to(&body);
	auto_json reply = NULL;
	int r;

	jw_object_begin(&w, NULL);
	jw_str(&w, "image", job->image);
	jw_end(&w);
	r = jw_finish(&w);
	if (r < 0)
		return r;
	r = call_json(&(struct call_request){ .socket = job->where,
					      .method = "POST",
					      .target = "/v1/sandboxes",
					      .body = body.data,
					      .want = 201 },
		      &reply, err);
	return r < 0 ? r : take_name(reply, "id", id, err);
}

static int delete(const struct job *job, const char *id, struct cay_err *err)
{
	auto_buf target = BUF_INIT(256);
	auto_json reply = NULL;

	if (buf_printf(&target, "/v1/sandboxes/%s", id) < 0)
		return -ENOMEM;
	return call_json(&(struct call_request){ .socket = job->where,
						 .method = "DELETE",
						 .target = target.data,
						 .want = 200 },
			 &reply, err);
}

/* A request without a body: stop, start. */
static int change(const struct job *job, const char *id, const char *what, struct cay_err *err)
{
	auto_buf target = BUF_INIT(256);
	auto_json reply = NULL;

	if (buf_printf(&target, "/v1/sandboxes/%s/%s", id, what) < 0)
		return -ENOMEM;
	return call_json(&(struct call_request){ .socket = job->where,
						 .method = "POST",
						 .target = target.data,
						 .want = 200 },
			 &reply, err);
}

/* Frames until the end; *ret_first is when the first data was there. */
static int read_stream(struct call *c, uint64_t *ret_first, struct cay_err *err)
{
	struct frame_reader s =
		frame_reader_create(STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR));
	struct frame_reader_item item;
	struct slice in;
	int r;

	*ret_first = 0;
	while ((r = call_more(c, &in, err)) > 0) {
		do {
			ssize_t n = frame_reader_feed(&s, (const uint8_t *)in.p, in.n, &item);
			auto_json end = NULL;

			if (n < 0 || item.event == STREAM_ERROR)
				return cay_fail(err, CAY_E_INTERNAL, "a stream that is none");
			in.p += n;
			in.n -= (size_t)n;
			if (item.event == STREAM_DATA && !*ret_first)
				*ret_first = now_ns();
			if (item.event != STREAM_END)
				continue;
			r = json_parse((struct slice){ (const char *)item.p, item.n },
				       &json_control_limits, &end, err);
			if (r >= 0)
				r = check_end(end, err);
			if (r < 0)
				return r;
		} while (item.event != STREAM_MORE || in.n);
	}
	if (r >= 0 && (!s.over || !*ret_first))
		return cay_fail(err, CAY_E_INTERNAL, "the command wrote nothing or did not end");
	return r;
}

static int echo(const char *socket, const char *id, uint64_t *ret_first, struct cay_err *err)
{
	auto_buf target = BUF_INIT(256);
	auto_call c = { .fd = -EBADF };
	int r = buf_printf(&target, "/v1/sandboxes/%s/execs", id);

	if (r >= 0)
		r = call_start(&c,
			       &(struct call_request){ .socket = socket,
						       .method = "POST",
						       .target = target.data,
						       .accept = FRAME_MEDIA_TYPE,
						       .body = echo_body,
						       .want = 200 },
			       err);
	return r < 0 ? r : read_stream(&c, ret_first, err);
}

static int run_cold(const struct job *job, struct cay_err *err)
{
	static uint64_t whole[SAMPLES_MAX], created[SAMPLES_MAX];
	char id[NAME_MAX_LEN];

	for (size_t i = 0; i < job->n; i++) {
		uint64_t start = now_ns(), first;
		int r = create(job, id, err);

		if (r < 0)
			return r;
		created[i] = now_ns() - start;
		r = echo(job->where, id, &first, err);
		if (r < 0)
			return r;
		whole[i] = first - start;
		r = delete (job, id, err);
		if (r < 0)
			return r;
	}
	write_times(job->w, "ns", whole, job->n);
	write_times(job->w, "create_ns", created, job->n);
	return 0;
}

static int run_again(const struct job *job, struct cay_err *err)
{
	static uint64_t whole[SAMPLES_MAX], stopped[SAMPLES_MAX];
	char id[NAME_MAX_LEN];
	int r = create(job, id, err);

	for (size_t i = 0; r >= 0 && i < job->n; i++) {
		uint64_t begun = now_ns(), first = 0;

		r = change(job, id, "stop", err);
		stopped[i] = now_ns() - begun;
		begun = now_ns();
		if (r >= 0)
			r = change(job, id, "start", err);
		if (r >= 0)
			r = echo(job->where, id, &first, err);
		whole[i] = first - begun;
	}
	if (r < 0)
		return r;
	write_times(job->w, "ns", whole, job->n);
	write_times(job->w, "stop_ns", stopped, job->n);
	return delete (job, id, err);
}

/* Those that were made are printed even if one could not be: somebody has to
 * remove them, and to know how far it went. */
static int run_fill(const struct job *job, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];
	char id[NAME_MAX_LEN];
	size_t n = 0;

	jw_array_begin(job->w, "ids");
	for (; n < job->n; n++) {
		uint64_t start = now_ns();

		if (create(job, id, err) < 0)
			break;
		ns[n] = now_ns() - start;
		jw_str(job->w, NULL, id);
	}
	jw_end(job->w);
	write_times(job->w, "ns", ns, n);
	jw_str(job->w, "stopped", n < job->n ? err->msg : NULL);
	return 0;
}

/* The next id from stdin: 1, 0 when there are no more. */
static int next_id(char id[static ID_TEXT_LEN + 2], struct cay_err *err)
{
	struct id parsed;
	size_t n;

	if (!fgets(id, ID_TEXT_LEN + 2, stdin))
		return 0;
	n = strcspn(id, "\n");
	id[n] = 0;
	if (id_parse(ID_SANDBOX, (struct slice){ id, n }, &parsed) < 0)
		return cay_fail(err, CAY_E_INVALID, "not an id: '%s'", id);
	return 1;
}

static int run_empty(const struct job *job, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];
	char id[ID_TEXT_LEN + 2];
	size_t n = 0;
	int r;

	while ((r = next_id(id, err)) > 0 && n < SAMPLES_MAX) {
		uint64_t start = now_ns();

		r = delete (job, id, err);
		if (r < 0)
			return r;
		ns[n++] = now_ns() - start;
	}
	write_times(job->w, "ns", ns, n);
	return r;
}

/* /bin/true, by control's socket, by PID 1's own or by an edge: how says which. */
static int run_true(struct call_request how, const char *id, uint64_t *ret_ns, struct cay_err *err)
{
	auto_buf target = BUF_INIT(256);
	auto_json reply = NULL;
	uint64_t start;
	int r;

	if (buf_printf(&target, "/v1/sandboxes/%s/execs", id) < 0)
		return -ENOMEM;
	how.method = "POST";
	how.target = target.data;
	how.body = true_body;
	how.want = 200;
	start = now_ns();
	r = call_json(&how, &reply, err);
	*ret_ns = now_ns() - start;
	return r < 0 ? r : check_end(json_object_get(reply, "end"), err);
}

typedef int exec_fn(const struct job *job, const char *id, uint64_t *ret_ns, const void *arg,
		    struct cay_err *err);

static int run_exec_of(const struct job *job, const char *id, uint64_t *ret_ns, const void *,
		       struct cay_err *err)
{
	auto_buf socket = BUF_INIT(256);

	if (buf_printf(&socket, "%s/%s", job->where, id) < 0)
		return -ENOMEM;
	return run_true((struct call_request){ .socket = socket.data }, id, ret_ns, err);
}

static int run_cycle(const struct job *job, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];
	char id[NAME_MAX_LEN];

	for (size_t i = 0; i < job->n; i++) {
		uint64_t start = now_ns(), unused;
		int r = create(job, id, err);

		if (r >= 0)
			r = run_true((struct call_request){ .socket = job->where }, id, &unused,
				     err);
		if (r >= 0)
			r = delete (job, id, err);
		if (r < 0)
			return r;
		ns[i] = now_ns() - start;
	}
	write_times(job->w, "ns", ns, job->n);
	return 0;
}

static int run_get(const struct job *job, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];
	uint64_t bytes = 0;

	for (size_t i = 0; i < job->n; i++) {
		uint64_t start = now_ns();
		auto_call c = { .fd = -EBADF };
		struct slice in;
		int r = call_start(&c,
				   &(struct call_request){ .socket = job->where,
							   .method = "GET",
							   .target = job->image,
							   .want = 200 },
				   err);

		bytes = 0;
		while (r >= 0 && (r = call_more(&c, &in, err)) > 0)
			bytes += in.n;
		if (r < 0)
			return r;
		ns[i] = now_ns() - start;
	}
	write_times(job->w, "ns", ns, job->n);
	jw_u64(job->w, "bytes", bytes);
	return 0;
}

/* n each. */
static int each(const struct job *job, exec_fn *run, const void *arg, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];
	char id[ID_TEXT_LEN + 2];
	size_t n = 0;
	int r;

	while ((r = next_id(id, err)) > 0) {
		for (size_t i = 0; i < job->n && n < SAMPLES_MAX; i++) {
			r = run(job, id, &ns[n++], arg, err);
			if (r < 0)
				return cay_err_wrap(err, r, "%s", id);
		}
	}
	write_times(job->w, "ns", ns, n);
	return r;
}

static int run_exec(const struct job *job, struct cay_err *err)
{
	return each(job, run_exec_of, NULL, err);
}

/* The first line of a file. */
static int read_key(const char *path, char ret[static NAME_MAX_LEN], struct cay_err *err)
{
	FILE *f = fopen(path, "re");
	char *line = f ? fgets(ret, NAME_MAX_LEN, f) : NULL;

	if (f)
		(void)fclose(f);
	if (!line)
		return cay_fail(err, CAY_E_INVALID, "no key in %s", path);
	ret[strcspn(ret, "\n")] = 0;
	return 0;
}

static int run_edge_of(const struct job *, const char *id, uint64_t *ret_ns, const void *arg,
		       struct cay_err *err)
{
	const struct call_request *how = arg;

	return run_true(*how, id, ret_ns, err);
}

int dial_edge(const struct job *job, char key[static NAME_MAX_LEN], struct cay_err *err)
{
	uint64_t port;
	int r = read_key(job->image, key, err);

	if (r < 0)
		return r;
	if (str_parse_u64(slice_of(job->where), 1, 65535, &port) < 0)
		return cay_fail(err, CAY_E_INVALID, "not a port: %s", job->where);
	return call_dial_port((unsigned)port, err);
}

static int run_edge(const struct job *job, struct cay_err *err)
{
	char key[NAME_MAX_LEN];
	auto_close int fd = dial_edge(job, key, err);

	if (fd < 0)
		return fd;
	return each(job, run_edge_of, &(struct call_request){ .kept = fd, .bearer = key }, err);
}

/* `true` in a shell of the sandbox, which is opened before the first is timed. */
static int run_shell_of(const struct job *, const char *id, uint64_t *ret_ns, const void *arg,
			struct cay_err *err)
{
	static char opened[ID_TEXT_LEN + 2], shell[ID_TEXT_LEN + 2];
	struct call_request how = *(const struct call_request *)arg;
	auto_buf target = BUF_INIT(256);
	auto_json reply = NULL;
	const char *name;
	uint64_t start;
	int r = buf_printf(&target, "/v1/sandboxes/%s/shells", id);

	how.method = "POST";
	if (r >= 0 && !str_eq(opened, id)) {
		auto_json made = NULL;

		how.target = target.data;
		how.body = "{}";
		how.want = 201;
		r = call_json(&how, &made, err);
		name = json_string_value(json_object_get(made, "id"));
		if (r >= 0 && (!name || strlen(name) != ID_TEXT_LEN))
			r = cay_fail(err, CAY_E_INTERNAL, "a shell without an id");
		if (r < 0)
			return r;
		memcpy(shell, name, ID_TEXT_LEN + 1);
		memcpy(opened, id, strlen(id) + 1);
	}
	if (r < 0 || buf_printf(&target, "/%s/runs", shell) < 0)
		return -ENOMEM;
	how.target = target.data;
	how.body = "{\"command\":\"true\"}";
	how.want = 200;
	start = now_ns();
	r = call_json(&how, &reply, err);
	*ret_ns = now_ns() - start;
	return r < 0 ? r : check_end(json_object_get(reply, "end"), err);
}

static int run_shell(const struct job *job, struct cay_err *err)
{
	char key[NAME_MAX_LEN];
	auto_close int fd = dial_edge(job, key, err);

	if (fd < 0)
		return fd;
	return each(job, run_shell_of, &(struct call_request){ .kept = fd, .bearer = key }, err);
}

static int run_spawn(const struct job *job, struct cay_err *err)
{
	static uint64_t ns[SAMPLES_MAX];
	char *argv[] = { (char *)(uintptr_t)job->where, NULL }, *env[] = { NULL };

	for (size_t i = 0; i < job->n; i++) {
		uint64_t start = now_ns();
		int status = -1, r;
		pid_t pid;

		r = posix_spawn(&pid, job->where, NULL, NULL, argv, env);
		if (r != 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, r, "spawn %s", job->where);
		if (waitpid(pid, &status, 0) < 0 || status != 0)
			return cay_fail(err, CAY_E_INTERNAL, "%s failed", job->where);
		ns[i] = now_ns() - start;
	}
	write_times(job->w, "ns", ns, job->n);
	return 0;
}

static const struct {
	const char *name;
	bool image, n;
	int (*run)(const struct job *job, struct cay_err *err);
} modes[] = {
	{ "cold", true, true, run_cold },     { "fill", true, true, run_fill },
	{ "cycle", true, true, run_cycle },   { "get", true, true, run_get },
	{ "exec", false, true, run_exec },    { "empty", false, false, run_empty },
	{ "edge", true, true, run_edge },     { "spawn", false, true, run_spawn },
	{ "docker", true, true, run_docker }, { "claim", true, true, run_claim },
	{ "burst", true, true, run_burst },   { "shell", true, true, run_shell },
	{ "edit", true, true, run_edit },     { "again", true, true, run_again },
};

static int parse(int argc, char **argv, struct job *job, size_t *ret_mode, struct cay_err *err)
{
	uint64_t n = 0;
	int args;

	for (size_t i = 0; i < ARRAY_SIZE(modes) && argc > 1; i++) {
		if (!str_eq(argv[1], modes[i].name))
			continue;
		args = 3 + modes[i].image + modes[i].n;
		if (argc != args ||
		    (modes[i].n && str_parse_u64(slice_of(argv[args - 1]), 1, SAMPLES_MAX, &n) < 0))
			return cay_fail(err, CAY_E_INVALID, "%s: see the head of client.c",
					argv[1]);
		job->where = argv[2];
		job->image = modes[i].image ? argv[3] : NULL;
		job->n = n;
		*ret_mode = i;
		return 0;
	}
	return cay_fail(err, CAY_E_INVALID, "there is no such mode");
}

int main(int argc, char **argv)
{
	auto_buf out = BUF_INIT(OUT_MAX);
	struct jw w = jw_to(&out);
	struct job job = { .w = &w };
	struct cay_err err = {};
	size_t mode = 0;
	int r = parse(argc, argv, &job, &mode, &err);

	jw_object_begin(&w, NULL);
	if (r >= 0)
		r = modes[mode].run(&job, &err);
	jw_end(&w);
	if (r < 0 || jw_finish(&w) < 0 || puts(out.data) < 0) {
		(void)fprintf(stderr, "client: %s\n", err.msg);
		return 1;
	}
	return 0;
}
