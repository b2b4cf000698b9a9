/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"
#include "cli/show.h"

struct rm_args {
	bool all;
};

static const struct opt rows[] = {
	{ "all", 0, OPT_FLAG, offsetof(struct rm_args, all), .help = "Every sandbox of yours" },
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

	if (s->state == SB_TERMINATED || s->state == SB_FAILED)
		return 0;
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
static void keep_going(int r, int *first, struct cay_err *one, struct cay_err *err)
{
	if (r < 0 && *first == 0) {
		*first = r;
		*err = *one;
	} else if (r < 0) {
		show_error(one->msg, "");
	}
}

static int remove_all(struct cli *c, struct cay_err *err)
{
	struct ids ids = {};
	int first = api_list(&c->api, OP_SANDBOX_LIST, gather, &ids, err);

	for (size_t i = 0; first >= 0 && i < ids.n; i++) {
		struct cay_err one = {};

		keep_going(remove_one(&c->api, &ids.v[i], &one), &first, &one, err);
	}
	free(ids.v);
	return first;
}

static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	bool all = ((const struct rm_args *)args)->all;
	int first = 0;

	if (all == (w->n_operands > 0))
		return cay_fail(err, CAY_E_INVALID, "rm: name sandboxes, or say --all");
	if (all)
		return remove_all(c, err);
	for (size_t i = 0; i < w->n_operands; i++) {
		struct cay_err one = {};
		struct id id;
		int r = api_find_sandbox(&c->api, w->operands[i], &id, &one);

		if (r >= 0)
			r = remove_one(&c->api, &id, &one);
		keep_going(cay_wrap(&one, r, "%s", w->operands[i]), &first, &one, err);
	}
	return first;
}

const struct cmd cmd_rm = {
	.name = "rm",
	.args = "SANDBOX... | --all",
	.max = SIZE_MAX,
	.options = options,
	.size = sizeof(struct rm_args),
	.help = "End sandboxes and remove all of them",
	.run = run,
};
