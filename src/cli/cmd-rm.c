/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"
#include "cli/show.h"

struct rm_args {
	bool all;
	const char *group;
};

static const struct opt rows[] = {
	{ "all", 0, OPT_FLAG, offsetof(struct rm_args, all), .help = "Every sandbox of yours" },
	{ "group", 0, OPT_TEXT, offsetof(struct rm_args, group), .arg = "NAME",
	  .help = "Every sandbox of this group" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_END };

struct ids {
	struct id *v;
	size_t n, cap;
};

static int gather(void *to, const void *row)
{
	const struct sandbox *s = row;
	struct ids *ids = to;

	if (ids->n == ids->cap) {
		size_t cap = ids->cap ? ids->cap * 2 : 64;
		struct id *v = realloc(ids->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		ids->v = v;
		ids->cap = cap;
	}
	ids->v[ids->n++] = s->id;
	return 0;
}

static int remove_one(struct api *a, const struct id *id, struct cay_err *err)
{
	return api_call(a, &(struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { *id } },
			&(struct sandbox){}, err);
}

/* The rest is removed even when one of them cannot be; the first failure is told
 * by main, the others here. */
struct failures {
	int first; /* 0: none */
	char hint[API_HINT_MAX];
	struct cay_err *err;
};

static void note(struct failures *f, const struct api *a, int r, const struct cay_err *why)
{
	if (r >= 0)
		return;
	if (f->first) {
		show_error(why->msg, "");
		return;
	}
	f->first = r;
	*f->err = *why;
	memcpy(f->hint, a->hint, sizeof(f->hint));
}

static int tell(const struct failures *f, struct api *a)
{
	memcpy(a->hint, f->hint, sizeof(f->hint));
	return f->first;
}

/* All that live, of one group or of any. */
static int remove_all(struct api *a, const char *group, struct cay_err *err)
{
	const struct sandbox_query which = { .state = "live", .group = group };
	struct failures failures = { .err = err };
	struct ids ids = {};
	int r = api_list(a, OP_SANDBOX_LIST, &which, gather, &ids, err);

	if (r == -ENOMEM)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list");
	for (size_t i = 0; r >= 0 && i < ids.n; i++) {
		struct cay_err why = {};

		note(&failures, a, remove_one(a, &ids.v[i], &why), &why);
	}
	free(ids.v);
	return r < 0 ? r : tell(&failures, a);
}

/* The group ends at once, whoever is added meanwhile; then each is waited for. */
static int remove_group(struct api *a, const char *group, struct cay_err *err)
{
	struct group_query query = { .group = group };
	int r = api_call(a, &(struct api_call){ .op = OP_GROUP_DELETE, .query = &query },
			 &(struct sandbox_list){}, err);

	return r < 0 ? r : remove_all(a, group, err);
}

static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	const struct rm_args *a = args;
	struct failures failures = { .err = err };

	if (a->all + !!a->group + (w->n_operands > 0) != 1)
		return cay_fail(err, CAY_E_INVALID,
				"rm: name sandboxes, or say --all, or --group NAME");
	if (a->group)
		return remove_group(&c->api, a->group, err);
	if (a->all)
		return remove_all(&c->api, NULL, err);
	for (size_t i = 0; i < w->n_operands; i++) {
		struct cay_err why = {};
		struct id id;
		int r = api_find_sandbox(&c->api, w->operands[i], &id, &why);

		if (r >= 0)
			r = remove_one(&c->api, &id, &why);
		r = r < 0 ? cay_wrap(&why, r, "%s", w->operands[i]) : r;
		note(&failures, &c->api, r, &why);
	}
	return tell(&failures, &c->api);
}

const struct cmd cmd_rm = {
	.name = "rm",
	.args = "SANDBOX... | --all | --group NAME",
	.max = SIZE_MAX,
	.options = options,
	.size = sizeof(struct rm_args),
	.help = "End sandboxes and remove all of them",
	.run = run,
};
