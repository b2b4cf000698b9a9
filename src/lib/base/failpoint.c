/* SPDX-License-Identifier: Apache-2.0 */
#include "base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include "base/str.h"

enum action { NOTHING, FAIL, FAIL_ALWAYS, KILL };

static const char *const failpoint_names[] = {
#define CAY_FAULT_POINT(sym, name) [FAULT_##sym] = name,
#include "base/failpoints.def"
#undef CAY_FAULT_POINT
};
static_assert(ARRAY_SIZE(failpoint_names) == FAULT_NUM);

/* The one table of this program that is not passed around: it must be reachable
 * from anywhere and is written only before the loop starts. */
static struct {
	enum action action;
	uint64_t countdown; /* passes until it acts */
} armed[FAULT_NUM];

const char *failpoint_name(enum failpoint point)
{
	return failpoint_names[point];
}

static int failpoint_arm_one(struct slice s, struct cay_err *err)
{
	struct slice name = slice_cut(&s, '='), action = slice_cut(&s, '@');
	enum action a = NOTHING;
	uint64_t pass = 1;

	if (slice_eq(action, SLICE("kill")))
		a = KILL;
	else if (slice_eq(action, SLICE("error")))
		a = FAIL;
	else if (slice_eq(action, SLICE("always")))
		a = FAIL_ALWAYS;
	else
		return cay_fail(err, CAY_E_INVALID,
				"failpoint action '%.*s' is not kill, error or always",
				(int)action.n, action.p ? action.p : "");
	if (s.p && str_parse_u64(s, 1, UINT32_MAX, &pass) < 0)
		return cay_fail(err, CAY_E_INVALID, "failpoint count '%.*s' is not a number",
				(int)s.n, s.p);
	for (unsigned i = 0; i < FAULT_NUM; i++)
		if (slice_eq(name, slice_of(failpoint_names[i]))) {
			armed[i].action = a;
			armed[i].countdown = pass;
			return 0;
		}
	return cay_fail(err, CAY_E_INVALID, "there is no failpoint '%.*s'", (int)name.n, name.p);
}

int failpoint_arm(const char *spec, struct cay_err *err)
{
	struct slice rest = slice_of(spec ? spec : "");

	memset(armed, 0, sizeof(armed));
	while (rest.n) {
		int r = failpoint_arm_one(slice_cut(&rest, ','), err);

		if (r < 0)
			return r;
	}
	return 0;
}

int failpoint_hit(enum failpoint point)
{
	if (armed[point].action == NOTHING || --armed[point].countdown > 0)
		return 0;
	if (armed[point].action == KILL) {
		(void)raise(SIGKILL);
		_exit(128 + SIGKILL); /* PID 1 of a namespace cannot kill itself */
	}
	if (armed[point].action == FAIL_ALWAYS)
		armed[point].countdown = 1;
	else
		armed[point].action = NOTHING;
	return -EIO;
}
