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
#define BUILD_DIR "/var/tmp/cay-base-XXXXXX"
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

static int setup_builder_run(struct setup *s, const char *name, const char *layout,
			     struct cay_err *err)
{
	const char *const argv[] = { BUILDER, name, layout, NULL };
	struct setup_build b = {
		.progress = progress_start(&clk_system, isatty(STDERR_FILENO), 0),
		.line = BUF_INIT(128),
	};
	struct run_program_output out = { .kept = BUF_INIT(KIB(16)),
					  .on_output = on_setup_build_output,
					  .arg = &b };
	auto_buf what = BUF_INIT(128);
	int r = run_program_watched(&s->cli->arena, argv, BUILD_MS, &out, err);

	if (b.progress.terminal)
		progress_draw_word(&b.progress, "");
	if (r > 0)
		r = buf_printf(&what, "the build of '%s'", name) < 0
			    ? cay_no_memory(err)
			    : setup_program_fail_last(buf_str(&what), &out.kept, err);
	buf_fini(&out.kept);
	buf_fini(&b.line);
	return r;
}

void setup_build_dir_remove(struct setup *s)
{
	const char *const argv[] = { "rm", "-rf", "--", s->build_dir, NULL };
	auto_buf none = BUF_INIT(KIB(1));
	struct cay_err ignored = {};

	if (s->build_dir[0])
		(void)!run_program_to_end(&s->cli->arena, argv, NULL, 60000, &none, &ignored);
	s->build_dir[0] = 0;
}

static int setup_build_dir_create(struct setup *s, struct cay_err *err)
{
	static_assert(sizeof(BUILD_DIR) <= sizeof(s->build_dir));

	if (s->build_dir[0])
		return 0;
	memcpy(s->build_dir, BUILD_DIR, sizeof(BUILD_DIR));
	if (mkdtemp(s->build_dir))
		return 0;
	s->build_dir[0] = 0;
	return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a directory in /var/tmp");
}

int setup_image_build(struct setup *s, const char *name, struct image_info *ret,
		      struct cay_err *err)
{
	const char *missing = setup_builder_missing(s);
	auto_buf layout = BUF_INIT(64);
	int r;

	if (missing)
		return cay_fail(err, CAY_E_UNSUPPORTED, "%s is not installed", missing);
	r = setup_build_dir_create(s, err);
	if (r >= 0 && buf_printf(&layout, "%s/%s", s->build_dir, name) < 0)
		r = cay_no_memory(err);
	if (r >= 0)
		r = setup_builder_run(s, name, buf_str(&layout), err);
	if (r >= 0)
		r = image_import_send(s->cli, buf_str(&layout), name, ret, err);
	return r;
}

/* Build base; -errno: this machine cannot. */
static int setup_image_build_base(struct setup *s, struct cay_err *err)
{
	uint64_t began = clk_boot_ns(&clk_system);
	struct image_info made = {};
	int r = setup_image_build(s, SETUP_IMAGE, &made, err);

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
	if (setup_image_build_base(s, &why) >= 0)
		return 0;
	return setup_image_import_host(s, why.msg, err);
}
