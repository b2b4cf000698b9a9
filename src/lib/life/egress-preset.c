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

static int preset_read_rule(struct slice line, struct egress_rule *ret, struct cay_err *err)
{
	struct slice action = preset_cut_word(&line), to = preset_cut_word(&line);

	*ret = (struct egress_rule){ .action = EGRESS_ALLOW };
	if (!slice_eq(action, SLICE("allow")) || !to.n)
		return cay_fail(err, CAY_E_INVALID, "expected 'allow TARGET [PORTS]'");
	if (egress_target_parse(to, &ret->to, err) < 0)
		return -EINVAL;
	if (preset_read_ports(line, ret) < 0)
		return cay_fail(err, CAY_E_INVALID,
				"expected at most %d ports or ranges, as in 443,8000-8010",
				EGRESS_PORTS_MAX);
	return 0;
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
