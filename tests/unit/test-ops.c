/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "ops/op.h"
#include "text/label-selector.h"
#include "unit.h"

#define SB "sb0001000g00000000000000tr"
#define SH "sh0001000g00000000000000tr"
#define KN "kn0001000g00000000000000tr"
#define EX "ex0001000g00000000000000tr"
#define IM "im0001000g00000000000000tr"
#define TN "tn0001000g00000000000000tr"
#define TP "tp0001000g00000000000000tr"
#define SN "sn0001000g00000000000000tr"
#define VO "vo0001000g00000000000000tr"
#define KY "ky0001000g00000000000000tr"
#define AK "ak0001000g00000000000000tr"

/* One request per operation, by name. */
static const struct {
	const char *op, *method, *target;
	unsigned params;
} requests[] = {
#include "op-requests.def"
};

static void every_operation_is_found_by_its_request(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct op_match m = {};
		unsigned allow = 0;

		row_check(i, op_find(slice_of(requests[i].method), slice_of(requests[i].target), &m,
				     &allow, NULL) == 0);
		assert_string_equal(m.op->name, requests[i].op);
		row_check(i, m.n_params == requests[i].params);
		row_check(i, !m.n_params || id_is_valid(&m.params[0], ID_NONE));
	}
}

static void what_is_not_there_is_404_and_a_wrong_method_405(void **)
{
	static const struct {
		const char *method, *target;
		int want;
		unsigned allow;
	} cases[] = {
		{ "GET", "", -ENOENT, 0 },
		{ "GET", "/", -ENOENT, 0 },
		{ "GET", "/v1", -ENOENT, 0 },
		{ "GET", "/v1/health/", -ENOENT, 0 },
		{ "GET", "//v1/health", -ENOENT, 0 },
		{ "GET", "/v1//health", -ENOENT, 0 },
		{ "GET", "v1/health", -ENOENT, 0 },
		{ "GET", "/V1/health", -ENOENT, 0 },
		{ "GET", "/v1/%68ealth", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/..", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/%2e", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/a%2Fb", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/a%", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/a b", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/%ff", -ENOENT, 0 },
		{ "GET", "/v1/images/crawler", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/crawler/execs/crawler", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "%00", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/execs/" SB, -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "%2Fexecs", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/services/", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/services/..", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/services/-x", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/services/a%2Eb", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/services/a b", -ENOENT, 0 },
		{ "GET", "/v1/sandboxes/" SB "/services/" SB SB SB, -ENOENT, 0 },
		{ "POST", "/v1/health", -ENOSYS, 1u << METHOD_GET },
		{ "get", "/v1/health", -ENOSYS, 1u << METHOD_GET },
		{ "", "/v1/health", -ENOSYS, 1u << METHOD_GET },
		{ "PUT", "/v1/sandboxes/" SB, -ENOSYS, 1u << METHOD_GET | 1u << METHOD_DELETE },
		{ "PATCHPATCHPATCHPATCHPATCH", "/v1/images", -ENOSYS,
		  1u << METHOD_GET | 1u << METHOD_POST },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct op_match m = {};
		struct cay_err err = {};
		unsigned allow = 99;

		row_check(i, op_find(slice_of(cases[i].method), slice_of(cases[i].target), &m,
				     &allow, &err) == cases[i].want);
		row_check(i, !m.op && allow == cases[i].allow);
		row_check(i, err.code == (cases[i].allow ? CAY_E_METHOD : CAY_E_NOT_FOUND));
		row_check(i, cases[i].allow || strstr(err.hint, "/docs"));
	}
}

static void a_sandbox_has_a_name_in_a_path(void **)
{
	static const char target[] = "/v1/sandboxes/Session%20A%252e/execs/" EX "/output?offset=1";
	struct op_match m = {};
	struct id id;
	unsigned allow = 0;

	assert_int_equal(op_find(SLICE("GET"), slice_of(target), &m, &allow, NULL), 0);
	assert_string_equal(m.op->name, "exec.output");
	assert_string_equal(m.sandbox_name, "Session A%2e");
	assert_true(slice_eq(m.sandbox_segment, SLICE("Session%20A%252e")));
	assert_int_equal(m.n_params, 2);
	assert_int_equal(id_parse(ID_EXEC, SLICE(EX), &id), 0);
	assert_true(id_eq(&m.params[1], &id));
	assert_false(op_match_is_resolved(&m));
	assert_null(op_match_target(&m));
	assert_int_equal(id_parse(ID_SANDBOX, SLICE(SB), &id), 0);
	op_match_resolve(&m, &id);
	assert_true(op_match_is_resolved(&m));
	assert_true(id_eq(op_match_target(&m), &id));
	/* nothing of it is left in the next one */
	assert_int_equal(op_find(SLICE("GET"), SLICE("/v1/sandboxes/" SB), &m, &allow, NULL), 0);
	assert_false(m.sandbox_segment.n || op_match_is_resolved(&m));
	assert_true(id_eq(op_match_target(&m), &id));
}

static bool has_request(const struct op *op)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		if (str_eq(requests[i].op, op->name))
			return true;
	return false;
}

/* The members an audit record has are texts and ids of the query or the body. */
static bool audits_texts(const struct op *op)
{
	struct slice names = op->audit ? slice_of(op->audit) : (struct slice){};
	const struct field_table *tables[] = { op->query, op->request };

	while (names.n) {
		struct slice name = slice_cut(&names, ' ');
		bool found = false;

		for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
			for (size_t i = 0; tables[t] && i < tables[t]->n; i++)
				found |= slice_eq(name, slice_of(tables[t]->rows[i].name)) &&
					 (tables[t]->rows[i].type == FIELD_TEXT ||
					  tables[t]->rows[i].type == FIELD_ID);
		if (!found)
			return false;
	}
	return true;
}

static void every_row_is_complete(void **)
{
	for (unsigned i = 0; i < OP_NUM; i++) {
		const struct op *op = &ops[i];

		row_check(i, op->name[0] && strchr(op->name, '.'));
		row_check(i, op->scope > SCOPE_NONE && op->scope < SCOPE_NUM);
		row_check(i, op->method > METHOD_NONE && op->method < METHOD_NUM);
		row_check(i, op->path[0] == '/' && op->summary[0]);
		row_check(i, op->reply == REPLY_SOCKET ? op->status == 101
						       : op->status >= 200 && op->status < 300);
		row_check(i, (op->body == BODY_NONE) == (op->body_max == 0));
		row_check(i, (op->body == BODY_JSON) == (op->request != NULL));
		/* a template brings its files; a script may have 1 MiB of text */
		row_check(i, op->body != BODY_JSON || op->body_max <= KIB(64) ||
				     op == &ops[OP_TEMPLATE_CREATE] || op == &ops[OP_EXEC_RUN] ||
				     op == &ops[OP_SHELL_RUN] || op == &ops[OP_KERNEL_RUN] ||
				     op == &ops[OP_KERNEL_EVAL] || op == &ops[OP_BROWSER_ACT]);
		row_check(i, op->response || op->reply == REPLY_RAW || op->reply == REPLY_DOC ||
				     op->reply == REPLY_TEXT || op->reply == REPLY_SOCKET ||
				     op->reply == REPLY_BYTES || op->reply == REPLY_TREE ||
				     op->reply == REPLY_TAR || op->reply == REPLY_PAGE);
		row_check(i, op->method != METHOD_GET || op->body == BODY_NONE);
		/* what is searched for may be longer than a URL; a check opens nothing */
		row_check(i, op->scope != SCOPE_READ || op->method == METHOD_GET ||
				     i == OP_FILE_GREP || i == OP_EGRESS_CHECK);
		row_check(i, op_method_name(op->method)[0] && op_scope_name(op->scope)[0]);
		row_check(i, has_request(op) && audits_texts(op));
		row_check(i, !(op->flags & OP_PAGE) || op->scope == SCOPE_PUBLIC);
		row_check(i, op_deadline_ms(op, true) == OP_DEADLINE_S * 1000);
		for (unsigned k = 0; k < i; k++) {
			row_check(i, !str_eq(op->name, ops[k].name));
			row_check(i, op->method != ops[k].method || !str_eq(op->path, ops[k].path));
			row_check(i, !op->alias || !op_has_path(&ops[k], slice_of(op->alias)));
		}
	}
}

static void a_reply_has_one_deadline_everywhere(void **)
{
	assert_int_equal(op_deadline_ms(&ops[OP_SANDBOX_GET], false), 30000);
	assert_int_equal(op_deadline_ms(&ops[OP_SHELL_RUN], false), 0);
	assert_int_equal(op_deadline_ms(&ops[OP_SHELL_RUN], true), 30000);
	assert_int_equal(op_deadline_ms(&ops[OP_FILE_DELETE], false), 660000);
	assert_int_equal(op_deadline_ms(&ops[OP_SANDBOX_DELETE], false), 300000);
}

static bool has_tag(const struct op *op)
{
	struct slice name = slice_of(op->name), tag = slice_cut(&name, '.');

	for (size_t i = 0; i < op_n_tags; i++)
		if (slice_eq(tag, slice_of(op_tags[i].name)))
			return true;
	return false;
}

/* A row that is missing: op_tags in src/lib/ops/names.c, src/lib/ops/causes.def. */
static void people_are_told_of_every_row(void **)
{
	for (unsigned i = 0; i < OP_NUM; i++)
		row_check(i, has_tag(&ops[i]));
	for (unsigned i = 0; i < CAY_NUM_CODES; i++)
		row_check(i, error_code_cause((enum cay_code)i));
}

static void labels_are_selected_by_every_term(void **)
{
	static const char *keys[] = { "run", "team", "e" }, *values[] = { "r1", "blue", "" };
	static const struct {
		const char *selector;
		bool valid, matches;
	} cases[] = {
		{ "run=r1", true, true },    { "run", true, true },
		{ "run=r2", true, false },   { "run=r", true, false },
		{ "run=", true, false },     { "e=", true, true },
		{ "e", true, true },         { "run=r1,team=blue", true, true },
		{ "run,team", true, true },  { "run=r1,team=red", true, false },
		{ "none", true, false },     { "run=r1,none", true, false },
		{ "", false, false },        { ",", false, false },
		{ "run=r1,", false, false }, { ",run=r1", false, false },
		{ "=r1", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct slice s = slice_of(cases[i].selector);
		struct cay_err err = {};

		row_check(i, (label_selector_check(s, &err) >= 0) == cases[i].valid);
		row_check(i, label_selector_matches(s, keys, values, 3) == cases[i].matches);
		row_check(i, cases[i].valid || str_eq(err.field, "label"));
	}
}

static void errors_have_the_one_shape(void **)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct jw w = jw_to(&b);
	struct cay_err err = {};

	(void)cay_fail_field(&err, CAY_E_INVALID, "image", "'image' is missing");
	error_body_write(&err, "r-1", NULL, &w);
	assert_int_equal(jw_finish(&w), 0);
	assert_text(
		&b,
		"{\"error\":{\"code\":\"invalid_argument\",\"message\":\"'image' is missing\","
		"\"hint\":\"correct the field named in 'field'; GET /v1/openapi.json has its "
		"type and limits\",\"field\":\"image\",\"blame\":\"caller\",\"retryable\":false,"
		"\"request_id\":\"r-1\"}}");
}

/* Whatever the rows say: PID 1 is ours, and so is a reply of 5xx, but for a port that the program
 * in the sandbox does not listen on. */
static void what_is_ours_is_never_blamed_on_the_task(void **)
{
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++) {
		const struct cay_error_row *e = cay_error_row((enum cay_code)i);
		bool task = i == CAY_E_PORT;

		row_check(i, (e->blame == BLAME_TASK) == task);
		row_check(i, e->http < 500 || task || e->blame == BLAME_INFRA);
		row_check(i, e->http >= 500 || !e->retryable || e->blame != BLAME_CALLER);
	}
	for (unsigned i = 0; i < END_NUM_REASONS; i++)
		for (unsigned of = 0; of < END_OF_NUM; of++) {
			struct end end = { .reason = i };
			bool own = of == END_OF_PROCESS && (i == END_EXIT || i == END_SIGNAL);

			end_judge(&end, (enum end_of)of);
			row_check(i, end.has_blame && (end.blame == BLAME_TASK) == own);
			row_check(i, end.retryable == (end.blame == BLAME_INFRA));
			row_check(i, of != END_OF_PID1 || i == END_OOM || end.blame == BLAME_INFRA);
		}
}

static void one_that_failed_to_start_is_judged_by_its_error(void **)
{
	struct end end = { .reason = END_START_FAILED };

	end_judge_failure(&end, CAY_E_START);
	assert_true(end.has_blame && end.blame == BLAME_CALLER && !end.retryable);
	end_judge_failure(&end, CAY_E_CAPACITY);
	assert_true(end.blame == BLAME_INFRA && end.retryable);
	end_judge_failure(&end, CAY_OK);
	assert_int_equal(end.blame, BLAME_INFRA);
}

static void a_hint_for_the_cause_beats_that_of_the_code(void **)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct jw w = jw_to(&b);
	struct cay_err err = {};

	(void)cay_fail(&err, CAY_E_FORBIDDEN, "this user may not");
	cay_err_hint(&err, "choose another path");
	error_body_write(&err, NULL, NULL, &w);
	assert_int_equal(jw_finish(&w), 0);
	assert_non_null(strstr(b.data, "\"hint\":\"choose another path\""));
}

static void a_failure_is_never_a_success_and_keeps_secrets(void **)
{
	auto_buf unset = BUF_INIT(KIB(4)), broken = BUF_INIT(KIB(4)), moved = BUF_INIT(KIB(4));
	auto_buf refused = BUF_INIT(KIB(4));
	struct jw w1 = jw_to(&unset), w2 = jw_to(&broken), w3 = jw_to(&moved), w4 = jw_to(&refused);
	struct cay_err none = {}, internal = {}, away = {}, forged = {};

	error_body_write(&none, NULL, NULL, &w1);
	assert_int_equal(jw_finish(&w1), 0);
	assert_non_null(strstr(unset.data, "\"code\":\"internal\""));
	(void)cay_fail(&internal, CAY_E_INTERNAL, "cannot open '/secret/path'");
	error_body_write(&internal, NULL, NULL, &w2);
	assert_int_equal(jw_finish(&w2), 0);
	assert_null(strstr(broken.data, "secret"));
	(void)cay_fail(&away, CAY_E_MOVED, "it lives elsewhere");
	error_body_write(&away, NULL, "node-7", &w3);
	assert_int_equal(jw_finish(&w3), 0);
	assert_non_null(strstr(moved.data, "\"details\":{\"node\":\"node-7\"}"));
	(void)cay_fail(&forged, CAY_E_UNAUTHENTICATED, "the signature is invalid");
	cay_err_hint(&forged, "sign with another key");
	error_body_write(&forged, NULL, NULL, &w4);
	assert_int_equal(jw_finish(&w4), 0);
	assert_non_null(strstr(refused.data, "\"code\":\"unauthenticated\""));
	assert_null(strstr(refused.data, "signature"));
	assert_null(strstr(refused.data, "another key"));
}

static void every_parameter_of_a_path_is_known(void **)
{
	for (unsigned i = 0; i < OP_NUM; i++) {
		struct slice rest = slice_of(ops[i].path);
		unsigned n = 0;

		while (rest.p) {
			struct slice part = slice_cut(&rest, '/');
			bool known = false;

			if (!part.n || part.p[0] != '{')
				continue;
			row_check(i, ++n <= OP_PARAMS_MAX && part.p[part.n - 1] == '}');
			for (size_t k = 0; k < op_n_params; k++)
				known |= slice_eq((struct slice){ part.p + 1, part.n - 2 },
						  slice_of(op_params[k].name));
			row_check(i, known);
		}
	}
}

static bool has_row(const struct field_table *t, struct slice name)
{
	struct slice top = slice_cut(&name, '.');

	for (size_t i = 0; t && i < t->n; i++)
		if (slice_eq(top, slice_of(t->rows[i].name)))
			return !name.n || has_row(t->rows[i].sub, name);
	return false;
}

/* It, or some of what is in it. */
static bool is_named(const char *names, const struct field *f)
{
	bool named = field_names_contain(names, NULL, f->name);

	for (size_t i = 0; !named && f->sub && i < f->sub->n; i++)
		named = field_names_contain(names, f->name, f->sub->rows[i].name);
	return named;
}

static void whole_example(unsigned i, const struct field_table *t)
{
	for (size_t k = 0; t && k < t->n; k++)
		row_check(i, !t->rows[k].required || is_named(op_examples[i], &t->rows[k]));
}

/* The words of examples.def are rows, and none that must be there is left out. */
static void examples_have_rows_that_are_there(void **)
{
	for (unsigned i = 0; i < OP_NUM; i++) {
		struct slice rest = slice_of(op_examples[i] ? op_examples[i] : "");

		while (rest.n) {
			struct slice word = slice_cut(&rest, ' ');

			row_check(i, has_row(ops[i].request, word) || has_row(ops[i].query, word));
		}
		if (op_examples[i]) {
			whole_example(i, ops[i].request);
			whole_example(i, ops[i].query);
		}
	}
}

/* Every $ref leads somewhere, every operation and code is there. */
static void openapi_is_whole(void **)
{
	const struct json_limits wide = { .bytes = MIB(1), .depth = 32, .values = 100000 };
	auto_buf b = BUF_INIT(MIB(1));
	struct jw w = jw_to(&b);
	auto_json j = NULL;
	struct cay_err err = {};
	json_t *schemas;

	openapi_write(&w);
	assert_int_equal(jw_finish(&w), 0);
	assert_int_equal(json_parse((struct slice){ b.data, b.len }, &wide, &j, &err), 0);
	schemas = json_object_get(json_object_get(j, "components"), "schemas");
	for (const char *at = b.data; (at = strstr(at, "#/components/schemas/"));) {
		struct slice name = { at + strlen("#/components/schemas/"), 64 };
		char text[65] = {};

		name = slice_cut(&name, '"');
		memcpy(text, name.p, name.n);
		assert_non_null(json_object_get(schemas, text));
		at++;
	}
	for (unsigned i = 0; i < OP_NUM; i++)
		row_check(i, json_object_get(json_object_get(j, "paths"), ops[i].path));
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++) {
		auto_buf quoted = BUF_INIT(100);

		assert_int_equal(
			buf_printf(&quoted, "\"%s\"", cay_error_row((enum cay_code)i)->name), 0);
		row_check(i, strstr(b.data, quoted.data));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_is_found_by_its_request),
		cmocka_unit_test(a_sandbox_has_a_name_in_a_path),
		cmocka_unit_test(what_is_not_there_is_404_and_a_wrong_method_405),
		cmocka_unit_test(every_row_is_complete),
		cmocka_unit_test(a_reply_has_one_deadline_everywhere),
		cmocka_unit_test(people_are_told_of_every_row),
		cmocka_unit_test(labels_are_selected_by_every_term),
		cmocka_unit_test(errors_have_the_one_shape),
		cmocka_unit_test(what_is_ours_is_never_blamed_on_the_task),
		cmocka_unit_test(one_that_failed_to_start_is_judged_by_its_error),
		cmocka_unit_test(a_hint_for_the_cause_beats_that_of_the_code),
		cmocka_unit_test(a_failure_is_never_a_success_and_keeps_secrets),
		cmocka_unit_test(every_parameter_of_a_path_is_known),
		cmocka_unit_test(examples_have_rows_that_are_there),
		cmocka_unit_test(openapi_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
