/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "cli/print/print.h"
#include "cli/setup/doctor.h"

static const struct {
	const char *name, *colour;
} verdicts[VERDICT_NUM] = {
	[VERDICT_OK] = { "OK", "\033[32m" },
	[VERDICT_WARN] = { "WARN", "\033[33m" },
	[VERDICT_FAIL] = { "FAIL", "\033[31m" },
};

void finding_set(struct doctor_finding *f, enum doctor_verdict v, const char *fmt, ...)
{
	va_list ap;

	if (f->found.len)
		return;
	f->verdict = v;
	va_start(ap, fmt);
	/* a text that does not fit is cut, the verdict stays */
	if (buf_vprintf(&f->found, fmt, ap) < 0)
		(void)!buf_puts(&f->found, "...");
	va_end(ap);
}

void doctor_check_run(struct cli *c, const struct doctor_check *row, struct doctor_finding *ret)
{
	*ret = (struct doctor_finding){ c, row, VERDICT_WARN, BUF_INIT(DOCTOR_FOUND_MAX) };
	row->run(ret);
	finding_set(ret, VERDICT_WARN, "could not be checked");
}

static uint64_t doctor_version_part_parse(const char **s)
{
	uint64_t v = 0;

	for (; ascii_is_digit(**s) && v < 1000000; (*s)++)
		v = v * 10 + (uint64_t)(**s - '0');
	return v;
}

int doctor_version_compare(const char *a, const char *b)
{
	for (int i = 0; i < 4; i++) {
		uint64_t x = doctor_version_part_parse(&a), y = doctor_version_part_parse(&b);

		if (x != y)
			return x < y ? -1 : 1;
		if (*a == '.')
			a++;
		if (*b == '.')
			b++;
	}
	return 0;
}

struct doctor_report {
	struct buf text;
	struct jw json;
	bool as_json, colour;
	unsigned count[VERDICT_NUM];
};

static int doctor_report_add_text(struct doctor_report *rep, const struct doctor_finding *f)
{
	const char *advice = f->verdict == VERDICT_OK ? "" : f->row->advice;
	int r = buf_printf(&rep->text, "%s%-4s%s  %-18s ",
			   rep->colour ? verdicts[f->verdict].colour : "",
			   verdicts[f->verdict].name, rep->colour ? "\033[0m" : "", f->row->name);

	if (r >= 0)
		r = print_append_escaped(&rep->text,
					 (struct slice){ buf_str(&f->found), f->found.len });
	return r < 0 ? r : buf_printf(&rep->text, "%s%s\n", *advice ? "; " : "", advice);
}

static void doctor_report_add_json(struct doctor_report *rep, const struct doctor_finding *f)
{
	struct jw *w = &rep->json;

	jw_object_begin(w, NULL);
	jw_str(w, "name", f->row->name);
	jw_str(w, "verdict", verdicts[f->verdict].name);
	jw_slice(w, "found", (struct slice){ buf_str(&f->found), f->found.len });
	if (f->verdict != VERDICT_OK)
		jw_str(w, "advice", f->row->advice);
	jw_end(w);
}

static int doctor_checks_run(struct cli *c, const struct doctor_check *rows,
			     struct doctor_report *rep)
{
	int r = 0;

	for (const struct doctor_check *row = rows; r >= 0 && row->name; row++) {
		struct doctor_finding f;

		doctor_check_run(c, row, &f);
		rep->count[f.verdict]++;
		if (rep->as_json)
			doctor_report_add_json(rep, &f);
		else
			r = doctor_report_add_text(rep, &f);
		buf_fini(&f.found);
	}
	return r;
}

static int cmd_doctor_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	struct doctor_report rep = { .text = BUF_INIT(KIB(64)), .as_json = c->global.json };
	int r;

	/* a daemon that hangs is a finding, not a reason to wait */
	if (c->api.timeout_ms > 5000)
		c->api.timeout_ms = 5000;
	rep.json = jw_to(&rep.text);
	rep.colour = !rep.as_json && print_wants_colour(STDOUT_FILENO);
	if (rep.as_json) {
		jw_object_begin(&rep.json, NULL);
		jw_array_begin(&rep.json, "checks");
	}
	r = doctor_checks_run(c, doctor_kernel, &rep);
	if (r >= 0)
		r = doctor_checks_run(c, doctor_host, &rep);
	if (r >= 0 && rep.as_json) {
		jw_end(&rep.json);
		jw_bool(&rep.json, "ok", rep.count[VERDICT_FAIL] == 0);
		jw_end(&rep.json);
		r = jw_finish(&rep.json) < 0 ? -ENOMEM : buf_putc(&rep.text, '\n');
	} else if (r >= 0) {
		r = buf_printf(&rep.text, "%u ok, %u warnings, %u failures\n",
			       rep.count[VERDICT_OK], rep.count[VERDICT_WARN],
			       rep.count[VERDICT_FAIL]);
	}
	r = r < 0 ? cay_no_memory(err) : print_stdout(&rep.text, err);
	buf_fini(&rep.text);
	return r < 0 ? r : rep.count[VERDICT_FAIL] > 0;
}

const struct cmd cmd_doctor = {
	CMD_USAGE("doctor", "[--json]"),
	.needs = CMD_NEEDS_THIS_MACHINE,
	.ignores_settings_error = true,
	.help = "Check this machine and suggest fixes",
	.more = "Works without a daemon. The exit status is 1 if a check fails.",
	.run = cmd_doctor_run,
};
