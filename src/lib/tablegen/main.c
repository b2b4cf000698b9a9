/* SPDX-License-Identifier: Apache-2.0 */
/* tablegen - print the tables as documents, which cannot disagree with the program because they
 * come from the same rows.  `make docs` writes its output into docs/; lint checks that it is
 * fresh. */
#include <stdio.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "ops/metric.h"
#include "ops/op.h"
#include "ops/settings.h"
#include "wire/verb.h"

static int tablegen_write_openapi(struct buf *b)
{
	struct jw w = jw_to(b);

	openapi_write(&w);
	return jw_finish(&w);
}

static int tablegen_write_reasons(struct buf *b)
{
	static const struct {
		enum end_reason reason;
		const char *words;
	} rows[] = {
#define CAY_REASON(sym, name, process, pid1, sandbox, words, ...) { END_##sym, words },
#include "ops/reasons.def"
#undef CAY_REASON
	};
	int r = buf_puts(
		b, "\n## Reasons of an end\n\nThe `end` of an exec, a run, a service and a sandbox "
		   "has `reason`, `blame` and `retryable`. An end blamed on `infra` is "
		   "retryable. A sandbox with `start_failed` has the blame of the error that its "
		   "create returned.\n\n"
		   "| reason | blame: exec, run, service | PID 1 by itself | sandbox | meaning |\n"
		   "|---|---|---|---|---|\n");

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(rows); i++) {
		struct end of[END_OF_NUM] = {};

		for (unsigned k = 0; k < END_OF_NUM; k++) {
			of[k].reason = rows[i].reason;
			end_judge(&of[k], (enum end_of)k);
		}
		r = buf_printf(b, "| `%s` | %s | %s | %s | %s |\n", end_reasons[rows[i].reason],
			       blame_names[of[END_OF_PROCESS].blame],
			       blame_names[of[END_OF_PID1].blame],
			       blame_names[of[END_OF_SANDBOX].blame], rows[i].words);
	}
	return r;
}

static int tablegen_write_errors(struct buf *b)
{
	int r = buf_puts(
		b, "# Errors\n\nA reply that is not a success has one member, `error`: `code`, "
		   "`message`, `hint`, `blame`, `retryable`, and where they apply `field`, "
		   "`request_id`, `details`.\n`cay` exits with the status in the third "
		   "column. [How failures look](../errors.md) has more.\n\n"
		   "| code | HTTP | exit | blame | retry | cause | what to do |\n"
		   "|---|---|---|---|---|---|---|\n");

	for (unsigned i = CAY_OK + 1; r >= 0 && i < CAY_NUM_CODES; i++) {
		const struct cay_error_row *e = cay_error_row((enum cay_code)i);

		r = buf_printf(b, "| `%s` | %d | %d | %s | %s | %s | %s |\n", e->name, e->http,
			       e->exit, blame_names[e->blame], e->retryable ? "yes" : "no",
			       error_code_cause((enum cay_code)i), e->hint);
	}
	return r < 0 ? r : tablegen_write_reasons(b);
}

static int tablegen_write_operations(struct buf *b)
{
	int r = buf_puts(
		b, "# Operations\n\n`openapi.json` beside this page has every field. Scope is what "
		   "the API key must "
		   "allow (`public` needs none). `control` operations are journaled and go on if "
		   "the client leaves; `inside` ones go straight to the sandbox.\n\n"
		   "| operation | request | scope | runs | what it does |\n"
		   "|---|---|---|---|---|\n");

	for (unsigned i = 0; r >= 0 && i < OP_NUM; i++)
		r = buf_printf(b, "| `%s` | `%s %s` | %s | %s | %s |\n", ops[i].name,
			       op_method_name(ops[i].method), ops[i].path,
			       op_scope_name(ops[i].scope),
			       ops[i].where == WHERE_INSIDE ? "inside" : "control", ops[i].summary);
	return r;
}

static void tablegen_json_errors(struct jw *w)
{
	jw_array_begin(w, "errors");
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++) {
		const struct cay_error_row *e = cay_error_row((enum cay_code)i);

		jw_object_begin(w, NULL);
		jw_str(w, "code", e->name);
		jw_u64(w, "http", (uint64_t)e->http);
		jw_u64(w, "exit", (uint64_t)e->exit);
		jw_str(w, "blame", blame_names[e->blame]);
		jw_bool(w, "retryable", e->retryable);
		jw_str(w, "cause", error_code_cause((enum cay_code)i));
		jw_str(w, "cure", e->hint);
		jw_end(w);
	}
	jw_end(w);
}

static void tablegen_json_operations(struct jw *w)
{
	jw_array_begin(w, "tags");
	for (size_t i = 0; i < op_n_tags; i++) {
		jw_object_begin(w, NULL);
		jw_str(w, "name", op_tags[i].name);
		jw_str(w, "title", op_tags[i].title);
		jw_str(w, "help", op_tags[i].help);
		jw_end(w);
	}
	jw_end(w);
	jw_array_begin(w, "operations");
	for (unsigned i = 0; i < OP_NUM; i++) {
		jw_object_begin(w, NULL);
		jw_str(w, "name", ops[i].name);
		jw_bool(w, "inside", ops[i].where == WHERE_INSIDE);
		jw_u64(w, "body_max", ops[i].body_max);
		jw_end(w);
	}
	jw_end(w);
}

static int tablegen_json_settings(struct jw *w)
{
	int r = 0;

	jw_array_begin(w, "settings");
	for (size_t i = 0; r >= 0 && i < settings_table.n; i++) {
		const struct conf_key *k = &settings_table.keys[i];
		auto_buf takes = BUF_INIT(KIB(1));

		r = conf_describe(k, &takes);
		jw_object_begin(w, NULL);
		jw_str(w, "section", k->section);
		jw_str(w, "key", k->key);
		jw_str(w, "default", k->value);
		jw_str(w, "takes", buf_str(&takes));
		jw_bool(w, "live", k->live);
		jw_str(w, "help", k->help);
		jw_end(w);
	}
	jw_end(w);
	return r;
}

/* The tables not in OpenAPI, for /docs and for checks of the documents. */
static int tablegen_write_tables(struct buf *b)
{
	struct jw w = jw_to(b);
	int r;

	jw_object_begin(&w, NULL);
	tablegen_json_errors(&w);
	tablegen_json_operations(&w);
	r = tablegen_json_settings(&w);
	jw_array_begin(&w, "metrics");
	for (unsigned i = 0; i < METRIC_NUM; i++) {
		jw_object_begin(&w, NULL);
		jw_str(&w, "name", metric_table[i].name);
		jw_str(&w, "type", metric_type_name(metric_table[i].type));
		jw_str(&w, "labels", metric_table[i].labels);
		jw_str(&w, "help", metric_table[i].help);
		jw_end(&w);
	}
	jw_end(&w);
	jw_end(&w);
	return r < 0 ? r : jw_finish(&w);
}

static int tablegen_write_metrics(struct buf *b)
{
	int r = buf_puts(b,
			 "# Metrics\n\nThe metrics of `GET /metrics`, in Prometheus text format. "
			 "Counters count from the daemon's start.\n\n"
			 "| metric | type | labels | what it is |\n|---|---|---|---|\n");

	for (unsigned i = 0; r >= 0 && i < METRIC_NUM; i++)
		r = buf_printf(b, "| `%s` | %s | %s | %s |\n", metric_table[i].name,
			       metric_type_name(metric_table[i].type), metric_table[i].labels,
			       metric_table[i].help);
	return r;
}

static int tablegen_write_verbs(struct buf *b)
{
	int r = buf_puts(b, "# Keeper verbs\n\nRequests of `cayd` to the one program that is "
			    "root; src/lib/wire/verb.h has the structs.\n\n"
			    "| verb | bytes | fds | what it does |\n|---|---|---|---|\n");

	for (unsigned i = VERB_NONE + 1; r >= 0 && i < VERB_NUM; i++)
		r = buf_printf(b, "| `%s` | %u | %u | %s |\n", verb_row_find(i)->name,
			       verb_row_find(i)->request_size, verb_row_find(i)->fds,
			       verb_row_find(i)->summary);
	return r;
}

static int tablegen_write_failpoints(struct buf *b)
{
	int r = 0;

	for (unsigned i = 0; r >= 0 && i < FAULT_NUM; i++)
		r = buf_printf(b, "%s\n", failpoint_name((enum failpoint)i));
	return r;
}

static int tablegen_write_sample_conf(struct buf *b)
{
	return conf_write_sample(&settings_table, b);
}

static int tablegen_write_man_page(struct buf *b)
{
	int r = buf_puts(
		b, "cay.conf(5)\n\n# NAME\n\ncay.conf - settings of Cay's daemons\n\n"
		   "# DESCRIPTION\n\n"
		   "_/etc/cay/cay.conf_ is read by every daemon. A line is empty, a comment that "
		   "begins with #, a [section], or key = value; anything else, an unknown "
		   "or repeated key and a value out of range are errors that name the "
		   "line. A variable named below overrides the file. A key that is not said "
		   "to be applied on SIGHUP needs a restart.\n\n# KEYS\n");

	return r < 0 ? r : conf_write_man(&settings_table, b);
}

static const struct {
	const char *name;
	int (*write)(struct buf *b);
	const char *help;
} documents[] = {
	{ "openapi", tablegen_write_openapi, "the interface as OpenAPI 3.1" },
	{ "operations", tablegen_write_operations, "the operation table, Markdown" },
	{ "errors", tablegen_write_errors, "the error table, Markdown" },
	{ "metrics", tablegen_write_metrics, "the metrics, Markdown" },
	{ "verbs", tablegen_write_verbs, "the keeper's verbs, Markdown" },
	{ "sample", tablegen_write_sample_conf, "a sample cay.conf" },
	{ "man", tablegen_write_man_page, "cay.conf(5), scdoc" },
	{ "tables", tablegen_write_tables, "errors, groups, settings and metrics as JSON" },
	{ "faults", tablegen_write_failpoints, "every failpoint, one a line" },
};

int main(int argc, char **argv)
{
	auto_buf out = BUF_INIT(MIB(4));

	for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(documents); i++) {
		if (!str_eq(argv[1], documents[i].name))
			continue;
		if (documents[i].write(&out) < 0 ||
		    fd_write_all(STDOUT_FILENO, out.data, out.len) < 0) {
			(void)fprintf(stderr, "tablegen: cannot write '%s'\n", argv[1]);
			return 1;
		}
		return 0;
	}
	(void)fprintf(stderr, "usage: tablegen DOCUMENT\n");
	for (size_t i = 0; i < ARRAY_SIZE(documents); i++)
		(void)fprintf(stderr, "  %-12s %s\n", documents[i].name, documents[i].help);
	return 2;
}
