/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_SETUP_H
#define CAY_CLI_SETUP_SETUP_H
/*
 * setup - from an installed package to a sandbox, one row a step
 *
 * A step looks first, and does something only when it has to: setup can be run again
 * whenever somebody likes, and goes on where it stopped.  What a step found or did it
 * says in one line.  The steps behind one that failed are left.
 */
#include "cli/core/command.h"

#define SETUP_FOUND_MAX 512
#define SETUP_IMAGE "host" /* the first image when nothing else is said */
#define SETUP_CONTEXT "here"
#define SETUP_START_COMMANDS_MAX 5

enum setup_state {
	SETUP_OK,   /* nothing was to be done */
	SETUP_DONE, /* and it was done */
	SETUP_TODO, /* it is to be done, and --check does nothing */
	SETUP_FAILED,
	SETUP_SKIPPED, /* an earlier one failed */
	SETUP_NUM_STATES
};

struct setup {
	struct cli *cli;
	const char *source; /* of the first image: a path or a reference; NULL: this machine */
	bool check;
	struct buf found;  /* of this step; not escaped yet */
	const char *image; /* that sandboxes can be made of, once there is one */
	/* what a person has to start, when nobody else can */
	const char *start_commands[SETUP_START_COMMANDS_MAX];
	size_t n_start_commands;
};

struct setup_step {
	const char *name;
	/* 1: all is well; 0: act is wanted; -errno: act cannot help. */
	int (*check)(struct setup *s, struct cay_err *err);
	int (*apply)(struct setup *s, struct cay_err *err);
	bool harmless; /* what act does leaves nothing behind: nobody is asked */
};

extern const struct setup_step setup_steps[]; /* ended by a row without a name */

/* Say what was found; what was said before is forgotten. */
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

/* An image of this machine's own programs, as a tar in a file that has no name; its fd,
 * and how many programs. */
[[nodiscard]] int setup_pack_image(struct arena *arena, int *ret_fd, size_t *ret_programs,
				   struct cay_err *err);
#endif
