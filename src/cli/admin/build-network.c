/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/admin/build-network.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "archive/tar.h"
#include "base/path.h"
#include "cgroup/cgroup.h"
#include "cli/print/print.h"

#define IMAGE_NAME "cay-build-network-"
#define IMAGE_NAME_BYTES 48
#define IMAGE_FILE "network.tar"
#define LIFE_MS UINT64_C(3600000) /* of the sandbox, should this program be killed */
#define MEMORY_BYTES MIB(64)
#define PATH_BYTES 128
#define REMOVE_TRIES 60
#define REMOVE_AGAIN_MS 500

/* PID 1 is cay-init, and nothing else runs: a program that is none makes it a tree.  Its
 * text is the name, so it is an image of this build alone, which removes it. */
static int on_image_bytes(void *arg, const void *p, size_t n, struct cay_err *err)
{
	int r = fd_write_all(*(const int *)arg, p, n);

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write an image") : 0;
}

static int image_write(const char *path, const char *name, struct cay_err *err)
{
	const struct tar_entry program = {
		.type = TAR_FILE, .name = "program", .mode = 0755, .size = strlen(name)
	};
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct tar_writer w;
	int r;

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "write '%s'", path);
	tar_writer_init(&w, on_image_bytes, &fd);
	r = tar_write_entry(&w, &program, err);
	if (r >= 0)
		r = tar_write_data(&w, name, program.size, err);
	if (r >= 0)
		r = tar_write_end(&w, err);
	tar_writer_fini(&w);
	return r;
}

static int build_network_import_image(struct cli *c, const char *dir, struct build_network *n,
				      struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_BYTES);
	struct image_info made = {};
	char name[IMAGE_NAME_BYTES];
	uint64_t random = 0;
	int r = buf_printf(&path, "%s/" IMAGE_FILE, dir), len = -1;

	if (getrandom(&random, sizeof(random), 0) == sizeof(random))
		len = snprintf(name, sizeof(name), IMAGE_NAME "%016llx",
			       (unsigned long long)random);
	if (r < 0 || len < 0)
		return cay_no_memory(err);
	r = image_write(buf_str(&path), name, err);
	if (r >= 0)
		r = image_import_send(c, buf_str(&path), name, &made, err);
	if (r >= 0)
		n->image = made.id;
	return r;
}

static int build_network_create_sandbox(struct cli *c, const struct egress_spec *policy,
					const struct id *image, struct sandbox_info *ret,
					struct cay_err *err)
{
	struct sandbox_create_args args = {};
	struct sandbox_create *request = &args.create;
	char text[ID_TEXT_LEN + 1];
	int r;

	create_request_init(request);
	id_format(image, text);
	request->image = text;
	request->ttl_ms = LIFE_MS;
	request->limits.memory_bytes = MEMORY_BYTES;
	r = create_request_apply_args(c, &args, request, err);
	request->has_egress = true;
	request->egress = *policy;
	if (r >= 0)
		r = api_call(&c->api,
			     &(struct api_call){ .op = OP_SANDBOX_CREATE, .request = request }, ret,
			     err);
	return r;
}

/* A namespace of a process, unless it is ours as well: a worker of the keeper may still be leaving
 * the sandbox's cgroup. */
static int namespace_open(uint64_t pid, const char *which)
{
	auto_buf path = BUF_INIT(PATH_BYTES), own = BUF_INIT(PATH_BYTES);
	struct stat theirs, ours;
	auto_close int fd = -EBADF;

	if (buf_printf(&path, "/proc/%llu/ns/%s", (unsigned long long)pid, which) < 0 ||
	    buf_printf(&own, "/proc/self/ns/%s", which) < 0)
		return -ENOMEM;
	fd = open(buf_str(&path), O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &theirs) < 0 || stat(buf_str(&own), &ours) < 0)
		return -errno;
	return theirs.st_ino == ours.st_ino ? -EAGAIN : cay_take_fd(&fd);
}

static bool cgroup_has_process(int dir, uint64_t pid)
{
	auto_buf text = BUF_INIT(KIB(64));
	struct slice rest;
	uint64_t one;

	if (path_read(dir, "cgroup.procs", &text) < 0)
		return false;
	rest = (struct slice){ buf_str(&text), text.len };
	while (rest.p)
		if (str_parse_u64(slice_cut(&rest, '\n'), 1, INT32_MAX, &one) == 0 && one == pid)
			return true;
	return false;
}

/* "0 100000 65536": the id outside of 0 inside. */
static int user_map_read_root(uint64_t pid, uid_t *ret)
{
	auto_buf text = BUF_INIT(KIB(4)), name = BUF_INIT(PATH_BYTES);
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct slice line, all;
	uint64_t number[2];
	size_t n = 0;

	if (proc < 0 || buf_printf(&name, "%llu/uid_map", (unsigned long long)pid) < 0 ||
	    path_read(proc, buf_str(&name), &text) < 0)
		return -ENOENT;
	all = (struct slice){ buf_str(&text), text.len };
	line = slice_cut(&all, '\n');
	while (line.p && n < ARRAY_SIZE(number)) {
		struct slice word = slice_cut(&line, ' ');

		if (word.n && str_parse_u64(word, 0, UINT32_MAX - 1, &number[n++]) < 0)
			return -EINVAL;
	}
	if (n < ARRAY_SIZE(number) || number[0] || !number[1])
		return -EINVAL;
	*ret = (uid_t)number[1];
	return 0;
}

/* The process is looked for again afterwards: its number may have become another one's. */
static bool build_network_join(int dir, uint64_t pid, struct build_network *n)
{
	n->user_ns = namespace_open(pid, "user");
	n->net_ns = namespace_open(pid, "net");
	if (n->user_ns >= 0 && n->net_ns >= 0 && user_map_read_root(pid, &n->root) >= 0 &&
	    cgroup_has_process(dir, pid))
		return true;
	cay_closep(&n->user_ns);
	cay_closep(&n->net_ns);
	n->user_ns = n->net_ns = -EBADF;
	return false;
}

static int build_network_find(struct cli *c, const struct sandbox_info *made,
			      struct build_network *n, struct cay_err *err)
{
	auto_cgroup top = CGROUP_INIT, of = CGROUP_INIT;
	auto_buf text = BUF_INIT(KIB(64));
	struct slice rest;
	uint64_t pid;
	int r = cgroup_open_top(c->settings.cgroup, &top, err);

	if (r < 0)
		return r;
	if (cgroup_open_sandbox(&top, &made->tenant, &made->id, &of) < 0 ||
	    path_read(of.v2, "cgroup.procs", &text) < 0)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"the sandbox of the build is not on this machine: run cay there");
	rest = (struct slice){ buf_str(&text), text.len };
	while (rest.p)
		if (str_parse_u64(slice_cut(&rest, '\n'), 1, INT32_MAX, &pid) == 0 &&
		    build_network_join(of.v2, pid, n))
			return 0;
	return cay_fail(err, CAY_E_INTERNAL, "the sandbox of the build has no process");
}

int build_network_open(struct cli *c, const struct egress_spec *policy, const char *dir,
		       struct build_network *ret, struct cay_err *err)
{
	struct sandbox_info made = {};
	int r;

	if (geteuid() != 0)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"--build-egress needs root: buildah joins the namespaces of a "
				"sandbox");
	ret->open = true;
	r = build_network_import_image(c, dir, ret, err);
	if (r >= 0)
		r = build_network_create_sandbox(c, policy, &ret->image, &made, err);
	if (r < 0)
		return r;
	ret->sandbox = made.id;
	return build_network_find(c, &made, ret, err);
}

static const char *decision_target(const struct egress_decision *d)
{
	return d->name ? d->name : d->address ? d->address : "";
}

void build_network_print_denied(struct cli *c, const struct build_network *n)
{
	const struct egress_log_filter denied = { .has_verdict = true, .verdict = EGRESS_DENIED };
	struct egress_log_page page = {};
	const struct egress_decision *rows;
	struct cay_err none = {};

	if (n->sandbox.noun == ID_NONE ||
	    api_call(&c->api,
		     &(struct api_call){
			     .op = OP_EGRESS_LOG, .ids = { n->sandbox }, .query = &denied },
		     &page, &none) < 0)
		return;
	rows = page.decisions.v;
	for (size_t i = 0; i < page.decisions.n; i++) {
		const char *to = decision_target(&rows[i]);
		bool again = !to[0];

		for (size_t k = 0; !again && k < i; k++)
			again = str_eq(to, decision_target(&rows[k]));
		if (!again)
			print_note("the policy of the build denied %s", to);
	}
}

/* None is removed while any is unpacked, such as that of another build. */
static void build_network_remove_image(struct cli *c, const struct id *image)
{
	const struct api_call call = { .op = OP_IMAGE_DELETE, .ids = { *image } };
	struct cay_err err = {};

	for (unsigned i = 0; i < REMOVE_TRIES; i++) {
		err = (struct cay_err){};
		if (api_call(&c->api, &call, NULL, &err) >= 0)
			return;
		if (err.code != CAY_E_UNAVAILABLE)
			break;
		(void)poll(NULL, 0, REMOVE_AGAIN_MS);
	}
	print_note("cannot remove the image of the build: %s", err.msg);
}

void build_network_close(struct cli *c, struct build_network *n)
{
	struct cay_err none = {};

	cay_closep(&n->user_ns);
	cay_closep(&n->net_ns);
	if (n->sandbox.noun != ID_NONE &&
	    api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { n->sandbox } },
		     NULL, &none) < 0)
		print_note("cannot remove the sandbox of the build: %s", none.msg);
	if (n->image.noun != ID_NONE)
		build_network_remove_image(c, &n->image);
	*n = BUILD_NETWORK_INIT;
}
