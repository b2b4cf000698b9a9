/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"
#include "init/file/file-read.h"

#define DEADLINE_MS 30000
#define SEARCH_MS 60000 /* reads a whole tree */
#define WATCH_MS 120000 /* may wait for a change */
#define TREE_MS 600000  /* may take long and moves no byte meanwhile */

/* PID 1 only starts a child.  The child's function and the deadline of each operation: */
#define FILE_OP(handler, child_fn, deadline_ms) \
	void handler(struct request *rq, void *arg) \
	{ \
		child_op_start(arg, rq, child_fn, deadline_ms); \
	}

FILE_OP(op_file_read, child_file_read, DEADLINE_MS)
FILE_OP(op_file_stat, child_file_stat, DEADLINE_MS)
FILE_OP(op_file_write, child_file_write, DEADLINE_MS)
FILE_OP(op_file_mkdir, child_file_change, DEADLINE_MS)
FILE_OP(op_file_move, child_file_change, DEADLINE_MS)
FILE_OP(op_file_copy, child_file_change, DEADLINE_MS)
FILE_OP(op_file_delete, child_file_change, TREE_MS)
FILE_OP(op_file_chmod, child_file_change, DEADLINE_MS)
FILE_OP(op_file_symlink, child_file_change, DEADLINE_MS)
FILE_OP(op_file_batch, child_file_batch, TREE_MS)
FILE_OP(op_file_view, child_file_view, DEADLINE_MS)
FILE_OP(op_file_glob, child_file_glob, SEARCH_MS)
FILE_OP(op_tree_get, child_tree_get, DEADLINE_MS)
FILE_OP(op_tree_put, child_tree_put, DEADLINE_MS)
FILE_OP(op_file_grep, child_file_grep, SEARCH_MS)
FILE_OP(op_file_edit, child_file_edit, DEADLINE_MS)
FILE_OP(op_file_watch, child_file_watch, WATCH_MS)

void op_file_list(struct request *rq, void *arg)
{
	const struct file_list_query *q = rq->query;

	child_op_start(arg, rq, child_file_list, q->timeout_ms);
}
