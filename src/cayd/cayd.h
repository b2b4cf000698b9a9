/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CAYD_H
#define CAY_CAYD_CAYD_H
/*
 * cayd - control: which sandboxes and images there are, and what becomes of them
 *
 *	main.c      start, clean up what an earlier one left, serve
 *	api.c       operations to functions
 *	link.c      the connection to cay-keeper
 *	box.c       sandboxes: the table, and the steps from pending to terminated
 *	claim.c     telling a new cay-init whose it is
 *	image.c     images: the table and its file
 *	import.c    an upload on its way to the keeper
 *
 * One loop thread; nothing blocks in it once it serves.
 */
#include <uv.h>

#include "base/log.h"
#include "net/server.h"
#include "ops/settings.h"

struct link;
struct boxes;
struct images;

struct cayd {
	struct settings settings;
	struct log log;
	const struct clk *clk;
	int argc; /* to read the settings again */
	char **argv;
	uv_loop_t loop;
	int db, tmp; /* directories below paths.state */
	struct link *link;
	struct boxes *boxes;
	struct images *images;
};

/* Whose everything is until there are others. */
extern const struct id default_tenant;

/* Operations that control carries out; and those a sandbox does. */
request_fn api_control, api_inside;
#endif
