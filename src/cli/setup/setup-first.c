/* SPDX-License-Identifier: Apache-2.0 */
/* setup-first - create the first image, and a sandbox of it to test the installation */
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/exec/session.h"
#include "cli/print/pull-progress.h"
#include "cli/setup/setup.h"

static int setup_image_pick_first(void *to, const void *row)
{
	const struct image_info *image = row;
	struct setup *s = to;

	s->image = image->name;
	return image->name != NULL;
}

int setup_image_check(struct setup *s, struct cay_err *err)
{
	struct cay_err why = {};
	int r;

	s->image = NULL;
	r = api_list_each(s->api, OP_IMAGE_LIST, NULL, setup_image_pick_first, s, &why);
	if (r < 0 && s->check) {
		s->api->hint[0] = 0;
		return setup_report(s, 0, "not known until cayd runs");
	}
	if (r < 0) {
		*err = why;
		return r;
	}
	return s->image ? setup_report(s, 1, "%s exists", s->image)
			: setup_report(s, 0, "there is no image yet");
}

static int setup_image_import_host(struct setup *s, struct cay_err *err)
{
	auto_close int fd = -EBADF;
	struct image_info made = {};
	char path[64];
	size_t n = 0;
	int r = setup_pack_image(&s->cli->arena, &fd, &n, err);

	if (r >= 0 && snprintf(path, sizeof(path), "/proc/self/fd/%d", fd) < 0)
		r = -EINVAL;
	if (r >= 0)
		r = image_import_send(s->cli, path, SETUP_IMAGE, &made, err);
	if (r < 0)
		return r;
	s->image = SETUP_IMAGE;
	return setup_report(s, 0, "created '" SETUP_IMAGE "' from %zu programs of this machine", n);
}

/* "images/base.tar" is named "base", as by 'cay image import'. */
static const char *setup_image_derive_name(struct arena *arena, const char *path)
{
	struct slice rest = slice_of(path), last = {};

	while (rest.p) {
		struct slice part = slice_cut(&rest, '/');

		if (part.n)
			last = part;
	}
	for (size_t i = 1; i < last.n; i++)
		if (last.p[i] == '.' || last.p[i] == ':')
			last.n = i;
	return arena_strndup(arena, last.p, last.n);
}

int setup_image_apply(struct setup *s, struct cay_err *err)
{
	struct image_pull request;
	struct api_call pull = { .op = OP_IMAGE_PULL, .request = &request };
	struct image_info made = {};
	const char *name;
	struct stat st;
	int r;

	if (!s->source)
		return setup_image_import_host(s, err);
	name = setup_image_derive_name(&s->cli->arena, s->source);
	if (!name)
		return cay_no_memory(err);
	request = (struct image_pull){ .reference = s->source, .name = name };
	if (stat(s->source, &st) == 0)
		r = image_import_send(s->cli, s->source, name, &made, err);
	else
		r = pull_progress_call(s->api, &pull, s->source, &made, err);
	if (r < 0)
		return r;
	s->image = name;
	return setup_report(s, 0, "'%s' from %s", name, s->source);
}

/* Always to be done: a sandbox is the test of the setup. */
int setup_sandbox_check(struct setup *s, struct cay_err *)
{
	return setup_report(s, 0, "not tried");
}

static int setup_sandbox_run_true(struct setup *s, const struct id *id, struct cay_err *err)
{
	const char *argv[] = { "/bin/true" };
	struct session_result result = {};
	struct session_spec spec = {
		.sandbox = *id,
		.request = { .has_argv = true, .argv = { argv, 1 } },
		.discard = true,
	};
	int r = session_run(s->api, &spec, &result, err);

	if (r >= 0 && (result.quit || result.end.reason != END_EXIT || result.end.exit_code))
		return cay_fail(err, CAY_E_MISBEHAVED, "'/bin/true' failed in the sandbox");
	return r;
}

int setup_sandbox_apply(struct setup *s, struct cay_err *err)
{
	struct sandbox_create request = { .image = s->image };
	struct api_call create = { .op = OP_SANDBOX_CREATE, .request = &request }, removal;
	struct cay_err gone = {};
	struct sandbox_info made = {};
	uint64_t t0 = clk_boot_ns(&clk_system), t1, t2;
	int r, removed;

	create_request_init(&request);
	create_request_mark_given(&request);
	r = api_call(s->api, &create, &made, err);
	if (r < 0)
		return r;
	t1 = clk_boot_ns(&clk_system);
	r = setup_sandbox_run_true(s, &made.id, err);
	t2 = clk_boot_ns(&clk_system);
	removal = (struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { made.id } };
	removed = api_call(s->api, &removal, &(struct sandbox_info){}, &gone);
	if (r >= 0 && removed < 0) {
		*err = gone;
		return removed;
	}
	return r < 0 ? r
		     : setup_report(s, 0, "created in %llu ms, ran a command in %llu ms, deleted",
				    (unsigned long long)((t1 - t0) / NS_PER_MS),
				    (unsigned long long)((t2 - t1) / NS_PER_MS));
}
