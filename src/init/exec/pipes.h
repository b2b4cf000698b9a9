/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_PIPES_H
#define CAY_INIT_EXEC_PIPES_H
/*
 * pipes - the pipes between PID 1 and a child: standard streams and its report
 */
#include "base/mem.h"

struct exec_pipes {
	int in[2], out[2], err[2], report[2]; /* negative: not created, or not owned */
};

#define PIPES_INIT ((struct exec_pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } })
#define auto_pipes CAY_CLEANUP(exec_pipes_fini) struct exec_pipes

void exec_pipes_fini(const struct exec_pipes *p);
/* One pipe: PID 1's end (0 or 1) is non-blocking, the other one blocks as programs expect. */
[[nodiscard]] int pipe_create(int fds[static 2], int ours);
/* All of them; without `outputs` those stay unchanged. */
[[nodiscard]] int exec_pipes_create(struct exec_pipes *p, bool outputs);
#endif
