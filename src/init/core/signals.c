/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/signals.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>

static const char *const signal_names[SIGNAL_RT_FIRST] = {
#define SIGNAL(n) [SIG##n] = #n,
#include "init/core/signals.def"
#undef SIGNAL
};

static bool signal_name_cut_prefix(struct slice *s, const char *prefix)
{
	size_t n = strlen(prefix);

	if (s->n < n || memcmp(s->p, prefix, n) != 0)
		return false;
	s->p += n;
	s->n -= n;
	return true;
}

int signal_parse(struct slice s)
{
	uint64_t n = 0;

	(void)signal_name_cut_prefix(&s, "SIG");
	for (int i = 1; i < SIGNAL_RT_FIRST; i++)
		if (signal_names[i] && slice_eq(s, slice_of(signal_names[i])))
			return i;
	if (signal_name_cut_prefix(&s, "RTMIN")) {
		if (s.n && (!signal_name_cut_prefix(&s, "+") ||
			    str_parse_u64(s, 0, SIGNAL_LAST - SIGNAL_RT_FIRST, &n) < 0))
			return -EINVAL;
		return SIGNAL_RT_FIRST + (int)n;
	}
	if (signal_name_cut_prefix(&s, "RTMAX")) {
		if (s.n && (!signal_name_cut_prefix(&s, "-") ||
			    str_parse_u64(s, 0, SIGNAL_LAST - SIGNAL_RT_FIRST, &n) < 0))
			return -EINVAL;
		return SIGNAL_LAST - (int)n;
	}
	return -EINVAL;
}

void signal_format(int sig, char ret[static SIGNAL_TEXT_MAX])
{
	int n;

	if (sig > 0 && sig < SIGNAL_RT_FIRST && signal_names[sig])
		n = snprintf(ret, SIGNAL_TEXT_MAX, "SIG%s", signal_names[sig]);
	else if (sig >= SIGNAL_RT_FIRST && sig <= SIGNAL_LAST)
		n = snprintf(ret, SIGNAL_TEXT_MAX, "SIGRTMIN+%d", sig - SIGNAL_RT_FIRST);
	else
		n = snprintf(ret, SIGNAL_TEXT_MAX, "SIG%d", sig & 0xff);
	assert(n > 0 && n < SIGNAL_TEXT_MAX);
}
