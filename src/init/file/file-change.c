/* SPDX-License-Identifier: Apache-2.0 */
#include "file/name-ops.h"
#include "file/tmpfile.h"
#include "init/file/file-read.h"
#include "text/base64.h"

#define RESULTS_POOL MIB(2) /* more than the results of any batch */
#define STATS_POOL MIB(1)   /* a reply may have 8 MiB, and a byte up to six in JSON */

/* Every request is turned into a step of a batch, so that each rule is written once.  q is the
 * body of the request. */
#define FILE_STEP(v, ...) \
	((struct file_step){ .verb = v, .path = q->path, .path_b64 = q->path_b64, __VA_ARGS__ })

static struct file_step file_step_from_request(const struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;

	if (op == OP_FILE_MKDIR) {
		const struct file_mkdir *q = rq->body;

		return FILE_STEP(FILE_MKDIR, .mode = q->mode, .owner = q->owner,
				 .parents = q->parents);
	}
	if (op == OP_FILE_MOVE) {
		const struct file_move *q = rq->body;

		return FILE_STEP(FILE_MOVE, .to = q->to, .to_b64 = q->to_b64,
				 .overwrite = q->overwrite, .parents = q->parents);
	}
	if (op == OP_FILE_COPY) {
		const struct file_copy *q = rq->body;

		return FILE_STEP(FILE_COPY, .to = q->to, .to_b64 = q->to_b64,
				 .overwrite = q->overwrite, .parents = q->parents,
				 .recursive = q->recursive);
	}
	if (op == OP_FILE_DELETE) {
		const struct file_delete *q = rq->body;

		return FILE_STEP(FILE_DELETE, .recursive = q->recursive,
				 .missing_ok = q->missing_ok);
	}
	if (op == OP_FILE_CHMOD) {
		const struct file_chmod *q = rq->body;

		return FILE_STEP(FILE_CHMOD, .mode = q->mode, .owner = q->owner,
				 .recursive = q->recursive);
	}
	const struct file_symlink *q = rq->body;

	return FILE_STEP(FILE_LINK, .target = q->target, .target_b64 = q->target_b64,
			 .overwrite = q->overwrite, .parents = q->parents);
}

/* Members that a step may have besides its path; the decoder has checked single requests. */
enum {
	HAS_TO = 1,
	HAS_TARGET = 2,
	HAS_MODE = 4,
	HAS_OVERWRITE = 8,
	HAS_PARENTS = 16,
	HAS_RECURSIVE = 32,
	HAS_MISSING = 64,
	HAS_CONTENT = 128,
	HAS_FOLLOW = 256
};

static const struct {
	enum name_op_kind what;
	unsigned takes;
} file_step_verbs[FILE_NUM_VERBS] = {
	[FILE_MKDIR] = { NAME_OP_MKDIR, HAS_MODE | HAS_PARENTS },
	[FILE_MOVE] = { NAME_OP_MOVE, HAS_TO | HAS_OVERWRITE | HAS_PARENTS },
	[FILE_COPY] = { NAME_OP_COPY, HAS_TO | HAS_OVERWRITE | HAS_PARENTS | HAS_RECURSIVE },
	[FILE_DELETE] = { NAME_OP_DELETE, HAS_RECURSIVE | HAS_MISSING },
	[FILE_CHMOD] = { NAME_OP_CHMOD, HAS_MODE | HAS_RECURSIVE },
	[FILE_LINK] = { NAME_OP_SYMLINK, HAS_TARGET | HAS_OVERWRITE | HAS_PARENTS },
	/* not name operations: for batches, and operations of their own */
	[FILE_WRITE] = { NAME_OP_NUM, HAS_CONTENT | HAS_MODE | HAS_PARENTS },
	[FILE_STAT] = { NAME_OP_NUM, HAS_FOLLOW },
};

static int file_step_check_members(const struct file_step *s, struct cay_err *err)
{
	const struct {
		bool there;
		unsigned bit;
		const char *name;
	} members[] = {
		{ s->to || s->to_b64, HAS_TO, "to" },
		{ s->target || s->target_b64, HAS_TARGET, "target" },
		{ s->mode, HAS_MODE, "mode" },
		{ s->owner, HAS_MODE, "owner" },
		{ s->overwrite, HAS_OVERWRITE, "overwrite" },
		{ s->parents, HAS_PARENTS, "parents" },
		{ s->recursive, HAS_RECURSIVE, "recursive" },
		{ s->missing_ok, HAS_MISSING, "missing_ok" },
		{ s->content, HAS_CONTENT, "content" },
		{ s->content_b64, HAS_CONTENT, "content_b64" },
		{ s->sha256, HAS_CONTENT, "sha256" },
		{ s->if_sha256, HAS_CONTENT, "if_sha256" },
		{ s->create_only, HAS_CONTENT, "create_only" },
		{ s->append, HAS_CONTENT, "append" },
		{ s->follow, HAS_FOLLOW, "follow" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (members[i].there && !(file_step_verbs[s->verb].takes & members[i].bit))
			return cay_fail_field(err, CAY_E_INVALID, members[i].name,
					      "not a member of this step");
	if (s->verb == FILE_CHMOD && !s->mode && !s->owner)
		return cay_fail_field(err, CAY_E_INVALID, "mode", "mode or owner is required");
	return 0;
}

static void on_file_step_progress(void *arg)
{
	child_op_report_progress(arg);
}

/* *ret is its path afterwards. */
static int file_step_run(struct child_op *w, struct arena *arena, const struct file_step *s,
			 const char **ret, struct cay_err *err)
{
	struct name_op c = { .kind = file_step_verbs[s->verb].what,
			     .parents = s->parents,
			     .overwrite = s->overwrite,
			     .recursive = s->recursive,
			     .missing_ok = s->missing_ok,
			     .has_mode = s->mode,
			     .on_progress = on_file_step_progress,
			     .arg = w };
	int r = file_step_check_members(s, err);

	if (r >= 0)
		r = file_path_decode(s->path, s->path_b64, "path", arena, &c.path, err);
	*ret = c.path;
	if (r >= 0 && file_step_verbs[s->verb].takes & HAS_TO) {
		r = file_path_decode(s->to, s->to_b64, "to", arena, &c.to, err);
		*ret = r < 0 ? c.path : c.to;
	}
	if (r >= 0 && file_step_verbs[s->verb].takes & HAS_TARGET)
		r = file_path_decode(s->target, s->target_b64, "target", arena, &c.to, err);
	if (r >= 0 && s->mode && file_mode_parse(s->mode, &c.mode) < 0)
		r = cay_fail_field(err, CAY_E_INVALID, "mode",
				   "expected three or four octal digits");
	if (r >= 0)
		r = file_owner_resolve(s->owner, &c.uid, &c.gid, err);
	return r < 0 ? r : name_op_run(&c, err);
}

void child_file_change(struct child_op *w, struct request *rq)
{
	struct file_step step = file_step_from_request(rq);
	struct file_done reply = {};
	struct cay_err err = {};
	const char *name = NULL;

	if (file_step_run(w, &rq->arena, &step, &name, &err) >= 0 &&
	    file_path_encode(name, &rq->arena, &reply.path, &reply.path_b64) < 0)
		(void)cay_no_memory(&err);
	child_op_reply_json(w, &file_done_table, &reply, &err);
}

/* Results have arenas apart from the request; stats one of their own, since links can be long. */
struct file_batch_results {
	struct child_op *op;
	struct arena *arena; /* of the request */
	struct arena results_pool, stats_pool;
};

static int file_batch_write_step(struct file_batch_results *b, const struct file_step *s,
				 const char *name, struct file_result *ret, struct cay_err *err)
{
	struct file_write_query q = { .path = name,
				      .mode = s->mode,
				      .owner = s->owner,
				      .sha256 = s->sha256,
				      .if_sha256 = s->if_sha256,
				      .create_only = s->create_only,
				      .parents = s->parents,
				      .append = s->append };
	size_t n = s->content_b64 ? strlen(s->content_b64) : 0, got = 0;
	auto_free uint8_t *bytes = NULL;
	struct slice content;
	int r;

	if (!s->content == !s->content_b64)
		return cay_fail_field(err, CAY_E_INVALID, "content",
				      "exactly one of content and content_b64 is required");
	if (s->content) {
		content = slice_of(s->content);
	} else {
		bytes = calloc(1, BASE64_BYTES(n) + 1);
		if (!bytes)
			return cay_no_memory(err);
		if (base64_decode(s->content_b64, n, bytes, &got) < 0)
			return cay_fail_field(err, CAY_E_INVALID, "content_b64", "not base64");
		content = (struct slice){ (const char *)bytes, got };
	}
	r = file_write_content(&q, content, &b->results_pool, &ret->written, err);
	ret->has_written = r >= 0;
	return r;
}

static int file_batch_stat_step(struct file_batch_results *b, const struct file_step *s,
				const char *name, struct file_result *ret, struct cay_err *err)
{
	struct file_stat_query q = { .path = name, .follow = s->follow };
	int r = file_stat_path(&q, &b->stats_pool, &ret->stat, err);

	if (err->code == CAY_E_NO_MEMORY) {
		*err = (struct cay_err){};
		r = cay_fail(err, CAY_E_TOO_LARGE, "too many results for one reply");
	}
	ret->has_stat = r >= 0;
	return r;
}

static int file_batch_run_step(struct file_batch_results *b, const struct file_step *s,
			       const char **ret_name, struct file_result *ret, struct cay_err *err)
{
	int r;

	if (s->verb != FILE_WRITE && s->verb != FILE_STAT)
		return file_step_run(b->op, b->arena, s, ret_name, err);
	r = file_step_check_members(s, err);
	if (r >= 0)
		r = file_path_decode(s->path, s->path_b64, "path", b->arena, ret_name, err);
	if (r < 0)
		return r;
	return s->verb == FILE_WRITE ? file_batch_write_step(b, s, *ret_name, ret, err)
				     : file_batch_stat_step(b, s, *ret_name, ret, err);
}

static int file_batch_set_result(struct file_batch_results *b, const char *name,
				 const struct cay_err *err, struct file_result *ret)
{
	ret->done = !err->code;
	if (err->code)
		ret->code = cay_error_row(err->code)->name;
	if (err->code == CAY_E_INTERNAL)
		ret->message = "internal failure";
	else if (err->code)
		ret->message = arena_strndup(&b->results_pool, err->msg, strlen(err->msg));
	return name ? file_path_encode(name, &b->results_pool, &ret->path, &ret->path_b64) : 0;
}

static void file_batch_fini(struct file_batch_results *b)
{
	arena_fini(&b->results_pool);
	arena_fini(&b->stats_pool);
}

void child_file_batch(struct child_op *w, struct request *rq)
{
	CAY_CLEANUP(file_batch_fini)
	struct file_batch_results b = { w, &rq->arena, ARENA_INIT(RESULTS_POOL),
					ARENA_INIT(STATS_POOL) };
	const struct file_batch *q = rq->body;
	const struct file_step *steps = q->steps.v;
	struct file_result *v = arena_alloc(&b.results_pool, q->steps.n, sizeof(*v));
	struct file_results reply = { .results.v = v };
	struct cay_err err = {};
	int r = v || !q->steps.n ? 0 : -ENOMEM;

	for (size_t i = 0; i < q->steps.n && r >= 0 && (!reply.failed || q->keep_going); i++) {
		if (tmpfile_sigterm_was_received())
			break; /* the client left */
		struct file_result *one = &v[reply.results.n++];
		struct cay_err why = {};
		const char *name = NULL;

		reply.failed += file_batch_run_step(&b, &steps[i], &name, one, &why) < 0;
		r = file_batch_set_result(&b, name, &why, one);
		child_op_report_progress(w);
	}
	reply.left = q->steps.n - reply.results.n;
	if (r < 0)
		(void)cay_no_memory(&err);
	child_op_reply_json(w, &file_results_table, &reply, &err);
}
