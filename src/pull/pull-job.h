/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_PULL_PULL_JOB_H
#define CAY_PULL_PULL_JOB_H
/*
 * pull-job - one pull, from its request to its archive, in a process of its own
 *
 *	asking    skopeo inspect: does it exist, may we, how large is it
 *	pulling   skopeo copy into the job's directory
 *
 * The peer ends it by closing the connection.  Blocking code; what skopeo left is parsed here and
 * not in the server, whose process other pulls share.
 */
#include "base/log.h"
#include "ops/settings.h"
#include "wire/puller.h"

struct pull_job {
	const struct settings *settings;
	struct log *log;
	int conn;
	int work_fd;      /* paths.state/pull */
	const char *name; /* of its directory there, which it creates and removes */
};

void pull_job_run(const struct pull_job *j);
#endif
