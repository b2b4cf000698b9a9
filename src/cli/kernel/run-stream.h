/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_KERNEL_RUN_STREAM_H
#define CAY_CLI_KERNEL_RUN_STREAM_H
/*
 * run-stream - run code in a kernel and show its output and results while it runs
 *
 * A run that waits for others is cancelled by a signal; once it has begun, SIGINT interrupts it and
 * keeps the kernel.  A client that leaves ends its run (Prefer: end-with-caller).  A connection
 * that breaks is a failure: the results cannot be read from an offset.
 */
#include "cli/client/api.h"
#include "cli/kernel/run-view.h"

struct run_stream_spec {
	struct id sandbox, kernel;
	const struct kernel_run *request;
	struct run_view *view; /* NULL: *ret_info gets the reply */
	bool stays;            /* SIGINT never quits */
};

struct run_stream_result {
	struct end end;
	int quit; /* 0, or the exit status after leaving before the run ended */
};

/* Texts of the results are in a->arena. */
[[nodiscard]] int run_stream_run(struct api *a, const struct run_stream_spec *spec,
				 struct run_stream_result *ret, struct run_info *ret_info,
				 struct cay_err *err);
#endif
