/* SPDX-License-Identifier: Apache-2.0 */
/* setup-first - create a sandbox to test the installation */
#include "base/clock.h"
#include "cli/exec/session.h"
#include "cli/setup/setup.h"

/* Always to be done: a sandbox is the test of the setup. */
int setup_sandbox_check(struct setup *s, struct cay_err *)
{
	return setup_report(s, 0, "not tried");
}

static int setup_sandbox_run_true(struct setup *s, const struct id *id, struct cay_err *err)
{
	const char *argv[] = { "/bin/true" };
	struct session_result result = {};
	struct session_spec spec = {
		.sandbox = *id,
		.request = { .has_argv = true, .argv = { argv, 1 } },
		.discard = true,
	};
	int r = session_run(s->api, &spec, &result, err);

	if (r >= 0 && (result.quit || result.end.reason != END_EXIT || result.end.exit_code))
		return cay_fail(err, CAY_E_MISBEHAVED, "'/bin/true' failed in the sandbox");
	return r;
}

int setup_sandbox_apply(struct setup *s, struct cay_err *err)
{
	struct sandbox_create request = { .image = SETUP_IMAGE };
	struct api_call create = { .op = OP_SANDBOX_CREATE, .request = &request }, removal;
	struct cay_err gone = {};
	struct sandbox_info made = {};
	uint64_t t0 = clk_boot_ns(&clk_system), t1, t2;
	int r, removed;

	create_request_init(&request);
	create_request_mark_given(&request);
	r = api_call(s->api, &create, &made, err);
	if (r < 0)
		return r;
	t1 = clk_boot_ns(&clk_system);
	r = setup_sandbox_run_true(s, &made.id, err);
	t2 = clk_boot_ns(&clk_system);
	removal = (struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { made.id } };
	removed = api_call(s->api, &removal, &(struct sandbox_info){}, &gone);
	if (r >= 0 && removed < 0) {
		*err = gone;
		return removed;
	}
	return r < 0 ? r
		     : setup_report(s, 0, "created in %llu ms, ran a command in %llu ms, deleted",
				    (unsigned long long)((t1 - t0) / NS_PER_MS),
				    (unsigned long long)((t2 - t1) / NS_PER_MS));
}
