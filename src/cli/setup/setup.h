/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_SETUP_H
#define CAY_CLI_SETUP_SETUP_H
/*
 * setup - from an installed package to a sandbox, one row a step
 *
 * A step checks first and changes only what is missing, so setup can be run again and
 * continues where it stopped.  Each step reports one line.  Steps after one that failed are
 * skipped.
 */
#include "cli/core/command.h"

#define SETUP_FOUND_MAX 512
#define SETUP_IMAGE "host" /* name of the first image without --image */
#define SETUP_CONTEXT "here"
#define SETUP_START_COMMANDS_MAX 5

enum setup_state {
	SETUP_OK,   /* nothing to do */
	SETUP_DONE, /* changed */
	SETUP_TODO, /* to be changed; with --check */
	SETUP_FAILED,
	SETUP_SKIPPED, /* an earlier step failed */
	SETUP_NUM_STATES
};

struct setup {
	struct cli *cli;
	const char *source; /* of the first image: a path or a reference; NULL: this machine */
	bool check;
	struct buf found;  /* report of this step; not escaped yet */
	const char *image; /* an image to create sandboxes from, or NULL */
	/* commands the user must run where systemd does not start the daemons */
	const char *start_commands[SETUP_START_COMMANDS_MAX];
	size_t n_start_commands;
};

struct setup_step {
	const char *name;
	/* 1: nothing to do; 0: apply is needed; -errno: apply cannot help. */
	int (*check)(struct setup *s, struct cay_err *err);
	int (*apply)(struct setup *s, struct cay_err *err);
	bool harmless; /* apply leaves no changes: no confirmation */
};

extern const struct setup_step setup_steps[]; /* ended by a row without a name */

/* Set the report of this step. */
__attribute__((format(printf, 2, 3))) void setup_finding_report(struct setup *s, const char *fmt,
								...);

int setup_root_check(struct setup *s, struct cay_err *err);
int setup_machine_check(struct setup *s, struct cay_err *err);
int setup_users_check(struct setup *s, struct cay_err *err);
int setup_users_apply(struct setup *s, struct cay_err *err);
int setup_config_check(struct setup *s, struct cay_err *err);
int setup_config_apply(struct setup *s, struct cay_err *err);
int setup_daemons_check(struct setup *s, struct cay_err *err);
int setup_daemons_apply(struct setup *s, struct cay_err *err);
int setup_key_check(struct setup *s, struct cay_err *err);
int setup_key_apply(struct setup *s, struct cay_err *err);
int setup_image_check(struct setup *s, struct cay_err *err);
int setup_image_apply(struct setup *s, struct cay_err *err);
int setup_sandbox_check(struct setup *s, struct cay_err *err);
int setup_sandbox_apply(struct setup *s, struct cay_err *err);

/* Pack programs of this machine as an image: a tar in an unnamed file, and the number of
 * programs. */
[[nodiscard]] int setup_pack_image(struct arena *arena, int *ret_fd, size_t *ret_programs,
				   struct cay_err *err);
#endif
