/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROGRAM_H
#define CAY_INIT_PROGRAM_H
/*
 * program - what a service is: from a file of supervisord's form, or from a request
 *
 *	[program:web]
 *	command=python3 -m http.server 8080   ; split as a shell would, run without one
 *	environment=LANG="C.UTF-8",MODE=quiet
 *	autorestart=unexpected
 *
 * Files are a stranger's.  As supervisord has it: ';' and '#' begin a comment at the
 * start of a line or behind white space, an indented line goes on with the value
 * above, %(ENV_NAME)s, %(program_name)s and %(here)s stand for what they say and %%
 * for a '%'; other sections, and keys nobody here knows, are passed over.  A value
 * that is wrong makes the one program `refused`, which says file and line; the others
 * are as if it were not there.  Pure but for memory.
 */
#include "ops/op.h"

#define PROGRAM_POOL KIB(64)
#define PROGRAM_FILE_MAX KIB(64)
#define PROGRAM_ARGS_MAX 1024
#define PROGRAM_ENV_MAX 256
#define PROGRAM_VALUE_MAX KIB(32)
#define PROGRAM_SECTIONS_MAX 256 /* of one file */

struct program {
	char name[OP_NAME_MAX + 1];
	struct field_texts argv; /* ended by NULL */
	const char *cwd, *user;  /* or NULL */
	struct field_map env;
	bool autostart;
	unsigned autorestart; /* enum service_restart */
	uint64_t exits[4];    /* exit codes that are expected, a bit each */
	uint64_t priority, start_ms, start_retries, stop_ms;
	int stop_signal;
	const char *source;            /* the file, or "api" */
	char refused[CAY_ERR_MSG_MAX]; /* why it is none, or "" */
	struct pool pool;              /* of all these */
};

void program_fini(struct program *p);
static inline bool program_expects(const struct program *p, unsigned exit_code)
{
	return p->exits[exit_code / 64 % 4] >> exit_code % 64 & 1;
}

/* Each program of a file, in its order; *p is the callee's (it takes it, or
 * program_fini()).  env is what ENV_ names are looked up in. */
typedef void program_fn(void *arg, struct program *p);
void program_parse(struct slice text, const char *file, const struct field_map *env,
		   program_fn *each, void *arg);
/* From a request; its texts are copied. */
[[nodiscard]] int program_from(const char *name, const struct service_put *q, struct program *ret,
			       struct cay_err *err);
#endif
