/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_HANDLERS_H
#define CAY_INIT_CORE_HANDLERS_H
/*
 * handlers - everything cay-init serves
 *
 * The handler of operation x.y is op_x_y(); its arg is the struct init.  One that names an
 * exec, shell or service replies not_found itself when there is none.
 */
#include "net/server.h"

/* Routes of the host, which no client of the API reaches. */
extern const struct server_route init_routes[];
extern const size_t init_n_routes;

extern request_fn *const init_handlers[OP_NUM];
void init_handle_operation(struct request *rq, void *arg);

request_fn op_exec_run;
request_fn op_exec_list;
request_fn op_exec_get;
request_fn op_exec_output;
request_fn op_exec_stdin;
request_fn op_exec_signal;
request_fn op_exec_attach;
request_fn op_exec_resize;
request_fn op_shell_create;
request_fn op_shell_list;
request_fn op_shell_get;
request_fn op_shell_delete;
request_fn op_shell_run;
request_fn op_shell_runs;
request_fn op_shell_run_get;
request_fn op_shell_output;
request_fn op_shell_interrupt;
request_fn op_service_list;
request_fn op_service_get;
request_fn op_service_put;
request_fn op_service_delete;
request_fn op_service_start;
request_fn op_service_stop;
request_fn op_service_restart;
request_fn op_service_log;
request_fn op_sandbox_info;
request_fn op_sandbox_health;
request_fn op_process_list;
request_fn op_process_signal;
request_fn op_port_list;
request_fn op_port_wait;
request_fn op_port_connect;
request_fn op_port_proxy;
request_fn op_port_app;
request_fn op_file_read;
request_fn op_file_stat;
request_fn op_file_list;
request_fn op_file_write;
request_fn op_file_mkdir;
request_fn op_file_move;
request_fn op_file_copy;
request_fn op_file_delete;
request_fn op_file_chmod;
request_fn op_file_symlink;
request_fn op_file_batch;
request_fn op_file_view;
request_fn op_file_glob;
request_fn op_tree_get;
request_fn op_tree_put;
request_fn op_file_grep;
request_fn op_file_edit;
request_fn op_file_watch;
#endif
