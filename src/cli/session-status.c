/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-status - how an end becomes the exit status of a shell's world
 */
#include <signal.h>

#include "base/clock.h"
#include "cli/rows.h"
#include "cli/session.h"
#include "cli/show.h"
#include "text/time.h"

/* Reasons that are not the command's own doing are said, with timeout(1)'s and
 * the shell's numbers where those have one. */
static const struct {
	int status;
	bool said;
} rows[END_NUM_REASONS] = {
	[END_EXIT] = { 0, false },
	[END_SIGNAL] = { 0, false },
	[END_TIMEOUT] = { 124, true },
	[END_OOM] = { 128 + SIGKILL, true },
	[END_KILLED] = { 128 + SIGKILL, true },
	[END_TTL] = { 124, true },
	[END_IDLE] = { 124, true },
	[END_QUOTA] = { 125, true },
	[END_EVICTED] = { 125, true },
	[END_START_FAILED] = { 126, true },
	[END_NODE_LOST] = { 125, true },
};

/* Real-time signals are counted from the kernel's 32, as cay-init does. */
#define RT_FIRST 32u
#define RT_LAST 64u

static bool begins(struct slice *s, struct slice with)
{
	if (s->n < with.n || memcmp(s->p, with.p, with.n) != 0)
		return false;
	s->p += with.n;
	s->n -= with.n;
	return true;
}

int session_signal_status(const char *name)
{
	struct slice s = slice_of(name);
	uint64_t n = 0;

	(void)begins(&s, SLICE("SIG"));
	for (int sig = 1; sig < (int)RT_FIRST; sig++)
		if (sigabbrev_np(sig) && slice_eq(s, slice_of(sigabbrev_np(sig))))
			return 128 + sig;
	if (begins(&s, SLICE("RTMIN")) &&
	    (!s.n || (begins(&s, SLICE("+")) && str_u64(s, 0, RT_LAST - RT_FIRST, &n) == 0)))
		return 128 + (int)(RT_FIRST + n);
	if (begins(&s, SLICE("RTMAX")) &&
	    (!s.n || (begins(&s, SLICE("-")) && str_u64(s, 0, RT_LAST - RT_FIRST, &n) == 0)))
		return 128 + (int)(RT_LAST - n);
	return 255;
}

int session_status(const struct end *end, uint64_t ran_ms)
{
	char ran[DURATION_TEXT_MAX];

	if (end->reason == END_EXIT)
		return (int)end->exit_code;
	if (end->reason == END_SIGNAL)
		return end->signal ? session_signal_status(end->signal) : 255;
	duration_format(ran_ms >= 1000 ? ran_ms / 1000 * 1000 : ran_ms, ran);
	if (rows[end->reason].said)
		show_note("ended after %s: %s%s%s%s", ran,
			  rows_choice(&end_table, "reason", end->reason), end->detail ? " (" : "",
			  end->detail ? end->detail : "", end->detail ? ")" : "");
	return rows[end->reason].status;
}
