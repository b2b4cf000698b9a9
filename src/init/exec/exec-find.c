/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/exec.h"

struct exec *exec_find(struct init *in, const struct id *id)
{
	for (struct exec *exec = in->newest_exec; exec; exec = exec->prev)
		if (id_eq(&exec->id, id) && exec_is_visible(exec))
			return exec;
	return NULL;
}

struct exec *exec_find_by_key(struct init *in, struct slice key)
{
	for (struct exec *exec = in->newest_exec; exec; exec = exec->prev)
		if (exec->key[0] && exec->state != EXEC_PHASE_FAILED &&
		    slice_eq(slice_of(exec->key), key))
			return exec;
	return NULL;
}

void exec_describe(const struct exec *exec, struct exec_info *ret)
{
	*ret = (struct exec_info){
		.id = exec->id,
		.state = exec->state == EXEC_PHASE_ENDED ? EXEC_ENDED : EXEC_RUNNING,
		.pid = (uint64_t)exec->first_pid,
		.has_pid = exec->first_pid > 0,
		.started_ns = exec->started_ns,
		.ended_ns = exec->state == EXEC_PHASE_ENDED ? exec->ended_ns : 0,
		.stdout_bytes = output_end_offset(&exec->out[0]),
		.stderr_bytes = output_end_offset(&exec->out[1]),
		.end = exec->end,
		.has_end = exec->state == EXEC_PHASE_ENDED,
		.tty = { exec->cols, exec->rows, exec->term },
		.has_tty = exec->tty,
	};
}
