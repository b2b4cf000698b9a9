/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"
#include "cli/show.h"

struct rm_args {
	bool all;
	const char *group;
	struct json_args json;
};

static const struct opt rows[] = {
	{ "all", 0, OPT_FLAG, offsetof(struct rm_args, all), .help = "Every sandbox of yours" },
	{ "group", 0, OPT_TEXT, offsetof(struct rm_args, group), .what = OPERAND_GROUP,
	  .arg = "NAME", .help = "Every sandbox of this group" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(rm_args, json), OPTS_END };

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

static int remove_one(struct api *a, const struct id *id, struct jw *json, struct cay_err *err)
{
	struct sandbox gone = {};
	int r = api_call(a, &(struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { *id } }, &gone,
			 err);

	if (r >= 0 && json)
		field_encode(&sandbox_table, NULL, &gone, json);
	return r;
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
static int remove_all(struct api *a, const char *group, struct jw *json, struct cay_err *err)
{
	const struct sandbox_query which = { .state = "live", .group = group };
	struct failures failures = { .err = err };
	struct ids ids = {};
	int r = api_list(a, OP_SANDBOX_LIST, &which, gather, &ids, err);

	if (r == -ENOMEM)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list");
	for (size_t i = 0; r >= 0 && i < ids.n; i++) {
		struct cay_err why = {};

		note(&failures, a, remove_one(a, &ids.v[i], json, &why), &why);
	}
	free(ids.v);
	return r < 0 ? r : tell(&failures, a);
}

/* The group ends at once; then each is waited for, and whoever was added meanwhile. */
int group_remove(struct api *a, const char *group, struct jw *json, struct cay_err *err)
{
	struct group_query query = { .group = group };
	struct failures failures = { .err = err };
	struct sandbox_list ending = {};
	const struct sandbox *v;
	int r = api_call(a, &(struct api_call){ .op = OP_GROUP_DELETE, .query = &query }, &ending,
			 err);

	if (r < 0)
		return r;
	v = ending.sandboxes.v;
	for (size_t i = 0; i < ending.sandboxes.n; i++) {
		struct cay_err why = {};

		r = remove_one(a, &v[i].id, json, &why);
		if (why.code != CAY_E_NOT_FOUND)
			note(&failures, a, r, &why);
	}
	return failures.first ? tell(&failures, a) : remove_all(a, group, json, err);
}

static int remove_named(struct cli *c, const struct opt_words *w, struct jw *json,
			struct cay_err *err)
{
	struct failures failures = { .err = err };

	for (size_t i = 0; i < w->n_operands; i++) {
		struct cay_err why = {};
		struct id id;
		int r = api_find_sandbox(&c->api, w->operands[i], &id, &why);

		if (r >= 0)
			r = remove_one(&c->api, &id, json, &why);
		r = r < 0 ? cay_wrap(&why, r, "%s", w->operands[i]) : r;
		note(&failures, &c->api, r, &why);
	}
	return tell(&failures, &c->api);
}

int removed_print(struct jw *json, struct buf *out, struct cay_err *err)
{
	jw_end(json);
	jw_end(json);
	if (jw_done(json) < 0 || buf_putc(out, '\n') < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return show_out(out, err);
}

struct jw removed_begin(struct buf *out)
{
	struct jw w = jw_to(out);

	jw_object(&w, NULL);
	jw_array(&w, "sandboxes");
	return w;
}

/* Those that are gone are told also when others could not be removed. */
static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	const struct rm_args *a = args;
	auto_buf out = BUF_INIT(MIB(64));
	struct jw gone = removed_begin(&out), *json = a->json.json ? &gone : NULL;
	struct cay_err told = {};
	int r;

	if (a->all + !!a->group + (w->n_operands > 0) != 1)
		return cay_fail(err, CAY_E_INVALID,
				"rm: name sandboxes, or say --all, or --group NAME");
	if (a->group)
		r = group_remove(&c->api, a->group, json, err);
	else if (a->all)
		r = remove_all(&c->api, NULL, json, err);
	else
		r = remove_named(c, w, json, err);
	if (!json || removed_print(json, &out, &told) >= 0 || r < 0)
		return r;
	*err = told;
	return -EIO;
}

const struct cmd cmd_rm = {
	.name = "rm",
	.args = "[--json] SANDBOX... | --all | --group NAME",
	.operands = { OPERAND_SANDBOX, OPERAND_SANDBOX },
	.max = SIZE_MAX,
	.options = options,
	.size = sizeof(struct rm_args),
	.help = "End sandboxes and remove all of them",
	.run = run,
};
