/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "init/core/handlers.h"
#include "init/exec/output-stream.h"
#include "init/kernel/kernel-parent.h"
#include "init/kernel/kernel-texts.h"
#include "ops/package.h"

/* A sandbox's Python is its own, also where a distribution reserves it for its packages. */
static const char *const pip_env[][2] = { { "PIP_BREAK_SYSTEM_PACKAGES", "1" },
					  { "PIP_ROOT_USER_ACTION", "ignore" },
					  { "PIP_NO_INPUT", "1" },
					  { "PIP_DISABLE_PIP_VERSION_CHECK", "1" } };

/* A program around the installer: it prints the versions that are installed when it has ended. */
static const struct kernel_installer {
	const char *language, *interpreter, *option;
	const unsigned char *const *text;
	const char *last; /* of the interpreter's options */
	size_t skip;      /* arguments of the installer's command that it replaces */
} kernel_installers[] = {
	{ "python", "python3", "-c", &kernel_text_install_python, NULL, 3 },
	{ "node", "node", "-e", &kernel_text_install_node, "--", 1 },
};
#define INTERPRETER_ARGS 4

/* A namespace without an egress policy has no route but loopback's.  Nothing is sent. */
static bool init_has_network(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(53),
				  .sin_addr.s_addr = htonl(UINT32_C(0xc0000001)) };
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 &&
	       (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 || errno != ENETUNREACH);
}

static const struct package_manager *kernel_package_manager(const struct kernel *k)
{
	const struct package_manager *m = package_managers;

	while (m->name && !str_eq(m->name, k->language->name))
		m++;
	return m->name ? m : NULL;
}

/* How many arguments of the installer's own command are replaced. */
static size_t kernel_install_wrap(const struct kernel *k, struct field_texts *argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernel_installers); i++) {
		const struct kernel_installer *of = &kernel_installers[i];

		if (!str_eq(of->language, k->language->name))
			continue;
		argv->v[argv->n++] = of->interpreter;
		argv->v[argv->n++] = of->option;
		argv->v[argv->n++] = (const char *)*of->text;
		if (of->last)
			argv->v[argv->n++] = of->last;
		return of->skip;
	}
	return 0;
}

/* The installer and its arguments.  npm installs into the kernel's directory, where its require()
 * looks. */
static int kernel_install_argv(const struct kernel *k, const struct package_manager *m,
			       const struct field_map *names, struct arena *arena,
			       struct field_texts *ret, struct cay_err *err)
{
	struct packages all = {};
	struct field_texts argv;

	memcpy((char *)&all + m->offset, names, sizeof(*names));
	if (!names->n)
		return cay_fail_field(err, CAY_E_INVALID, "packages", "name at least one package");
	if (packages_check(&all, err) < 0)
		return -EINVAL;
	if (package_install_argv(m, names, arena, &argv) < 0)
		return cay_no_memory(err);
	*ret = (struct field_texts){
		arena_alloc(arena, INTERPRETER_ARGS + argv.n + 1, sizeof(*ret->v)), 0
	};
	if (!ret->v)
		return cay_no_memory(err);
	for (size_t i = kernel_install_wrap(k, ret); i < argv.n; i++)
		if (!str_eq(argv.v[i], "--global"))
			ret->v[ret->n++] = argv.v[i];
	ret->v[ret->n] = NULL;
	return 0;
}

/* The kernel's own variables, and then those for pip. */
static int kernel_install_env(const struct kernel *k, struct arena *arena, struct field_map *ret,
			      struct cay_err *err)
{
	size_t max = k->env.n + ARRAY_SIZE(pip_env);

	*ret = (struct field_map){ arena_alloc(arena, max, sizeof(*ret->keys)),
				   arena_alloc(arena, max, sizeof(*ret->values)), 0 };
	if (!ret->keys || !ret->values)
		return cay_no_memory(err);
	for (size_t i = 0; i < k->env.n; i++, ret->n++) {
		ret->keys[ret->n] = k->env.keys[i];
		ret->values[ret->n] = k->env.values[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(pip_env); i++, ret->n++) {
		ret->keys[ret->n] = pip_env[i][0];
		ret->values[ret->n] = pip_env[i][1];
	}
	return 0;
}

static int kernel_install_start(struct kernel *k, struct request *rq, struct exec **ret,
				struct cay_err *err)
{
	const struct kernel_install *q = rq->body;
	const struct package_manager *m = kernel_package_manager(k);
	/* Python and R would also load what lies in the directory */
	struct exec_run req = { .has_argv = true,
				.user = k->user,
				.cwd = str_eq(k->language->name, "node") ? k->session.cwd : "/",
				.timeout_ms = q->timeout_ms };
	int r = m ? kernel_install_argv(k, m, &q->packages, &rq->arena, &req.argv, err)
		  : cay_fail(err, CAY_E_UNSUPPORTED, "%s has no installer", k->language->name);

	if (r >= 0 && !init_has_network()) {
		r = cay_fail(err, CAY_E_STATE,
			     "the sandbox has no network, so packages cannot be fetched");
		cay_err_hint(err, "give it an egress policy that allows the package index: "
				  "'cay egress set --preset packages SANDBOX', or `egress` at "
				  "create; install packages that are in the sandbox with exec.run");
	}
	if (r >= 0)
		r = kernel_install_env(k, &rq->arena, &req.env, err);
	if (r < 0)
		return r;
	return exec_start(k->session.init, &req, &rq->match.params[0],
			  q->detach ? OUTPUT_DROP : OUTPUT_BLOCK, ret, err);
}

/* The installer is an exec like a client's own, so its reply, stream and id are. */
void op_kernel_install(struct request *rq, void *arg)
{
	const struct kernel_install *q = rq->body;
	struct init *in = arg;
	struct session *s = session_from_request(&in->kernels, rq);
	struct run_query part = { q->max_output_bytes, q->keep };
	bool detach = q->detach;
	struct cay_err err = {};
	struct exec *exec;

	if (!s)
		return;
	if (kernel_install_start(kernel_of(s), rq, &exec, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	kernel_parent_set_stale(in);
	request_free_body(rq);
	output_stream_reply_run(exec, rq, detach ? NULL : &part);
}
