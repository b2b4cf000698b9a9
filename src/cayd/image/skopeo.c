/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/skopeo.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"
#include "cayd/image/registry.h"
#include "text/json.h"
#include "text/reference.h"

#define SAID "said.json"
#define COMPLAINTS "complaints"
#define SAID_MAX MIB(4)
#define COMPLAINTS_MAX KIB(256)
#define ARGS_MAX 24
#define DEPTH_MAX 4

/* HOST/PATH@DIGEST, or with a tag: skopeo takes no reference with both. */
static int skopeo_source_format(const char *reference, struct reference *ref, struct buf *ret)
{
	int r = reference_parse(slice_of(reference), ref);

	if (r >= 0)
		r = buf_printf(ret, "docker://%.*s/%.*s", (int)ref->host.n, ref->host.p,
			       (int)ref->path.n, ref->path.p);
	if (r >= 0 && ref->digest.n)
		r = buf_printf(ret, "@%.*s", (int)ref->digest.n, ref->digest.p);
	else if (r >= 0 && ref->tag.n)
		r = buf_printf(ret, ":%.*s", (int)ref->tag.n, ref->tag.p);
	return r;
}

struct skopeo_args {
	struct buf dir, home, tmp, auth, conf, to, source, size;
};

static void skopeo_args_fini(struct skopeo_args *w)
{
	struct buf *all[] = { &w->dir,  &w->home, &w->tmp,    &w->auth,
			      &w->conf, &w->to,   &w->source, &w->size };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		buf_fini(all[i]);
}

static int skopeo_args_format(const struct skopeo *job, struct skopeo_args *w,
			      struct reference *ref)
{
	const char *state = job->settings->state_dir;

	if (buf_printf(&w->dir, "%s/tmp/%s", state, job->dir) < 0 ||
	    buf_printf(&w->home, "HOME=%s", buf_str(&w->dir)) < 0 ||
	    buf_printf(&w->tmp, "TMPDIR=%s", buf_str(&w->dir)) < 0 ||
	    buf_printf(&w->auth, "%s/" SKOPEO_AUTH, buf_str(&w->dir)) < 0 ||
	    buf_printf(&w->conf, "%s/" SKOPEO_CONF, buf_str(&w->dir)) < 0 ||
	    buf_printf(&w->to, "oci-archive:%s/" SKOPEO_ARCHIVE, buf_str(&w->dir)) < 0 ||
	    buf_printf(&w->size, "--fsize=%" PRIu64,
		       job->settings->images_pull_max + (uint64_t)MIB(1)) < 0)
		return -ENOMEM;
	return skopeo_source_format(job->reference, ref, &w->source);
}

#define WORD BUF_INIT(KIB(8))

/* setpriv makes it die with cayd, prlimit bounds its files; both exec the next. */
int skopeo_start(const struct skopeo *job, struct child *ret, struct cay_err *err)
{
	CAY_CLEANUP(skopeo_args_fini)
	struct skopeo_args w = { WORD, WORD, WORD, WORD, WORD, WORD, WORD, WORD };
	const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	auto_close int out = path_open(job->dir_fd, SAID, flags, 0600);
	auto_close int complaints = path_open(job->dir_fd, COMPLAINTS, flags, 0600);
	const char *argv[ARGS_MAX] = { "setpriv", "--pdeathsig", "KILL", "--", "/usr/bin/prlimit" };
	struct spawn s = SPAWN_INIT("/usr/bin/setpriv", argv);
	struct reference ref;
	size_t n = 5;

	if (out < 0 || complaints < 0 || skopeo_args_format(job, &w, &ref) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot prepare skopeo");
	argv[n++] = buf_str(&w.size);
	argv[n++] = "--core=0";
	argv[n++] = job->settings->images_skopeo;
	argv[n++] = "--insecure-policy";
	argv[n++] = "--registries-conf";
	argv[n++] = buf_str(&w.conf);
	argv[n++] = "--tmpdir";
	argv[n++] = buf_str(&w.dir);
	argv[n++] = job->copy ? "copy" : "inspect";
	argv[n++] = job->copy ? "--quiet" : "--no-tags";
	argv[n++] = "--authfile";
	argv[n++] = buf_str(&w.auth);
	if (registry_is_listed(job->settings->images_insecure, ref.host))
		argv[n++] = job->copy ? "--src-tls-verify=false" : "--tls-verify=false";
	argv[n++] = buf_str(&w.source);
	if (job->copy)
		argv[n++] = buf_str(&w.to);
	s.env = (const char *const[]){ "PATH=/usr/bin:/bin", buf_str(&w.home), buf_str(&w.tmp),
				       NULL };
	s.n_fds = 3;
	s.fds[0] = -EBADF;
	s.fds[1] = out;
	s.fds[2] = complaints;
	s.session = true;
	return child_start(&s, ret, err);
}

int skopeo_read_total_size(int dir_fd, uint64_t *ret)
{
	static const struct json_limits limits = { SAID_MAX, 32, 65536 };
	auto_buf text = BUF_INIT(SAID_MAX);
	auto_json j = NULL;
	const json_t *layer;
	uint64_t sum = 0;
	size_t i;
	int r = path_read(dir_fd, SAID, &text);

	if (r >= 0)
		r = json_parse((struct slice){ buf_str(&text), text.len }, &limits, &j, NULL);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(j, "LayersData"), i, layer)
	{
		json_int_t size = json_integer_value(json_object_get(layer, "Size"));

		if (size < 0 || (uint64_t)size > INT64_MAX - sum)
			return -ERANGE;
		sum += (uint64_t)size;
	}
	*ret = sum;
	return 0;
}

struct skopeo_byte_count {
	uint64_t bytes;
	unsigned depth;
};

static int skopeo_count_entry(void *arg, int dirfd, const char *name)
{
	struct skopeo_byte_count *c = arg;
	auto_close int fd = -EBADF;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		c->bytes += (uint64_t)st.st_size;
	if (!S_ISDIR(st.st_mode) || c->depth == DEPTH_MAX)
		return 0;
	fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return 0;
	c->depth++;
	(void)path_for_each_entry(fd, skopeo_count_entry, c);
	c->depth--;
	return 0;
}

uint64_t skopeo_count_bytes(int dir_fd)
{
	struct skopeo_byte_count c = {};

	(void)path_for_each_entry(dir_fd, skopeo_count_entry, &c);
	return c.bytes;
}

enum cay_code skopeo_describe_failure(int dir_fd, int status, const char **ret_text)
{
	static const struct {
		const char *word;
		enum cay_code code;
		const char *text;
	} rows[] = {
		{ "file too large", CAY_E_TOO_LARGE, "the image is larger than images.pull_size" },
		{ "no space left", CAY_E_DISK_FULL, "the disk is full" },
		{ "quota exceeded", CAY_E_DISK_FULL, "the disk is full" },
		{ "unauthorized", CAY_E_FORBIDDEN, "the registry rejected the credentials" },
		{ "authentication required", CAY_E_FORBIDDEN,
		  "the registry rejected the credentials" },
		{ "invalid username/password", CAY_E_FORBIDDEN,
		  "the registry rejected the credentials" },
		{ "denied", CAY_E_FORBIDDEN, "the registry denied access" },
		{ "forbidden", CAY_E_FORBIDDEN, "the registry denied access" },
		{ "manifest unknown", CAY_E_NOT_FOUND, "the registry has no such image" },
		{ "name unknown", CAY_E_NOT_FOUND, "the registry has no such image" },
		{ "not found", CAY_E_NOT_FOUND, "the registry has no such image" },
		{ "no image found", CAY_E_NOT_FOUND,
		  "the registry has no image for this architecture" },
	};
	auto_buf text = BUF_INIT(COMPLAINTS_MAX);

	*ret_text = "cannot reach the registry, or it is not a registry";
	if (status == -SIGXFSZ) {
		*ret_text = rows[0].text;
		return rows[0].code;
	}
	if (path_read(dir_fd, COMPLAINTS, &text) < 0)
		return CAY_E_UNAVAILABLE;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcasestr(buf_str(&text), rows[i].word)) {
			*ret_text = rows[i].text;
			return rows[i].code;
		}
	return CAY_E_UNAVAILABLE;
}
