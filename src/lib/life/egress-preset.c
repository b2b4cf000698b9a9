/* SPDX-License-Identifier: Apache-2.0 */
#include "life/egress-preset.h"

#include <errno.h>

#include "text/port-range.h"

static struct slice preset_cut_word(struct slice *line)
{
	struct slice word = slice_cut(line, ' ');

	if (line->p)
		*line = slice_trim(*line);
	return word;
}

static int preset_read_ports(struct slice ports, struct egress_rule *ret)
{
	while (ports.p) {
		struct slice one = slice_cut(&ports, ',');

		if (ret->n_ports == EGRESS_PORTS_MAX ||
		    port_range_parse(one, &ret->ports[ret->n_ports].from,
				     &ret->ports[ret->n_ports].to) < 0)
			return -EINVAL;
		ret->n_ports++;
	}
	return 0;
}

static int preset_read_term(struct slice word, struct egress_rule *ret, struct cay_err *err)
{
	static const struct {
		struct slice name;
		enum egress_term_kind kind;
	} lists[] = { { SLICE("methods"), EGRESS_TERM_METHOD },
		      { SLICE("paths"), EGRESS_TERM_PATH },
		      { SLICE("credential"), EGRESS_TERM_CREDENTIAL } };
	struct slice values = word, name = slice_cut(&values, '=');

	if (slice_eq(word, SLICE("inspect")))
		return egress_terms_add(&ret->terms, EGRESS_TERM_INSPECT, SLICE(""), err);
	for (size_t i = 0; values.p && i < ARRAY_SIZE(lists); i++) {
		int r = 0;

		if (!slice_eq(name, lists[i].name))
			continue;
		while (r >= 0 && values.p)
			r = egress_terms_add(&ret->terms, lists[i].kind, slice_cut(&values, ','),
					     err);
		return r;
	}
	return cay_fail(err, CAY_E_INVALID,
			"expected methods=LIST, paths=LIST, credential=NAME or inspect");
}

static int preset_read_rule(struct slice line, struct egress_rule *ret, struct cay_err *err)
{
	struct slice action = preset_cut_word(&line), to = preset_cut_word(&line);

	*ret = (struct egress_rule){ .action = EGRESS_ALLOW };
	if (!slice_eq(action, SLICE("allow")) || !to.n)
		return cay_fail(err, CAY_E_INVALID,
				"expected 'allow TARGET [PORTS] [methods=LIST] [paths=LIST]'");
	if (egress_target_parse(to, &ret->to, err) < 0)
		return -EINVAL;
	if (line.n && ascii_is_digit(line.p[0]) &&
	    preset_read_ports(preset_cut_word(&line), ret) < 0)
		return cay_fail(err, CAY_E_INVALID,
				"expected at most %d ports or ranges, as in 443,8000-8010",
				EGRESS_PORTS_MAX);
	while (line.p)
		if (preset_read_term(preset_cut_word(&line), ret, err) < 0)
			return -EINVAL;
	return egress_rule_check_terms(ret, err);
}

int egress_preset_read(struct slice text, struct egress_rule *rules, size_t max, size_t *ret_n,
		       struct slice *ret_help, struct cay_err *err)
{
	bool any = false;
	unsigned number = 0;

	*ret_n = 0;
	*ret_help = SLICE("");
	if (!utf8_is_valid(text.p, text.n) || memchr(text.p, 0, text.n))
		return cay_fail(err, CAY_E_INVALID, "it is not UTF-8 text");
	while (text.n) {
		struct slice line = slice_trim(slice_cut(&text, '\n'));

		number++;
		if (line.n && line.p[0] == '#' && !any && !ret_help->n)
			*ret_help = slice_trim((struct slice){ line.p + 1, line.n - 1 });
		if (!line.n || line.p[0] == '#')
			continue;
		any = true;
		if (*ret_n == max)
			return cay_fail(err, CAY_E_INVALID, "it has more than %zu rules", max);
		if (preset_read_rule(line, &rules[(*ret_n)++], err) < 0)
			return cay_err_wrap(err, -EINVAL, "line %u", number);
	}
	return 0;
}
