/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include <assert.h>

/* An id without randomness is never generated. */
static const struct id no_sandbox = { .noun = ID_SANDBOX };

const struct op ops[OP_NUM] = {
#define CAY_OP(sym, noun, verb, where_, method_, path_, scope_, status_, ...) \
	[OP_##sym] = { .name = #noun "." #verb, \
		       .where = WHERE_##where_, \
		       .method = METHOD_##method_, \
		       .path = path_, \
		       .scope = SCOPE_##scope_, \
		       .status = status_, \
		       __VA_ARGS__ },
#include "ops/ops.def"
#undef CAY_OP
};

const char *const op_examples[OP_NUM] = {
#define CAY_EXAMPLE(sym, names) [OP_##sym] = names,
#include "ops/examples.def"
#undef CAY_EXAMPLE
};

static const char *const method_names[] = {
	[METHOD_NONE] = "",   [METHOD_GET] = "GET",       [METHOD_POST] = "POST",
	[METHOD_PUT] = "PUT", [METHOD_DELETE] = "DELETE",
};
static_assert(ARRAY_SIZE(method_names) == METHOD_NUM);

static const char *const scope_names[] = {
	[SCOPE_NONE] = "",       [SCOPE_PUBLIC] = "public",     [SCOPE_READ] = "read",
	[SCOPE_WRITE] = "write", [SCOPE_OPERATOR] = "operator",
};
static_assert(ARRAY_SIZE(scope_names) == SCOPE_NUM);

const struct op_param op_params[] = {
	{ "sandbox", ID_SANDBOX, "Id of a sandbox, or its name" },
	{ "exec", ID_EXEC, "Id of a command in it" },
	{ "image", ID_IMAGE, "Id of an image" },
	{ "tenant", ID_TENANT, "Id of a tenant" },
	{ "key", ID_KEY, "Id of a key" },
	{ "template", ID_TEMPLATE, "Id of a template" },
	{ "snapshot", ID_SNAPSHOT, "Id of a snapshot" },
	{ "volume", ID_VOLUME, "Id of a volume" },
	{ "credential", ID_NONE, "Name of a credential" },
	{ "ask", ID_ASK, "Id of an ask" },
	{ "service", ID_NONE, "Name of a service in it" },
	{ "pid", ID_NONE, "Number of a process in it" },
	{ "port", ID_NONE, "Number of a TCP port in it" },
	{ "shell", ID_SHELL, "Id of a shell in it" },
	{ "kernel", ID_KERNEL, "Id of a kernel in it" },
	{ "run", ID_NONE, "Number of a run in a shell or kernel" },
};
const size_t op_n_params = ARRAY_SIZE(op_params);

const char *op_method_name(enum op_method m)
{
	return method_names[m];
}

const char *op_scope_name(enum op_scope s)
{
	return scope_names[s];
}

static enum id_noun op_param_find_noun(struct slice name)
{
	size_t i = 0;

	while (i < op_n_params && !slice_eq(name, slice_of(op_params[i].name)))
		i++;
	assert(i < op_n_params);
	return op_params[i].noun;
}

bool op_has_path(const struct op *op, struct slice path)
{
	return slice_eq(path, slice_of(op->path)) ||
	       (op->alias && slice_eq(path, slice_of(op->alias)));
}

uint64_t op_deadline_ms(const struct op *op, bool streamed)
{
	uint64_t s = op->deadline_s && !streamed ? op->deadline_s : OP_DEADLINE_S;

	return s == OP_NO_DEADLINE ? 0 : s * 1000;
}

bool op_name_is_valid(struct slice name)
{
	if (!name.n || name.n > OP_NAME_MAX || !ascii_is_alnum(name.p[0]))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alnum(name.p[i]) && (!name.p[i] || !strchr("._-", name.p[i])))
			return false;
	return true;
}

/* Names never have the spelling of an id, so that it is asked second. */
static bool op_match_take_name(struct op_match *m, struct slice segment)
{
	if (m->n_params != 1 || sandbox_name_decode(segment, m->sandbox_name) < 0)
		return false;
	m->sandbox_segment = segment;
	m->params[0] = no_sandbox;
	return true;
}

/* "{name}" takes what is up to the next '/', which must be an id of its noun.  Ids
 * are parsed last: most patterns differ in their letters already. */
static bool op_path_match(const char *pattern, struct slice path, struct op_match *m)
{
	struct slice names[OP_PARAMS_MAX], ids[OP_PARAMS_MAX];
	const char *p = path.p, *end = path.p + path.n;
	unsigned n = 0;

	for (const char *w = pattern; *w; w++) {
		if (*w == '{') {
			const char *close = strchr(w, '}'), *from = p;

			assert(close && n < OP_PARAMS_MAX);
			while (p < end && *p != '/')
				p++;
			names[n] = (struct slice){ w + 1, (size_t)(close - w - 1) };
			ids[n++] = (struct slice){ from, (size_t)(p - from) };
			w = close;
		} else if (p == end || *w != *p) {
			return false;
		} else {
			p++;
		}
	}
	if (p != end)
		return false;
	m->n_params = 0;
	m->name = m->sandbox_segment = (struct slice){};
	for (unsigned i = 0; i < n; i++) {
		enum id_noun noun = op_param_find_noun(names[i]);

		if (noun == ID_NONE && op_name_is_valid(ids[i]))
			m->name = ids[i];
		else if (noun == ID_NONE)
			return false;
		else if (id_parse(noun, ids[i], &m->params[m->n_params++]) < 0 &&
			 !(noun == ID_SANDBOX && op_match_take_name(m, ids[i])))
			return false;
	}
	return true;
}

void op_match_resolve(struct op_match *m, const struct id *sandbox)
{
	assert(m->sandbox_segment.n);
	m->params[0] = *sandbox;
}

bool op_match_is_resolved(const struct op_match *m)
{
	return m->sandbox_segment.n && !id_eq(&m->params[0], &no_sandbox);
}

const struct id *op_match_target(const struct op_match *m)
{
	bool found = !m->sandbox_segment.n || op_match_is_resolved(m);

	return m->n_params && found ? &m->params[0] : NULL;
}

int op_find(struct slice method, struct slice target, struct op_match *ret, unsigned *ret_allow,
	    struct cay_err *err)
{
	struct op_match m = { .query = target };
	struct slice path = slice_cut(&m.query, '?');
	unsigned allow = 0;

	for (unsigned i = 0; i < OP_NUM; i++) {
		if (!op_path_match(ops[i].path, path, &m) &&
		    !(ops[i].alias && slice_eq(path, slice_of(ops[i].alias))))
			continue;
		if (slice_eq(method, slice_of(method_names[ops[i].method]))) {
			m.op = &ops[i];
			*ret = m;
			return 0;
		}
		allow |= 1u << ops[i].method;
	}
	*ret_allow = allow;
	if (allow)
		return cay_fail(err, CAY_E_METHOD, "this path does not take %.*s",
				(int)(method.n > 16 ? 16 : method.n), method.p);
	(void)cay_fail(err, CAY_E_NOT_FOUND, "no such endpoint");
	cay_err_hint(err, "no operation has this path; /docs lists all of them, if the operator "
			  "lets this node serve it");
	return -ENOENT;
}

/* What an internal failure says is for the log.  So is why a credential was
 * refused: it would tell who guesses how near they are. */
static const char *error_body_message(enum cay_code code, const struct cay_err *err)
{
	if (code == CAY_E_INTERNAL)
		return "internal error";
	if (code == CAY_E_UNAUTHENTICATED)
		return "the credential is missing or not valid";
	return err->msg;
}

/* The same holds for what to do about it. */
static const char *error_body_hint(enum cay_code code, const struct cay_err *err)
{
	bool secret = code == CAY_E_INTERNAL || code == CAY_E_UNAUTHENTICATED;

	return err->hint[0] && !secret ? err->hint : cay_error_row(code)->hint;
}

struct error_object error_object_from(const struct cay_err *err, const char *request_id)
{
	/* a handler that failed without saying how is a bug, not a success */
	enum cay_code code = err->code == CAY_OK ? CAY_E_INTERNAL : err->code;
	const struct cay_error_row *row = cay_error_row(code);

	return (struct error_object){
		.code = (unsigned)code - 1,
		.message = error_body_message(code, err),
		.hint = error_body_hint(code, err),
		.field = err->field[0] ? err->field : NULL,
		.request_id = request_id,
		.blame = err->code == CAY_OK ? row->blame : cay_err_blame(err),
		.has_blame = true,
		.retryable = row->retryable,
	};
}

void error_body_write(const struct cay_err *err, const char *request_id, const char *node,
		      struct jw *w)
{
	struct error_body body = { error_object_from(err, request_id) };

	body.error.details.node = node;
	body.error.has_details = node != NULL;
	field_encode(&error_body_table, NULL, &body, w);
}
