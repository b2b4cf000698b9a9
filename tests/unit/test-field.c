/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/types.h"
#include "unit.h"

static int decode(const struct field_table *t, const char *text, struct arena *arena, void *ret,
		  struct cay_err *err)
{
	auto_json j = NULL;
	int r = json_parse(slice_of(text), &json_control_limits, &j, err);

	return r < 0 ? r : field_decode(t, j, arena, ret, err);
}

static void a_body_becomes_a_struct(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct sandbox_create c = {};
	struct cay_err err = {};

	assert_int_equal(
		decode(&sandbox_create_table,
		       "{\"image\":\"base\",\"name\":\"web-1\",\"labels\":{\"a.b/team\":\"x\"},"
		       "\"env\":{\"A_1\":\"b c\"},\"limits\":{\"memory_bytes\":\"1.5Gi\","
		       "\"cpu_milli\":\"2\",\"pids\":64},\"wait\":false}",
		       &arena, &c, &err),
		0);
	assert_string_equal(c.image, "base");
	assert_string_equal(c.name, "web-1");
	assert_int_equal(c.labels.n, 1);
	assert_string_equal(c.labels.keys[0], "a.b/team");
	assert_string_equal(c.env.values[0], "b c");
	assert_int_equal(c.limits.memory_bytes, 1610612736);
	assert_int_equal(c.limits.cpu_milli, 2000);
	assert_int_equal(c.limits.pids, 64);
	assert_false(c.wait);
}

static void what_is_left_out_has_its_default(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct sandbox_create c = {};
	struct exec_run e = {};

	assert_int_equal(decode(&sandbox_create_table,
				"{\"image\":\"base\",\"limits\":{},\"name\":null}", &arena, &c,
				NULL),
			 0);
	assert_null(c.name);
	assert_true(c.wait);
	assert_int_equal(c.limits.pids, 1024);
	assert_int_equal(decode(&exec_run_table, "{\"shell\":\"x\"}", &arena, &e, NULL), 0);
	assert_false(e.has_argv);
	assert_int_equal(decode(&exec_run_table, "{\"argv\":[\"a\",\"\"]}", &arena, &e, NULL), 0);
	assert_true(e.has_argv);
	assert_int_equal(e.argv.n, 2);
	assert_string_equal(e.argv.v[1], "");
	assert_null(e.argv.v[2]);
}

/* A nested object that is absent altogether still has its own defaults. */
static void an_absent_object_has_defaults_inside(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct sandbox_create c = {};

	assert_int_equal(decode(&sandbox_create_table, "{\"image\":\"base\"}", &arena, &c, NULL),
			 0);
	assert_int_equal(c.limits.memory_bytes, 536870912);
	assert_int_equal(c.limits.cpu_milli, 1000);
	assert_int_equal(c.limits.pids, 1024);
}

/* What one was not given, it has from the other; what it was given, it keeps. */
static void given_members_come_over_others(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct sandbox_create base = {}, over = {};
	auto_buf text = BUF_INIT(KIB(4));
	struct jw w = jw_to(&text);

	assert_int_equal(decode(&sandbox_create_table,
				"{\"image\":\"i\",\"env\":{\"A\":\"1\",\"B\":\"2\"},"
				"\"limits\":{\"pids\":9,\"memory_bytes\":\"64Mi\"},"
				"\"runtime\":\"runc\",\"ttl_ms\":5000}",
				&arena, &base, NULL),
			 0);
	assert_int_equal(decode(&sandbox_create_table,
				"{\"env\":{\"B\":\"3\"},\"limits\":{\"pids\":1024},"
				"\"idle_ms\":7000}",
				&arena, &over, NULL),
			 0);
	assert_int_equal(field_merge(&sandbox_create_table, &base, &over, &arena), 0);
	assert_string_equal(over.image, "i");
	assert_int_equal(over.limits.pids, 1024); /* said, though it is the preset */
	assert_int_equal(over.limits.memory_bytes, 64 << 20);
	assert_int_equal(over.limits.cpu_milli, 1000);
	assert_int_equal(over.runtime, RUNTIME_RUNC);
	assert_true(over.has_ttl && over.ttl_ms == 5000 && over.has_idle && over.idle_ms == 7000);
	assert_int_equal(over.env.n, 2);
	assert_string_equal(over.env.keys[0], "B");
	assert_string_equal(over.env.values[0], "3");
	assert_string_equal(over.env.keys[1], "A");
	/* and is written as it was given */
	field_encode(&sandbox_create_table, NULL, &base, &w);
	assert_int_equal(jw_finish(&w), 0);
	assert_string_equal(buf_str(&text), "{\"image\":\"i\",\"env\":{\"A\":\"1\",\"B\":\"2\"},"
					    "\"limits\":{\"memory_bytes\":67108864,\"pids\":9},"
					    "\"runtime\":\"runc\",\"ttl_ms\":5000}");
}

static void a_list_is_copied_whole(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64)), other = ARENA_INIT(KIB(64)), small = ARENA_INIT(64);
	struct claim from = {};
	struct field_list to = { .n = 7 };
	const struct service_spec *s;
	auto_json json = NULL;

	assert_int_equal(
		json_parse(
			SLICE("{\"services\":[{\"name\":\"a\",\"command\":\"x y\",\"priority\":5},"
			      "{\"name\":\"b\",\"argv\":[\"p\",\"q\"],\"env\":{\"K\":\"v\"}}]}"),
			&json_control_limits, &json, NULL),
		0);
	assert_int_equal(field_decode(&claim_table, json, &arena, &from, NULL), 0);
	assert_int_equal(field_list_copy(&service_spec_table, &from.services, &small, &to),
			 -ENOMEM);
	assert_int_equal(to.n, 0);
	assert_int_equal(field_list_copy(&service_spec_table, &from.services, &other, &to), 0);
	arena_fini(&arena); /* what is left is the copy's own */
	s = to.v;
	assert_int_equal(to.n, 2);
	assert_string_equal(s[0].name, "a");
	assert_string_equal(s[0].put.command, "x y");
	assert_true(!s[0].put.has_argv && s[0].put.priority == 5 && s[0].put.autostart);
	assert_string_equal(s[1].put.argv.v[1], "q");
	assert_string_equal(s[1].put.env.values[0], "v");
	assert_null(s[1].put.command);
}

static void a_bad_member_is_named(void **)
{
	static const struct {
		const struct field_table *t;
		const char *json, *field, *says;
	} cases[] = {
		{ &tenant_create_table, "{}", "name", "'name' is missing" },
		{ &tenant_create_table, "{\"name\":null}", "name", "'name' is missing" },
		{ &sandbox_create_table, "[]", "", "SandboxCreate must be a JSON object" },
		{ &sandbox_create_table, "{\"image\":\"x\",\"privileged\":true}", "privileged",
		  "there is no field 'privileged'" },
		{ &sandbox_create_table, "{\"image\":\"\"}", "image",
		  "'image' must be text of 1 to 255 bytes, printable ASCII without spaces" },
		{ &sandbox_create_table, "{\"image\":\"a b\"}", "image", NULL },
		{ &sandbox_create_table, "{\"image\":\"\xC3\xA9\"}", "image", NULL },
		{ &sandbox_create_table, "{\"image\":5}", "image", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"name\":\"a/b\"}", "name",
		  "'name' must be text of 1 to 128 bytes, visible characters without '/', not "
		  "first a '.', and not as an id is" },
		{ &sandbox_create_table, "{\"image\":\"x\",\"wait\":1}", "wait",
		  "'wait' must be true or false" },
		{ &sandbox_create_table, "{\"image\":\"x\",\"labels\":[]}", "labels", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"labels\":{\"-\":\"x\"}}", "labels",
		  "'labels' entry '-' must be text, a Kubernetes label" },
		{ &sandbox_create_table, "{\"image\":\"x\",\"labels\":{\"a\":\"b c\"}}", "labels",
		  NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"labels\":{\"a\":1}}", "labels", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"env\":{\"1A\":\"\"}}", "env", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"env\":{\"A=B\":\"\"}}", "env", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"env\":{\"\":\"\"}}", "env", NULL },
		{ &sandbox_create_table, "{\"timezone\":\"a/../b\"}", "timezone",
		  "'timezone' must be text of 1 to 64 bytes, the name of a time zone such as "
		  "Asia/Shanghai" },
		{ &sandbox_create_table, "{\"timezone\":\"/UTC\"}", "timezone", NULL },
		{ &sandbox_create_table, "{\"timezone\":\"Asia/\"}", "timezone", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":7}", "limits", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"pids\":7}}", "limits.pids",
		  "'pids' must be a whole number from 8 to 4194304" },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"pids\":-1}}",
		  "limits.pids", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"pids\":1.5}}",
		  "limits.pids", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"pids\":\"9\"}}",
		  "limits.pids", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"pids\":4194305}}",
		  "limits.pids", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"memory_bytes\":\"lots\"}}",
		  "limits.memory_bytes", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"memory_bytes\":1}}",
		  "limits.memory_bytes", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"memory_bytes\":\"1Ki\"}}",
		  "limits.memory_bytes", NULL },
		{ &sandbox_create_table, "{\"image\":\"x\",\"limits\":{\"swap\":1}}", "limits.swap",
		  NULL },
		{ &exec_run_table, "{\"argv\":[]}", "argv",
		  "'argv' must be a list of texts with 1 to 1024 entries" },
		{ &exec_run_table, "{\"argv\":\"ls\"}", "argv", NULL },
		{ &exec_run_table, "{\"argv\":[\"a\",5]}", "argv[1]",
		  "'argv' entry 1 must be text" },
		{ &exec_run_table, "{\"cwd\":\"x\"}", "cwd", NULL },
		{ &exec_run_table, "{\"output\":\"never\"}", "output",
		  "'output' must be one of \"auto\", \"block\", \"drop\", \"spool\"" },
		{ &exec_run_table, "{\"output\":1}", "output", NULL },
		{ &sandbox_list_table, "{\"sandboxes\":[{}]}", "sandboxes[0].id", NULL },
		{ &sandbox_list_table, "{\"sandboxes\":{}}", "sandboxes", NULL },
		{ &sandbox_info_table, "{\"id\":\"ex000000000000000000000000\"}", "id",
		  "'id' must be an id that begins with \"sb\"" },
		{ &image_info_table,
		  "{\"id\":\"im000000000000000000000000\",\"digest\":\"sha256:"
		  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","
		  "\"size_bytes\":0,\"created_at\":\"yesterday\"}",
		  "created_at", "'created_at' must be a time such as 2026-11-15T01:50:43Z" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		struct cay_err err = {};
		auto_free void *room = calloc(1, cases[i].t->size);

		row_check(i, decode(cases[i].t, cases[i].json, &arena, room, &err) == -EINVAL);
		row_check(i, err.code == CAY_E_INVALID);
		assert_string_equal(err.field, cases[i].field);
		if (cases[i].says)
			assert_string_equal(err.msg, cases[i].says);
	}
}

static void a_small_pool_is_no_crash(void **)
{
	static const char *const bodies[] = {
		"{\"image\":\"base\",\"labels\":{\"a\":\"b\"},\"env\":{\"A\":\"b\"}}",
	};

	for (size_t left = 0; left < 400; left += 8) {
		auto_arena arena = ARENA_INIT(left);
		struct sandbox_create c = {};
		struct exec_run e = {};
		struct sandbox_list l = {};
		struct page_query q = {};
		struct cay_err err = {};
		int r = decode(&sandbox_create_table, bodies[0], &arena, &c, &err);

		row_check(left, r == 0 || (r == -E2BIG && err.code == CAY_E_TOO_LARGE));
		arena.left = left;
		r = decode(&exec_run_table, "{\"argv\":[\"a\",\"b\"]}", &arena, &e, NULL);
		row_check(left, r == 0 || r == -E2BIG);
		arena.left = left;
		r = decode(&sandbox_list_table, "{\"sandboxes\":[]}", &arena, &l, NULL);
		row_check(left, r == 0 || r == -E2BIG);
		arena.left = left;
		r = field_decode_query(&page_query_table, SLICE("limit=5&cursor=x"), &arena, &q,
				       NULL);
		row_check(left, r == 0 || r == -E2BIG);
	}
}

static void an_unknown_member_is_told_the_known_ones(void **)
{
	static const struct {
		const struct field_table *t;
		const char *json, *hint;
	} cases[] = {
		{ &page_query_table, "{\"limits\":1}",
		  "did you mean 'limit'? fields: limit, cursor" },
		{ &page_query_table, "{\"privileged\":1}", "fields: limit, cursor" },
		{ &page_query_table, "{\"\":1}", "fields: limit, cursor" },
		{ &sandbox_create_table, "{\"limits\":{\"pid\":1}}",
		  "did you mean 'pids'? fields: memory_bytes, cpu_milli, pids, nofile, shm_bytes, "
		  "output_bytes, disk_bytes, disk_inodes" },
	};
	struct arena arena = ARENA_INIT(MIB(1));
	union {
		struct page_query q;
		struct sandbox_create c;
		struct exec_info e;
	} to = {};
	static const char *const runtimes[] = { "docker", "kata", "krun", "Docker", "dockers", "" };
	struct cay_err err = {}, query = {}, never = {};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cay_err e = {};

		row_check(i, decode(cases[i].t, cases[i].json, &arena, &to, &e) == -EINVAL);
		row_check(i, str_eq(e.hint, cases[i].hint));
	}
	assert_int_equal(
		decode(&sandbox_create_table, "{\"network_mode\":\"host\"}", &arena, &to, &never),
		-ENOTSUP);
	assert_true(never.code == CAY_E_UNSUPPORTED && strstr(never.hint, "egress"));
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		struct cay_err e = {};
		char text[64];

		assert_true(snprintf(text, sizeof(text), "{\"runtime\":\"%s\"}", runtimes[i]) > 0);
		row_check(i, decode(&sandbox_create_table, text, &arena, &to, &e) ==
				     (i < 3 ? -ENOTSUP : -EINVAL));
		row_check(i, e.code == (i < 3 ? CAY_E_UNSUPPORTED : CAY_E_INVALID));
		row_check(i, str_eq(e.field, "runtime") && (i < 3) == (e.hint[0] != 0));
	}
	/* more fields than fit */
	assert_int_equal(decode(&exec_info_table, "{\"x\":1}", &arena, &to, &err), -EINVAL);
	assert_true(strlen(err.hint) < CAY_ERR_HINT_MAX);
	assert_string_equal(err.hint + strlen(err.hint) - 5, ", ...");
	assert_int_equal(
		field_decode_query(&page_query_table, SLICE("limits=1"), &arena, &to.q, &query),
		-EINVAL);
	assert_string_equal(query.hint, "did you mean 'limit'? fields: limit, cursor");
	arena_fini(&arena);
}

static void queries_use_the_same_rows(void **)
{
	static const struct {
		const struct field_table *t;
		const char *query, *field; /* NULL: accepted */
	} cases[] = {
		{ &page_query_table, "", NULL },
		{ &page_query_table, "limit=1000&cursor=abc", NULL },
		{ &page_query_table, "cursor=%61bc", NULL },
		{ &page_query_table, "limit=0", "limit" },
		{ &page_query_table, "limit=1001", "limit" },
		{ &page_query_table, "limit=", "limit" },
		{ &page_query_table, "limit", "limit" },
		{ &page_query_table, "limit=5&limit=6", "limit" },
		{ &page_query_table, "limit=5;cursor=x", "limit" },
		{ &page_query_table, "evil=1", "evil" },
		{ &page_query_table, "&", "" },
		{ &page_query_table, "limit=%zz", "" },
		{ &page_query_table, "%00=1", "" },
		{ &exec_output_query_table, "stream=stderr&offset=5&limit=10&follow=true", NULL },
		{ &exec_output_query_table, "follow=1", "follow" },
		{ &exec_output_query_table, "stream=stdin", "stream" },
		{ &exec_output_query_table, "offset=-1", "offset" },
		{ &group_query_table, "", "group" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_arena arena = ARENA_INIT(KIB(4));
		struct cay_err err = {};
		auto_free void *room = calloc(1, cases[i].t->size);
		int r = field_decode_query(cases[i].t, slice_of(cases[i].query), &arena, room,
					   &err);

		row_check(i, r == (cases[i].field ? -EINVAL : 0));
		if (cases[i].field)
			assert_string_equal(err.field, cases[i].field);
	}
}

static void lists_cannot_come_by_query(void **)
{
	auto_arena arena = ARENA_INIT(KIB(4));
	struct exec_run e = {};
	struct cay_err err = {};

	assert_int_equal(field_decode_query(&exec_run_table, SLICE("argv=x"), &arena, &e, &err),
			 -EINVAL);
	assert_string_equal(err.field, "argv");
}

/* Every table: its example decodes, encodes, decodes again to the same text. */
/* Text that stands in the place of other text has no example beside it. */
static bool optional_text(const struct field *f)
{
	return f->type == FIELD_TEXT && !f->required && !f->example;
}

static void every_table_is_complete_and_round_trips(void **)
{
	for (size_t i = 0; field_tables[i]; i++) {
		const struct field_table *t = field_tables[i];
		auto_arena arena = ARENA_INIT(KIB(64));
		auto_buf first = BUF_INIT(KIB(64)), second = BUF_INIT(KIB(64));
		auto_buf third = BUF_INIT(KIB(64)), schema = BUF_INIT(KIB(64));
		struct jw w = jw_to(&first), w2 = jw_to(&second), w3 = jw_to(&third),
			  ws = jw_to(&schema);
		struct cay_err err = {};
		auto_json j = NULL;
		auto_free void *a = calloc(1, t->size), *b = calloc(1, t->size);

		row_check(i, t->name[0] && t->help[0] && t->n > 0 && a && b);
		for (size_t k = 0; k < t->n; k++) {
			const struct field *f = &t->rows[k];

			row_check(k, f->name[0] && f->help[0]);
			row_check(k, f->sub ? !f->example
					    : optional_text(f) || (f->example && f->example[0]));
			row_check(k, f->offset < t->size && f->has <= t->size);
			row_check(k, f->min <= f->max);
			row_check(k, field_type_name(f->type)[0]);
			/* or it could not be left out */
			for (size_t m = 0;
			     f->type == FIELD_OBJECT && !f->has && !f->required && m < f->sub->n;
			     m++)
				row_check(k, !f->sub->rows[m].required);
		}
		field_example_write(t, NULL, &w);
		row_check(i, jw_finish(&w) == 0);
		if (decode(t, first.data, &arena, a, &err) < 0)
			fail_msg("%s: %s", t->name, err.msg);
		field_encode(t, NULL, a, &w2);
		row_check(i, jw_finish(&w2) == 0);
		row_check(i, decode(t, second.data, &arena, b, &err) == 0);
		field_encode(t, NULL, b, &w3);
		row_check(i, jw_finish(&w3) == 0);
		assert_string_equal(second.data, third.data);
		field_schema_write(t, NULL, &ws);
		row_check(i, jw_finish(&ws) == 0);
		row_check(i, json_parse((struct slice){ schema.data, schema.len },
					&json_control_limits, &j, &err) == 0);
	}
}

static void absent_members_are_not_written(void **)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct jw w = jw_to(&b);
	struct exec_info e = { .id = { .noun = ID_EXEC }, .state = EXEC_RUNNING, .started_ns = 1 };

	field_encode(&exec_info_table, NULL, &e, &w);
	assert_int_equal(jw_finish(&w), 0);
	assert_text(&b, "{\"id\":\"ex000000000000000000000000\",\"state\":\"running\","
			"\"started_at\":\"1970-01-01T00:00:00.000Z\",\"stdout_bytes\":0,"
			"\"stderr_bytes\":0}");
}

/* Which bytes of the struct a row writes. */
static size_t member_size(const struct field *f)
{
	static const size_t sizes[] = {
		[FIELD_BOOL] = sizeof(bool),
		[FIELD_U64] = sizeof(uint64_t),
		[FIELD_BYTES] = sizeof(uint64_t),
		[FIELD_MILLI] = sizeof(uint64_t),
		[FIELD_TEXT] = sizeof(char *),
		[FIELD_ENUM] = sizeof(unsigned),
		[FIELD_ID] = sizeof(struct id),
		[FIELD_TIME] = sizeof(uint64_t),
		[FIELD_TEXTS] = sizeof(struct field_texts),
		[FIELD_MAP] = sizeof(struct field_map),
		[FIELD_LIST] = sizeof(struct field_list),
	};

	return f->type == FIELD_OBJECT ? f->sub->size : sizes[f->type];
}

static void rows_lie_in_their_struct_and_apart(void **)
{
	for (size_t i = 0; field_tables[i]; i++) {
		const struct field_table *t = field_tables[i];

		for (size_t k = 0; k < t->n; k++) {
			const struct field *f = &t->rows[k];

			row_check(k, f->offset + member_size(f) <= t->size);
			for (size_t m = 0; m < k; m++) {
				const struct field *g = &t->rows[m];

				row_check(k, f->offset >= g->offset + member_size(g) ||
						     g->offset >= f->offset + member_size(f));
				row_check(k, !f->has || f->has != g->has);
				row_check(k, !str_eq(f->name, g->name));
			}
		}
	}
}

static void presets_and_choices_are_in_range(void **)
{
	for (size_t i = 0; field_tables[i]; i++)
		for (size_t k = 0; k < field_tables[i]->n; k++) {
			const struct field *f = &field_tables[i]->rows[k];
			bool number = f->type == FIELD_U64 || f->type == FIELD_BYTES ||
				      f->type == FIELD_MILLI;

			/* or the encoder could write what the decoder refuses */
			row_check(k, !number || f->max <= INT64_MAX);
			row_check(k, !number || f->required || f->has ||
					     (f->preset >= f->min && f->preset <= f->max));
			row_check(k, f->type != FIELD_ENUM || f->preset < f->n_choices);
			for (unsigned c = 0; f->type == FIELD_ENUM && c < f->n_choices; c++)
				row_check(k, f->choices[c] && f->choices[c][0]);
			row_check(k, f->type != FIELD_ENUM || !f->choices[f->n_choices]);
		}
}

static void a_value_without_a_name_is_not_written(void **)
{
	auto_buf b = BUF_INIT(1000), c = BUF_INIT(1000);
	struct jw w = jw_to(&b), w2 = jw_to(&c);

	field_encode(&health_table, NULL, &(struct health){ .status = 5, .version = "1" }, &w);
	assert_int_equal(jw_finish(&w), -EINVAL);
	field_encode(&image_info_table, NULL, &(struct image_info){ .id = { ID_IMAGE, { 1 } } },
		     &w2);
	assert_int_equal(jw_finish(&w2), -EINVAL);
}

static void thousandths_mean_the_same_by_every_door(void **)
{
	auto_arena arena = ARENA_INIT(KIB(4));
	struct limits l = {};

	assert_int_equal(decode(&limits_table, "{\"cpu_milli\":500}", &arena, &l, NULL), 0);
	assert_int_equal(l.cpu_milli, 500);
	assert_int_equal(
		field_decode_query(&limits_table, SLICE("cpu_milli=500"), &arena, &l, NULL), 0);
	assert_int_equal(l.cpu_milli, 500);
	assert_int_equal(
		field_decode_query(&limits_table, SLICE("cpu_milli=500m"), &arena, &l, NULL), 0);
	assert_int_equal(l.cpu_milli, 500);
	assert_int_equal(field_decode_query(&limits_table, SLICE("cpu_milli=5"), &arena, &l, NULL),
			 -EINVAL);
}

static void too_large_is_not_out_of_memory(void **)
{
	auto_arena arena = ARENA_INIT(100);
	struct page_query q = {};
	struct cay_err err = {};
	char query[500];

	memcpy(query, "cursor=", 8);
	memset(query + 7, 'a', sizeof(query) - 7);
	assert_int_equal(field_decode_query(&page_query_table, (struct slice){ query, 500 }, &arena,
					    &q, &err),
			 -E2BIG);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
}

static void a_strange_name_is_quoted_whole_or_not_at_all(void **)
{
	auto_arena arena = ARENA_INIT(KIB(4));
	struct page_query q = {};
	struct cay_err err = {}, long_err = {};
	char query[300] = "";

	assert_int_equal(field_decode_query(&page_query_table, SLICE("%ff%ff=1"), &arena, &q, &err),
			 -EINVAL);
	assert_string_equal(err.field, "");
	for (size_t i = 0; i < 40; i++)
		memcpy(query + i * 6, "%c3%a9", 7);
	assert_int_equal(field_decode_query(&page_query_table, (struct slice){ query, 240 }, &arena,
					    &q, &long_err),
			 -EINVAL);
	assert_int_equal(strlen(long_err.field), 62);
	assert_true(utf8_is_valid(long_err.field, 62));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_becomes_a_struct),
		cmocka_unit_test(what_is_left_out_has_its_default),
		cmocka_unit_test(an_absent_object_has_defaults_inside),
		cmocka_unit_test(given_members_come_over_others),
		cmocka_unit_test(a_list_is_copied_whole),
		cmocka_unit_test(a_bad_member_is_named),
		cmocka_unit_test(a_small_pool_is_no_crash),
		cmocka_unit_test(an_unknown_member_is_told_the_known_ones),
		cmocka_unit_test(queries_use_the_same_rows),
		cmocka_unit_test(lists_cannot_come_by_query),
		cmocka_unit_test(every_table_is_complete_and_round_trips),
		cmocka_unit_test(absent_members_are_not_written),
		cmocka_unit_test(rows_lie_in_their_struct_and_apart),
		cmocka_unit_test(presets_and_choices_are_in_range),
		cmocka_unit_test(a_value_without_a_name_is_not_written),
		cmocka_unit_test(thousandths_mean_the_same_by_every_door),
		cmocka_unit_test(too_large_is_not_out_of_memory),
		cmocka_unit_test(a_strange_name_is_quoted_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
