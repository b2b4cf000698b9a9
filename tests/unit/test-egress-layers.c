/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "life/egress-layers.h"
#include "ops/types.h"
#include "unit.h"

static struct egress_rule preset_rules[2];
static const struct egress_preset preset_rows[] = {
	{ .name = "git", .rules = preset_rules, .n_rules = 2 },
};
static const struct egress_presets presets = { preset_rows, 1 };

static int make_presets(void **)
{
	static const char *const names[] = { "github.com", "*.github.com" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		preset_rules[i] = (struct egress_rule){ .n_ports = 2 };
		preset_rules[i].ports[0] = (struct egress_ports){ 22, 22 };
		preset_rules[i].ports[1] = (struct egress_ports){ 443, 443 };
		assert_int_equal(egress_target_parse(slice_of(names[i]), &preset_rules[i].to, NULL),
				 0);
	}
	return 0;
}

static int read_spec(const char *json, struct arena *arena, struct egress_spec *ret,
		     struct cay_err *err)
{
	int r;

	*ret = (struct egress_spec){};
	r = field_decode_text(&egress_spec_table, slice_of(json), &json_control_limits, arena, ret,
			      err);
	return r < 0 ? r : egress_spec_check(ret, &presets, err);
}

/* The member that is named, or "" for a policy. */
static void what_is_refused(void **)
{
	static const struct {
		const char *json, *field;
	} cases[] = {
		{ "{}", "" },
		{ "{\"rules\": []}", "" },
		{ "{\"presets\": [\"none\", \"git\"]}", "" },
		{ "{\"default\": \"allow\"}", "" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"a.example\", \"ports\": [1, "
		  "\"65535\", \"2-3\"]}]}",
		  "" },
		{ "{\"presets\": [\"gitt\"]}", "presets" },
		{ "{\"presets\": [\"Git\"]}", "presets" },
		{ "{\"default\": \"ask\", \"ask\": {\"timeout_ms\": 1000}}", "" },
		{ "{\"ask\": {\"timeout_ms\": 600001}}", "ask.timeout_ms" },
		{ "{\"default\": \"Allow\"}", "default" },
		{ "{\"rules\": [{\"action\": \"ask\", \"to\": \"a.example\"}]}", "" },
		{ "{\"rules\": [{\"action\": \"permit\", \"to\": \"a.example\"}]}",
		  "rules[0].action" },
		{ "{\"rules\": [{\"to\": \"a.example\"}]}", "rules[0].action" },
		{ "{\"rules\": [{\"action\": \"deny\"}]}", "rules[0].to" },
		{ "{\"rules\": [{\"action\": \"deny\", \"to\": \"a.example\"}, {\"action\": "
		  "\"allow\", \"to\": \"b\xc3\xbc"
		  "cher.example\"}]}",
		  "rules[1].to" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"a.example.\"}]}", "rules[0].to" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"a.*.example\"}]}",
		  "rules[0].to" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"[::1]\"}]}", "rules[0].to" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"@git\"}]}", "rules[0].to" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"a.example:443\"}]}",
		  "rules[0].to" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": [0]}]}",
		  "rules[0].ports[0]" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": [65536]}]}",
		  "rules[0].ports[0]" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": [1, -1]}]}",
		  "rules[0].ports[1]" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": [\"3-2\"]}]}",
		  "rules[0].ports[0]" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": [1.5]}]}",
		  "rules[0].ports[0]" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": [\"*\"]}]}",
		  "rules[0].ports[0]" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": []}]}",
		  "rules[0].ports" },
		{ "{\"rules\": [{\"action\": \"allow\", \"to\": \"*\", \"ports\": "
		  "[1,2,3,4,5]}]}",
		  "rules[0].ports" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		struct egress_spec spec;
		struct cay_err err = {};
		int r = read_spec(cases[i].json, &arena, &spec, &err);

		row_check(i, (r == 0) == !cases[i].field[0]);
		if (r < 0 && strcmp(err.field, cases[i].field) != 0)
			fail_msg("row %zu: %s", i, err.field);
		row_check(i, r == 0 || err.code == CAY_E_INVALID);
	}
}

static void what_can_allow_something(void **)
{
	static const struct {
		const char *json;
		bool can;
	} cases[] = {
		{ "{}", false },
		{ "{\"presets\": [\"none\"]}", false },
		{ "{\"rules\": [{\"action\": \"deny\", \"to\": \"*\"}]}", false },
		{ "{\"presets\": [\"git\"]}", true },
		{ "{\"default\": \"allow\"}", true },
		{ "{\"rules\": [{\"action\": \"deny\", \"to\": \"*\"}, {\"action\": \"allow\", "
		  "\"to\": \"a.example\"}]}",
		  true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		struct egress_spec spec;

		assert_int_equal(read_spec(cases[i].json, &arena, &spec, NULL), 0);
		row_check(i, egress_spec_can_allow(&spec) == cases[i].can);
	}
}

static struct egress_verdict judge(const char *const json[EGRESS_LAYER_NUM], const char *to,
				   uint16_t port, struct buf *rule)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	auto_buf bytes = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_spec specs[EGRESS_LAYER_NUM];
	const struct egress_spec *layers[EGRESS_LAYER_NUM] = {};
	struct host_name name;
	struct egress_verdict v;

	for (size_t i = 0; i < EGRESS_LAYER_NUM; i++)
		if (json[i]) {
			assert_int_equal(read_spec(json[i], &arena, &specs[i], NULL), 0);
			layers[i] = &specs[i];
		}
	assert_int_equal(egress_layers_compile(layers, &presets, 7, &bytes, NULL), 0);
	assert_int_equal(egress_policy_check((struct slice){ bytes.data, bytes.len }), 0);
	assert_int_equal(egress_policy_generation((struct slice){ bytes.data, bytes.len }), 7);
	assert_int_equal(host_name_parse(slice_of(to), &name), 0);
	v = egress_judge_name((struct slice){ bytes.data, bytes.len }, &name, port);
	if (v.rule >= 0)
		assert_int_equal(egress_rule_describe(layers[v.layer], &presets, v.rule, rule), 0);
	return v;
}

static void layers_narrow(void **)
{
	static const char rules_and_preset[] =
		"{\"presets\": [\"git\"], \"rules\": [{\"action\": \"deny\", \"to\": "
		"\"gist.github.com\"}, {\"action\": \"allow\", \"to\": \"a.example\", \"ports\": "
		"[\"80-90\"]}]}";
	static const struct {
		const char *layers[EGRESS_LAYER_NUM], *to;
		uint16_t port;
		enum egress_action action;
		unsigned layer;
		const char *rule; /* NULL: the default of the layer */
	} cases[] = {
		{ { [EGRESS_SANDBOX] = "{}" },
		  "a.example",
		  443,
		  EGRESS_DENY,
		  EGRESS_SANDBOX,
		  NULL },
		{ { [EGRESS_SANDBOX] = rules_and_preset },
		  "gist.github.com",
		  443,
		  EGRESS_DENY,
		  EGRESS_SANDBOX,
		  "deny gist.github.com 443" },
		{ { [EGRESS_SANDBOX] = rules_and_preset, [EGRESS_TEMPLATE] = "{}" },
		  "api.github.com",
		  22,
		  EGRESS_DENY,
		  EGRESS_TEMPLATE,
		  NULL },
		{ { [EGRESS_SANDBOX] = rules_and_preset }, "a.example", 85, EGRESS_ALLOW, 0, NULL },
		{ { [EGRESS_NODE] = "{\"presets\": [\"git\"]}",
		    [EGRESS_SANDBOX] = rules_and_preset },
		  "a.example",
		  85,
		  EGRESS_DENY,
		  EGRESS_NODE,
		  NULL },
		{ { [EGRESS_NODE] = "{\"presets\": [\"git\"]}",
		    [EGRESS_SANDBOX] = rules_and_preset },
		  "api.github.com",
		  22,
		  EGRESS_ALLOW,
		  EGRESS_NODE,
		  "allow *.github.com 22,443" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf rule = BUF_INIT(KIB(1));
		struct egress_verdict v = judge(cases[i].layers, cases[i].to, cases[i].port, &rule);

		row_check(i, v.action == cases[i].action && v.layer == cases[i].layer);
		row_check(i, (v.rule < 0) == !cases[i].rule);
		if (cases[i].rule)
			assert_text(&rule, cases[i].rule);
	}
}

static void a_preset_that_is_gone_allows_nothing(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	auto_buf bytes = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_spec spec;
	const struct egress_spec *layers[EGRESS_LAYER_NUM] = { [EGRESS_SANDBOX] = &spec };
	struct host_name name;

	assert_int_equal(read_spec("{\"presets\": [\"git\"]}", &arena, &spec, NULL), 0);
	assert_int_equal(egress_layers_compile(layers, &(struct egress_presets){}, 1, &bytes, NULL),
			 0);
	assert_int_equal(host_name_parse(SLICE("github.com"), &name), 0);
	assert_int_equal(
		egress_judge_name((struct slice){ bytes.data, bytes.len }, &name, 443).action,
		EGRESS_DENY);
}

static void words_of_the_node(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	struct cay_err err = {};
	const struct egress_spec *spec =
		egress_spec_from_words("git  *.example.com db.example.com:5432 ", &arena, &err);
	const struct egress_rule_spec *rules;
	auto_buf many = BUF_INIT(KIB(1));

	assert_non_null(spec);
	rules = spec->rules.v;
	assert_int_equal(spec->presets.n, 1);
	assert_string_equal(spec->presets.v[0], "git");
	assert_int_equal(spec->rules.n, 2);
	assert_string_equal(rules[0].to, "*.example.com");
	assert_false(rules[0].has_ports);
	assert_string_equal(rules[1].ports.v[0], "5432");
	assert_int_equal(egress_spec_check(spec, &presets, &err), 0);
	assert_int_equal(spec->otherwise, EGRESS_SPEC_DENY);
	spec = egress_spec_from_words("a.example:", &arena, &err);
	assert_int_equal(egress_spec_check(spec, &presets, &err), -EINVAL);
	for (unsigned i = 0; i < 65; i++)
		assert_int_equal(buf_puts(&many, "git "), 0);
	assert_null(egress_spec_from_words(buf_str(&many), &arena, &err));
}

static void too_many_rules_together(void **)
{
	static struct egress_rule_spec rules[256];
	struct egress_spec spec = { .rules = { rules, 256 }, .otherwise = EGRESS_SPEC_DENY };
	const struct egress_spec *two[EGRESS_LAYER_NUM] = {
		[EGRESS_SANDBOX] = &spec, [EGRESS_TEMPLATE] = &spec
	};
	const struct egress_spec *three[EGRESS_LAYER_NUM] = { &spec, NULL, &spec, &spec };
	auto_buf bytes = BUF_INIT(EGRESS_POLICY_MAX), more = BUF_INIT(EGRESS_POLICY_MAX);
	struct cay_err err = {};

	for (size_t i = 0; i < 256; i++)
		rules[i] = (struct egress_rule_spec){ .to = "a.example" };
	assert_int_equal(egress_layers_compile(two, &presets, 1, &bytes, &err), 0);
	assert_int_equal(egress_layers_compile(three, &presets, 1, &more, &err), -EINVAL);
	assert_int_equal(err.code, CAY_E_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(what_can_allow_something),
		cmocka_unit_test(layers_narrow),
		cmocka_unit_test(a_preset_that_is_gone_allows_nothing),
		cmocka_unit_test(words_of_the_node),
		cmocka_unit_test(too_many_rules_together),
	};

	return cmocka_run_group_tests(tests, make_presets, NULL);
}
