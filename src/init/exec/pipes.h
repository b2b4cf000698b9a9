/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_PIPES_H
#define CAY_INIT_EXEC_PIPES_H
/*
 * pipes - between PID 1 and a child: what it reads, what it writes, its report
 */
#include "base/mem.h"

struct exec_pipes {
	int in[2], out[2], err[2], report[2]; /* negative: not made, or somebody else's */
};

#define PIPES_INIT ((struct exec_pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } })
#define auto_pipes CAY_CLEANUP(exec_pipes_fini) struct exec_pipes

void exec_pipes_fini(const struct exec_pipes *p);
/* One pipe: our end (0 or 1) never waits, the other is what programs expect. */
[[nodiscard]] int pipe_create(int fds[static 2], int ours);
/* All of them; without outputs those stay as they are. */
[[nodiscard]] int exec_pipes_create(struct exec_pipes *p, bool outputs);
#endif
