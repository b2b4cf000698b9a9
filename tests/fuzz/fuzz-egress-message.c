/* SPDX-License-Identifier: Apache-2.0 */
/* What cayd and cay-egress send each other: the first byte is how many fds came, and from which. */
#include "fuzz.h"
#include "wire/egress-message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_counts sum = {}, before;
	struct egress_message m;
	struct slice body;
	bool from_cayd = size && data[0] & 0x80;
	unsigned n_fds = size ? data[0] & 0x7f : 0;

	if (!size || egress_message_check(data + 1, size - 1, n_fds, from_cayd) < 0)
		return 0;
	CHECK(size - 1 >= sizeof(m));
	memcpy(&m, data + 1, sizeof(m));
	CHECK(m.kind > 0 && m.kind < EGRESS_MSG_NUM);
	CHECK(n_fds <= (m.kind == EGRESS_MSG_SANDBOX));
	CHECK(from_cayd || m.kind == EGRESS_MSG_HELLO || m.kind >= EGRESS_MSG_APPLIED);
	body = egress_message_body(data + 1, size - 1);
	CHECK(body.n == size - 1 - sizeof(m));
	if (m.kind == EGRESS_MSG_COUNTS) {
		size_t n = egress_counts_count_rows(body);

		CHECK(n <= EGRESS_COUNTS_ROWS_MAX);
		CHECK(body.n ==
		      sizeof(struct egress_node_counts) + n * sizeof(struct egress_counts_row));
		for (size_t i = 0; i < n; i++)
			sum = egress_counts_get_row(body, i).counts;
	} else if (m.kind == EGRESS_MSG_FLOWS) {
		CHECK(egress_flows_count_rows(body) <= EGRESS_FLOWS_MAX);
		for (size_t i = 0; i < egress_flows_count_rows(body); i++) {
			const struct egress_flow_row row = egress_flows_get_row(body, i);

			CHECK(strnlen(row.name, sizeof(row.name)) < sizeof(row.name));
			CHECK(!strpbrk(row.name, "\"\\\n*/") && row.state < EGRESS_FLOW_NUM_STATES);
		}
	} else if (m.kind == EGRESS_MSG_CUT) {
		struct egress_cut cut;

		CHECK(from_cayd && body.n == sizeof(cut));
		memcpy(&cut, body.p, sizeof(cut));
		CHECK(strnlen(cut.name, sizeof(cut.name)) < sizeof(cut.name));
	} else if (m.kind == EGRESS_MSG_ASK) {
		struct egress_ask ask;

		CHECK(!from_cayd && body.n == sizeof(ask));
		memcpy(&ask, body.p, sizeof(ask));
		CHECK(strnlen(ask.name, sizeof(ask.name)) < sizeof(ask.name));
		CHECK(!strpbrk(ask.name, "\"\\\n*/") && ask.event < EGRESS_ASK_NUM_EVENTS);
		CHECK(ask.kind < EGRESS_KIND_NUM && !(ask.name[0] && ask.address));
	} else if (m.kind == EGRESS_MSG_ANSWER) {
		struct egress_answer answer;

		CHECK(from_cayd && body.n == sizeof(answer));
		memcpy(&answer, body.p, sizeof(answer));
		CHECK(strnlen(answer.name, sizeof(answer.name)) < sizeof(answer.name));
		CHECK(answer.verdict < EGRESS_ANSWER_NUM);
	} else if (m.kind == EGRESS_MSG_APPLIED) {
		memcpy(&sum, body.p, sizeof(sum));
	}
	before = sum;
	egress_counts_raise(&sum, &(struct egress_counts){ .up = 1 });
	CHECK(sum.open == 0 && sum.denied == before.denied);
	CHECK(sum.up == (before.up ? before.up : 1));
	return 0;
}
