/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_SERVICE_CONFIG_H
#define CAY_INIT_SERVICE_SERVICE_CONFIG_H
/*
 * service-config - the configuration of a service, from a supervisord file or a request
 *
 *	[program:web]
 *	command=python3 -m http.server 8080   ; split as a shell would, run without one
 *	environment=LANG="C.UTF-8",MODE=quiet
 *	autorestart=unexpected
 *
 * Files are untrusted.  As in supervisord, ';' and '#' begin a comment at the start of a line
 * or after white space; an indented line continues the value above; %(ENV_NAME)s,
 * %(program_name)s and %(here)s are expanded and %% is a '%'; other sections and unknown keys
 * are skipped.  An invalid value makes only its program `refused`, with file and line.
 * Pure but for memory.
 */
#include "ops/op.h"

#define SERVICE_CONFIG_POOL KIB(64)
#define SERVICE_CONFIG_FILE_MAX KIB(64)
#define SERVICE_CONFIG_ARGS_MAX 1024
#define SERVICE_CONFIG_ENV_MAX 256
#define SERVICE_CONFIG_VALUE_MAX KIB(32)
#define SERVICE_CONFIG_SECTIONS_MAX 256 /* of one file */

struct service_config {
	char name[OP_NAME_MAX + 1];
	struct field_texts argv; /* ended by NULL */
	const char *cwd, *user;  /* or NULL */
	struct field_map env;
	bool autostart;
	unsigned autorestart;       /* enum service_restart */
	uint64_t expected_exits[4]; /* a bit for each exit code */
	uint64_t priority, start_ms, start_retries, stop_ms;
	int stop_signal;
	const char *source;                /* the file, or "api" */
	char refused_why[CAY_ERR_MSG_MAX]; /* why it cannot run, or "" */
	struct arena arena;                /* of all texts */
};

void service_config_fini(struct service_config *p);
static inline bool service_config_expects_exit(const struct service_config *p, unsigned exit_code)
{
	return p->expected_exits[exit_code / 64 % 4] >> exit_code % 64 & 1;
}

/* Called for each program of a file, in order; the callee frees *p.  Names of %(ENV_NAME)s are
 * looked up in env. */
typedef void service_config_fn(void *arg, struct service_config *p);
void service_config_parse_file(struct slice text, const char *file, const struct field_map *env,
			       service_config_fn *each, void *arg);
/* Copy into the arena; without room *ok is set to false, or the result is. */
const char *config_text_copy(struct arena *p, const char *s, bool *ok);
[[nodiscard]] bool config_map_copy(struct arena *p, const struct field_map *from,
				   struct field_map *to);
/* From a request; its texts are copied. */
[[nodiscard]] int service_config_from_request(const char *name, const struct service_put *q,
					      struct service_config *ret, struct cay_err *err);
#endif
