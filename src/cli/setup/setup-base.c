/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup-base - leave an image `base`, which the guides and MCP use
 *
 * It comes from --image, else it is built from Debian packages by the package's own builder.
 * A machine that cannot build it (no network, no mmdebstrap) gets an image `host` of its own
 * programs, and `base` is a second name of it; a later setup finds the two names on one image
 * and builds again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/print/progress.h"
#include "cli/print/pull-progress.h"
#include "cli/setup/run-program.h"
#include "cli/setup/setup.h"

#define BUILDER "/usr/share/cay/images/build"
#define BUILD_TOP "/var/tmp/cay-base-XXXXXX"
#define BUILD_MS 1800000

struct setup_names {
	struct arena *arena;
	const char *base, *host; /* digests, or NULL */
};

static int setup_names_note(void *to, const void *row)
{
	const struct image_info *image = row;
	struct setup_names *names = to;
	const char **at = !image->name                            ? NULL
			  : str_eq(image->name, SETUP_IMAGE)      ? &names->base
			  : str_eq(image->name, SETUP_HOST_IMAGE) ? &names->host
								  : NULL;

	if (at)
		*at = arena_strndup(names->arena, image->digest, strlen(image->digest));
	return 0;
}

/* NULL: this machine has what the builder needs. */
static const char *setup_builder_missing(struct setup *s)
{
	static const char *const needs[] = { "mmdebstrap", "python3" };

	if (access(BUILDER, X_OK) < 0)
		return BUILDER;
	for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
		if (!run_program_find_path(&s->cli->arena, needs[i]))
			return needs[i];
	return NULL;
}

int setup_image_check(struct setup *s, struct cay_err *err)
{
	struct setup_names names = { .arena = &s->cli->arena };
	struct cay_err why = {};
	int r = api_list_each(s->api, OP_IMAGE_LIST, NULL, setup_names_note, &names, &why);

	if (r < 0 && s->check) {
		s->api->hint[0] = 0;
		return setup_report(s, 0, "not known until cayd runs");
	}
	if (r < 0) {
		*err = why;
		return r;
	}
	if (!names.base)
		return setup_report(s, 0, "there is no image '" SETUP_IMAGE "' yet");
	if (s->source)
		return setup_report(s, 0, "'" SETUP_IMAGE "' is to come from %s", s->source);
	if (!names.host || !str_eq(names.base, names.host))
		return setup_report(s, 1, SETUP_IMAGE " exists");
	return setup_report(s, setup_builder_missing(s) != NULL,
			    SETUP_IMAGE " has programs of this machine only");
}

struct setup_build {
	struct progress progress;
	struct buf line; /* of the builder's output, not complete yet */
};

/* Show each line of the builder as it comes. */
static void on_setup_build_output(void *arg, const char *p, size_t n)
{
	struct setup_build *b = arg;

	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n') {
			/* a line that does not fit is cut */
			(void)!buf_putc(&b->line, p[i] < ' ' ? '?' : p[i]);
			continue;
		}
		progress_draw_word(&b->progress, buf_str(&b->line));
		buf_clear(&b->line);
	}
}

static int setup_builder_run(struct setup *s, const char *layout, struct cay_err *err)
{
	const char *const argv[] = { BUILDER, SETUP_IMAGE, layout, NULL };
	struct setup_build b = {
		.progress = progress_start(&clk_system, isatty(STDERR_FILENO), 0),
		.line = BUF_INIT(128),
	};
	struct run_program_output out = { .kept = BUF_INIT(KIB(16)),
					  .on_output = on_setup_build_output,
					  .arg = &b };
	int r = run_program_watched(&s->cli->arena, argv, BUILD_MS, &out, err);

	if (b.progress.terminal)
		progress_draw_word(&b.progress, "");
	if (r > 0)
		r = setup_program_fail_last("the build of '" SETUP_IMAGE "'", &out.kept, err);
	buf_fini(&out.kept);
	buf_fini(&b.line);
	return r;
}

/* Build it and import it; -errno: this machine cannot. */
static int setup_image_build(struct setup *s, struct cay_err *err)
{
	uint64_t began = clk_boot_ns(&clk_system);
	const char *missing = setup_builder_missing(s);
	char top[] = BUILD_TOP;
	const char *const removal[] = { "rm", "-rf", "--", top, NULL };
	auto_buf layout = BUF_INIT(64), none = BUF_INIT(KIB(1));
	struct image_info made = {};
	struct cay_err ignored = {};
	int r;

	if (missing)
		return cay_fail(err, CAY_E_UNSUPPORTED, "%s is not installed", missing);
	if (!mkdtemp(top))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a directory in /var/tmp");
	r = buf_printf(&layout, "%s/" SETUP_IMAGE, top) < 0 ? cay_no_memory(err) : 0;
	if (r >= 0)
		r = setup_builder_run(s, buf_str(&layout), err);
	if (r >= 0)
		r = image_import_send(s->cli, buf_str(&layout), SETUP_IMAGE, &made, err);
	(void)!run_program_to_end(&s->cli->arena, removal, NULL, 60000, &none, &ignored);
	return r < 0 ? r
		     : setup_report(
			       s, 0, "built '" SETUP_IMAGE "' from Debian packages in %llu s",
			       (unsigned long long)((clk_boot_ns(&clk_system) - began) / NS_PER_S));
}

/* why: base cannot be built. */
static int setup_image_import_host(struct setup *s, const char *why, struct cay_err *err)
{
	static const char *const names[] = { SETUP_HOST_IMAGE, SETUP_IMAGE };
	auto_close int fd = -EBADF;
	struct image_info made = {};
	char path[64];
	size_t n = 0;
	int r = setup_pack_image(&s->cli->arena, &fd, &n, err);

	if (r >= 0 && snprintf(path, sizeof(path), "/proc/self/fd/%d", fd) < 0)
		r = -EINVAL;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++)
		r = image_import_send(s->cli, path, names[i], &made, err);
	return r < 0 ? r
		     : setup_report(s, 0,
				    "'" SETUP_IMAGE "' has %zu programs of this machine, no "
				    "python3, node or git: %s; run setup again to build it, or "
				    "with --image",
				    n, why);
}

static int setup_image_fetch(struct setup *s, struct cay_err *err)
{
	struct image_pull request = { .reference = s->source, .name = SETUP_IMAGE };
	struct api_call pull = { .op = OP_IMAGE_PULL, .request = &request };
	struct image_info made = {};
	struct stat st;
	int r;

	if (stat(s->source, &st) == 0)
		r = image_import_send(s->cli, s->source, SETUP_IMAGE, &made, err);
	else
		r = pull_progress_call(s->api, &pull, s->source, &made, err);
	return r < 0 ? r : setup_report(s, 0, "'" SETUP_IMAGE "' from %s", s->source);
}

int setup_image_apply(struct setup *s, struct cay_err *err)
{
	struct cay_err why = {};

	if (s->source)
		return setup_image_fetch(s, err);
	if (setup_image_build(s, &why) >= 0)
		return 0;
	return setup_image_import_host(s, why.msg, err);
}
