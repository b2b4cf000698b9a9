/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/pipes.h"

#include <fcntl.h>

void exec_pipes_fini(const struct exec_pipes *p)
{
	const int *all[] = { p->in, p->out, p->err, p->report };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (int k = 0; k < 2; k++)
			if (all[i][k] >= 0)
				(void)close(all[i][k]);
}

int pipe_create(int fds[static 2], int ours)
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	return fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

int exec_pipes_create(struct exec_pipes *p, bool outputs)
{
	int r = pipe_create(p->in, 1);

	if (r >= 0 && outputs)
		r = pipe_create(p->out, 0);
	if (r >= 0 && outputs)
		r = pipe_create(p->err, 0);
	return r < 0 ? r : pipe_create(p->report, 0);
}
