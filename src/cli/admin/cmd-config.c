/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-config - check cay.conf, and show the settings in force */
#include "cli/core/command.h"
#include "cli/core/settings-file.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"
#include "egress/name-map.h"
#include "egress/upstream-proxy.h"

static const char *const origin_names[CONF_FROM_NUM] = {
	[CONF_FROM_DEFAULT] = "default",
	[CONF_FROM_FILE] = "file",
	[CONF_FROM_VARIABLE] = "variable",
};

struct config {
	struct settings settings;
	struct conf_origin origins[CONF_KEYS_MAX];
	struct name_map map; /* checked only, as is the next */
	struct upstream_proxy proxy;
	const char *path;
	bool absent;
};

/* Read the file strictly; only the default one may be absent. */
static int config_read(struct cli *c, const char *path, struct config **ret, struct cay_err *err)
{
	struct config *f = arena_alloc(&c->arena, 1, sizeof(*f));
	int r;

	if (!f)
		return cay_no_memory(err);
	*f = (struct config){ .path = path ? path : SETTINGS_FILE };
	r = settings_file_read(path, &f->settings, f->origins, err);
	if (r == -ENOENT && !path) {
		f->absent = true;
		r = 0;
	} else if (r == -ENOENT || r == -EACCES) {
		return cay_fail_sys(err, r == -EACCES ? CAY_E_FORBIDDEN : CAY_E_NOT_FOUND, -r,
				    "read %s", f->path);
	}
	if (r >= 0)
		r = settings_check(&f->settings, err);
	if (r >= 0)
		r = name_map_parse(f->settings.egress_map, &f->map, err);
	if (r >= 0)
		r = upstream_proxy_parse(f->settings.egress_proxy, f->settings.egress_no_proxy,
					 &f->proxy, err);
	*ret = f;
	return r;
}

static size_t config_count_set(const struct config *f)
{
	size_t n = 0;

	for (size_t i = 0; i < settings_table.n; i++)
		n += f->origins[i].from == CONF_FROM_FILE;
	return n;
}

static int cmd_config_check_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(8));
	struct jw json = jw_to(&out);
	struct config *f = NULL;
	int r = config_read(c, w->n_operands ? w->operands[0] : NULL, &f, err);

	if (r < 0 || !f)
		return r;
	if (c->global.json) {
		jw_object_begin(&json, NULL);
		jw_str(&json, "file", f->path);
		jw_bool(&json, "exists", !f->absent);
		jw_u64(&json, "settings", config_count_set(f));
		jw_end(&json);
		return print_json_finish(&json, &out, err);
	}
	return f->absent ? print_line(err, "%s does not exist: every setting has its default",
				      f->path)
			 : print_line(err, "%s is valid; settings in it: %zu", f->path,
				      config_count_set(f));
}

const struct cmd cmd_config_check = {
	CMD_USAGE("config check", "[--json] [FILE]"),
	CMD_OPERANDS(0, 1, OPERAND_FILE),
	.needs = CMD_NEEDS_THIS_MACHINE,
	.ignores_settings_error = true,
	.help = "Check cay.conf, or another file, before the daemons read it",
	.more = "The exit status is 2 if the file is not valid, and the message names the line. "
		"Use "
		"it before 'systemctl restart cayd': a daemon does not start with a file that is "
		"not valid.",
	.run = cmd_config_check_run,
};

struct config_show_args {
	bool changed;
};
static const struct opt show_rows[] = {
	{ "changed", 0, OPT_FLAG, offsetof(struct config_show_args, changed),
	  .help = "List only settings that the file or a variable sets" },
};

static int config_from_format(const struct config *f, size_t i, struct buf *out)
{
	const struct conf_origin *o = &f->origins[i];

	if (o->from == CONF_FROM_FILE)
		return buf_printf(out, "%s:%u", f->path, o->line);
	if (o->from == CONF_FROM_VARIABLE)
		return conf_env_name(&settings_table.keys[i], out);
	return buf_puts(out, origin_names[o->from]);
}

static void config_row_add_json(const struct config *f, size_t i, const char *value, struct jw *w)
{
	const struct conf_key *k = &settings_table.keys[i];
	auto_buf variable = BUF_INIT(128);

	jw_object_begin(w, NULL);
	jw_str(w, "section", k->section);
	jw_str(w, "key", k->key);
	jw_str(w, "value", value);
	jw_str(w, "from", origin_names[f->origins[i].from]);
	if (f->origins[i].from == CONF_FROM_FILE)
		jw_u64(w, "line", f->origins[i].line);
	if (conf_env_name(k, &variable) >= 0)
		jw_str(w, "variable", buf_str(&variable));
	jw_bool(w, "live", k->live);
	jw_end(w);
}

static int cmd_config_show_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	static const char *const headings[] = { "SETTING", "VALUE", "FROM" };
	const struct config_show_args *a = c->args;
	auto_table t = print_table_create_headed(headings, ARRAY_SIZE(headings));
	auto_buf out = BUF_INIT(KIB(256)), text = BUF_INIT(KIB(256));
	struct jw json = json_list_begin(&out, "settings");
	struct config *f = NULL;
	int r = config_read(c, NULL, &f, err);

	if (r < 0 || !f)
		return r;
	for (size_t i = 0; r >= 0 && i < settings_table.n; i++) {
		const struct conf_key *k = &settings_table.keys[i];
		auto_buf value = BUF_INIT(KIB(8)), from = BUF_INIT(KIB(8));

		if (a->changed && f->origins[i].from == CONF_FROM_DEFAULT)
			continue;
		r = conf_value_format(k, &f->settings, &value);
		if (r >= 0)
			r = config_from_format(f, i, &from);
		if (r < 0)
			return cay_no_memory(err);
		config_row_add_json(f, i, buf_str(&value), &json);
		print_table_add_cellf(&t, "%s.%s", k->section, k->key);
		print_table_add_cell(&t, value.len ? buf_str(&value) : "-");
		print_table_add_cell(&t, buf_str(&from));
	}
	if (c->global.json)
		return json_list_print(&json, &out, err);
	return print_table_write(&t, &text) < 0 ? cay_no_memory(err)
						: pager_show(&c->api, &text, err);
}

const struct cmd cmd_config_show = {
	CMD_USAGE("config show", "[--changed] [--json]"),
	CMD_OPTIONS(config_show_args, OPTS(show_rows, 0)),
	.needs = CMD_NEEDS_THIS_MACHINE,
	.ignores_settings_error = true,
	.help = "Show each setting, its value and where it comes from",
	.more = "A variable CAY_SECTION_KEY overrides the file. Variables are those of this shell; "
		"a "
		"daemon has those of its unit ('systemctl cat cay-keeper'). A daemon reads the "
		"file "
		"when it starts, and on SIGHUP what cay.conf(5) calls 'applied on SIGHUP'.",
	.run = cmd_config_show_run,
};
