/* SPDX-License-Identifier: Apache-2.0 */
/* exit-status - map how an exec ended to an exit status of cay */
#include <signal.h>

#include "cli/exec/session.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

/* Reasons outside the command use the numbers of timeout(1) and the shell where there is one. */
static const int exit_status_of_reason[END_NUM_REASONS] = {
	[END_TIMEOUT] = 124,
	[END_OOM] = 128 + SIGKILL,
	[END_KILLED] = 128 + SIGKILL,
	[END_TTL] = 124,
	[END_IDLE] = 124,
	[END_QUOTA] = 125,
	[END_EVICTED] = 125,
	[END_START_FAILED] = 126,
	[END_NODE_LOST] = 125,
	[END_NODE_OOM] = 128 + SIGKILL,
	[END_LEASE] = 124,
};

/* Real-time signals are counted from the kernel's 32, as cay-init does. */
#define RT_FIRST 32u
#define RT_LAST 64u

static bool exit_status_skip(struct slice *s, struct slice with)
{
	if (s->n < with.n || memcmp(s->p, with.p, with.n) != 0)
		return false;
	s->p += with.n;
	s->n -= with.n;
	return true;
}

int exit_status_from_signal(const char *name)
{
	struct slice s = slice_of(name);
	uint64_t n = 0;

	(void)exit_status_skip(&s, SLICE("SIG"));
	for (int sig = 1; sig < (int)RT_FIRST; sig++)
		if (sigabbrev_np(sig) && slice_eq(s, slice_of(sigabbrev_np(sig))))
			return 128 + sig;
	if (exit_status_skip(&s, SLICE("RTMIN")) &&
	    (!s.n || (exit_status_skip(&s, SLICE("+")) &&
		      str_parse_u64(s, 0, RT_LAST - RT_FIRST, &n) == 0)))
		return 128 + (int)(RT_FIRST + n);
	if (exit_status_skip(&s, SLICE("RTMAX")) &&
	    (!s.n || (exit_status_skip(&s, SLICE("-")) &&
		      str_parse_u64(s, 0, RT_LAST - RT_FIRST, &n) == 0)))
		return 128 + (int)(RT_LAST - n);
	return 255;
}

int exit_status_from_end(const struct end *end, uint64_t ran_ms)
{
	bool seconds = ran_ms >= 1000;

	/* the status alone does not tell that the memory limit was hit */
	if ((end->reason == END_EXIT || end->reason == END_SIGNAL) && end->has_memory_limit &&
	    end->detail)
		print_note("%s", end->detail);
	if (end->reason == END_EXIT)
		return (int)end->exit_code;
	if (end->reason == END_SIGNAL)
		return exit_status_from_signal(end->signal);
	print_note("ended after %llu %s: %s%s%s%s",
		   (unsigned long long)(seconds ? ran_ms / 1000 : ran_ms), seconds ? "s" : "ms",
		   field_choice_name(&end_table, "reason", end->reason), end->detail ? " (" : "",
		   end->detail ? end->detail : "", end->detail ? ")" : "");
	return exit_status_of_reason[end->reason];
}
