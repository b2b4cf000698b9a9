/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_SETUP_H
#define CAY_CLI_SETUP_SETUP_H
/*
 * setup - from an installed package to a sandbox, one row a step
 *
 * A step checks first and changes only what is missing, so setup can be run again and continues
 * where it stopped.  Each step reports one line.  Steps after one that failed are skipped.
 */
#include "cli/core/command.h"

#define SETUP_FOUND_MAX 512
#define SETUP_IMAGE "base"
#define SETUP_HOST_IMAGE "host" /* programs of this machine */
#define SETUP_CONTEXT "here"
#define SETUP_START_COMMANDS_MAX 12

enum setup_state {
	SETUP_OK,   /* nothing to do */
	SETUP_DONE, /* changed */
	SETUP_TODO, /* to be changed; with --check */
	SETUP_FAILED,
	SETUP_SKIPPED, /* an earlier step failed, or this machine cannot */
	SETUP_NUM_STATES
};

struct setup {
	struct cli *cli;
	struct api *api;    /* of cli */
	const char *source; /* of the image: a path or a reference; NULL: it is built */
	const char *disk;   /* size of a file system with quotas, "no", or NULL: setup decides */
	const char *images; /* a directory of images for --with, or NULL: they are built */
	const char *swap;   /* size of a device of swap to make, or NULL */
	uint64_t swap_bytes;
	uint64_t with;      /* a bit for each row of setup-images.c */
	char build_dir[32]; /* for images to be built in; "": not created */
	bool check;
	struct buf found; /* report of this step; not escaped yet */
	/* commands the user must run where systemd does not start the daemons */
	const char *start_commands[SETUP_START_COMMANDS_MAX];
	size_t n_start_commands;
};

typedef int setup_step_fn(struct setup *s, struct cay_err *err);

struct setup_step {
	const char *name;
	setup_step_fn *check; /* 1: nothing to do; 0: apply is needed; -errno: it cannot help */
	setup_step_fn *apply; /* 1: this machine cannot, and the next steps do without */
	bool (*wanted)(const struct setup *s); /* NULL: always */
	bool harmless;                         /* apply leaves no changes: no confirmation */
};

/* Set the report of this step; returns ret. */
__attribute__((format(printf, 3, 4))) int setup_report(struct setup *s, int ret, const char *fmt,
						       ...);

setup_step_fn setup_root_check, setup_machine_check;
setup_step_fn setup_users_check, setup_users_apply;
setup_step_fn setup_config_check, setup_config_apply;
setup_step_fn setup_disk_check, setup_disk_apply;
setup_step_fn setup_swap_check, setup_swap_apply;
bool setup_swap_wanted(const struct setup *s);
setup_step_fn setup_daemons_check, setup_daemons_apply;
setup_step_fn setup_key_check, setup_key_apply;
setup_step_fn setup_image_check, setup_image_apply;
setup_step_fn setup_images_check, setup_images_apply;
setup_step_fn setup_sandbox_check, setup_sandbox_apply;

/* Names separated by commas; *ret: for struct setup. */
[[nodiscard]] int setup_images_parse(const char *names, uint64_t *ret, struct cay_err *err);
bool setup_images_wanted(const struct setup *s);
/* Build an image from Debian packages and import it; an error if this machine cannot.  What is
 * built stays for the images above it until the directory is removed. */
[[nodiscard]] int setup_image_build(struct setup *s, const char *name, struct image_info *ret,
				    struct cay_err *err);
void setup_build_dir_remove(struct setup *s);

/* Fail with the first line of a program's output. */
int setup_program_fail(const char *what, const struct buf *said, struct cay_err *err);
/* Fail with its last line. */
int setup_program_fail_last(const char *what, const struct buf *said, struct cay_err *err);
bool setup_systemd_runs(void);
/* Whether the daemons run and only the user can stop them. */
bool setup_daemons_run_without_systemd(struct setup *s);
/* Stop the units of the daemons; sandboxes keep running. */
[[nodiscard]] int setup_daemons_stop(struct setup *s, struct cay_err *err);

/* Pack programs of this machine as an image: a tar in an unnamed file, and the number of
 * programs. */
[[nodiscard]] int setup_pack_image(struct arena *arena, int *ret_fd, size_t *ret_programs,
				   struct cay_err *err);
#endif
