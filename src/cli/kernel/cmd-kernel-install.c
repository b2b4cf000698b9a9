/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/exec/session.h"
#include "cli/print/print.h"

#define PACKAGES_MAX 256
#define REPLY_OUTPUT_MAX MIB(4)

#define AT(m) offsetof(struct kernel_install, m)

static const struct opt rows[] = {
	{ "timeout", 'T', OPT_DURATION, AT(timeout_ms), .arg = "TIME",
	  .help = "End the installer after this time. By default 10m" },
};

/* NAME or NAME==VERSION; the server checks both. */
static int cmd_kernel_install_add(struct cli *c, const char *word, struct field_map *to,
				  struct cay_err *err)
{
	const char *version = strstr(word, "==");
	size_t n = version ? (size_t)(version - word) : strlen(word);
	char *name = arena_strndup(&c->arena, word, n);

	if (!name)
		return cay_no_memory(err);
	if (!n || (version && !version[2]))
		return cay_fail(err, CAY_E_INVALID,
				"kernel install: '%s' is not PACKAGE or PACKAGE==VERSION", word);
	for (size_t i = 0; i < to->n; i++)
		if (str_eq(to->keys[i], name))
			return cay_fail(err, CAY_E_INVALID, "kernel install: '%s' is named twice",
					name);
	to->keys[to->n] = name;
	to->values[to->n++] = version ? version + 2 : "";
	return 0;
}

static int cmd_kernel_install_packages(struct cli *c, const struct opt_words *w,
				       struct field_map *ret, struct cay_err *err)
{
	size_t n = w->n_operands - 2;
	int r = 0;

	if (n > PACKAGES_MAX)
		return cay_fail(err, CAY_E_INVALID, "kernel install: more than %d packages",
				PACKAGES_MAX);
	*ret = (struct field_map){ arena_alloc(&c->arena, n, sizeof(*ret->keys)),
				   arena_alloc(&c->arena, n, sizeof(*ret->values)), 0 };
	if (!ret->keys || !ret->values)
		return cay_no_memory(err);
	for (size_t i = 2; r >= 0 && i < w->n_operands; i++)
		r = cmd_kernel_install_add(c, w->operands[i], ret, err);
	return r;
}

/* The reply when the installer has ended, as it came. */
static int cmd_kernel_install_json(struct cli *c, const struct api_call *call, struct end *ret,
				   struct cay_err *err)
{
	struct exec_info info = {};
	int r = api_call(&c->api, call, &info, err);

	if (r >= 0 && !info.has_end)
		r = cay_fail(err, CAY_E_MISBEHAVED, "kernel.install: the reply lacks the end");
	*ret = info.end;
	return r < 0 ? r : print_json(&exec_info_table, &info, err);
}

static int cmd_kernel_install_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct kernel_install request = *(const struct kernel_install *)c->args;
	struct api_call call = { .op = OP_KERNEL_INSTALL, .request = &request };
	uint64_t began = clk_boot_ns(&clk_system);
	struct session_spec spec = { .start = &call };
	struct session_result result = {};
	int r = cmd_kernel_install_packages(c, w, &request.packages, err);

	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	if (r >= 0)
		r = api_find_kernel(&c->api, &call.ids[0], w->operands[1], &call.ids[1], err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	spec.sandbox = call.ids[0];
	if (r >= 0)
		r = c->global.json ? cmd_kernel_install_json(c, &call, &result.end, err)
				   : session_run(&c->api, &spec, &result, err);
	if (r < 0 || result.quit)
		return r < 0 ? r : result.quit;
	return exit_status_from_end(&result.end, (clk_boot_ns(&clk_system) - began) / NS_PER_MS);
}

const struct cmd cmd_kernel_install = {
	CMD_USAGE("kernel install", "[OPTION...] SANDBOX KERNEL PACKAGE[==VERSION]..."),
	CMD_OPERANDS(3, SIZE_MAX, OPERAND_SANDBOX, OPERAND_KERNEL),
	CMD_OPTIONS(kernel_install, OPTS(rows, 0)),
	.defaults = &(const struct kernel_install){ .timeout_ms = 600000,
						    .max_output_bytes = REPLY_OUTPUT_MAX,
						    .keep = KEEP_TAIL },
	.help = "Install packages for a kernel, with pip, npm or R",
	.more = "Without a version it is the newest. What the installer writes is passed on as "
		"it arrives; its last lines are 'cay: installed NAME VERSION'. Its exit status "
		"is the exit status of cay; Ctrl-C interrupts it. It reaches the hosts that the "
		"egress policy of the sandbox allows: 'cay egress set --preset packages "
		"SANDBOX'. A kernel that has imported a package keeps the version it has until "
		"'cay kernel restart'. With --json the installer's exec is printed when it has "
		"ended.",
	.run = cmd_kernel_install_run,
};
