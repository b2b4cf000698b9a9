/* SPDX-License-Identifier: Apache-2.0 */
/* What cayd and cay-egress send each other: the bounds of each message, and names that are none. */
#include "unit.h"
#include "wire/egress-message.h"

static struct {
	struct egress_message head;
	char body[EGRESS_MESSAGE_MAX];
} m;

/* Whether a message of this kind is valid with the first n bytes of the body. */
static bool message_is_valid(enum egress_kind kind, size_t n)
{
	const bool of_cayd = kind == EGRESS_MSG_CUT || kind == EGRESS_MSG_LIST_FLOWS ||
			     kind == EGRESS_MSG_LIST_LOG || kind == EGRESS_MSG_ANSWER ||
			     kind == EGRESS_MSG_EVENT || kind == EGRESS_MSG_EXPOSE;
	struct id sandbox = {};

	assert_int_equal(id_generate(ID_SANDBOX, 0, 0, &sandbox), 0);
	m.head = kind == EGRESS_MSG_COUNTS || kind == EGRESS_MSG_EVENT
			 ? egress_message_init(kind, NULL, 0)
			 : egress_message_init(kind, &sandbox, 7);
	assert_true(egress_message_check(&m, sizeof(m.head) + n, 1, of_cayd) < 0);
	assert_true(egress_message_check(&m, sizeof(m.head) + n, 0, !of_cayd) < 0);
	return egress_message_check(&m, sizeof(m.head) + n, 0, of_cayd) == 0;
}

static void test_sizes(void **)
{
	const size_t node = sizeof(struct egress_node_counts);
	const size_t row = sizeof(struct egress_counts_row), flow = sizeof(struct egress_flow_row);
	const struct {
		enum egress_kind kind;
		size_t n;
		bool valid;
	} rows[] = {
		{ EGRESS_MSG_COUNTS, node, true },
		{ EGRESS_MSG_COUNTS, node - 1, false },
		{ EGRESS_MSG_COUNTS, node + 1, false },
		{ EGRESS_MSG_COUNTS, node + EGRESS_COUNTS_ROWS_MAX * row, true },
		{ EGRESS_MSG_COUNTS, node + (EGRESS_COUNTS_ROWS_MAX + 1) * row, false },
		{ EGRESS_MSG_FLOWS, 0, true },
		{ EGRESS_MSG_FLOWS, flow - 1, false },
		{ EGRESS_MSG_FLOWS, EGRESS_FLOWS_MAX * flow, true },
		{ EGRESS_MSG_FLOWS, (EGRESS_FLOWS_MAX + 1) * flow, false },
		{ EGRESS_MSG_CUT, sizeof(struct egress_cut), true },
		{ EGRESS_MSG_CUT, sizeof(struct egress_cut) - 1, false },
		{ EGRESS_MSG_CUT, sizeof(struct egress_cut) + 1, false },
		{ EGRESS_MSG_CUT_DONE, sizeof(uint64_t), true },
		{ EGRESS_MSG_CUT_DONE, 0, false },
		{ EGRESS_MSG_ASK, sizeof(struct egress_ask), true },
		{ EGRESS_MSG_ASK, sizeof(struct egress_ask) - 1, false },
		{ EGRESS_MSG_ASK, 2 * sizeof(struct egress_ask), false },
		{ EGRESS_MSG_ANSWER, sizeof(struct egress_answer), true },
		{ EGRESS_MSG_ANSWER, sizeof(struct egress_answer) + 1, false },
		{ EGRESS_MSG_ANSWERED, sizeof(uint64_t), true },
		{ EGRESS_MSG_ANSWERED, 0, false },
		{ EGRESS_MSG_EVENT, 1, true },
		{ EGRESS_MSG_EVENT, 0, false },
		{ EGRESS_MSG_EVENT, EGRESS_EVENT_MAX, true },
		{ EGRESS_MSG_EVENT, EGRESS_EVENT_MAX + 1, false },
		{ EGRESS_MSG_LIST_FLOWS, 0, true },
		{ EGRESS_MSG_LIST_FLOWS, 1, false },
		{ EGRESS_MSG_LIST_LOG, sizeof(struct egress_log_query), true },
		{ EGRESS_MSG_LIST_LOG, sizeof(struct egress_log_query) - 1, false },
		{ EGRESS_MSG_LOG, sizeof(struct egress_log_end), true },
		{ EGRESS_MSG_LOG, sizeof(struct egress_log_end) + 1, false },
		{ EGRESS_MSG_APPLIED, sizeof(struct egress_counts), true },
		{ EGRESS_MSG_APPLIED, 0, false },
		{ EGRESS_MSG_EXPOSE, sizeof(struct egress_exposed), true },
		{ EGRESS_MSG_EXPOSE, sizeof(struct egress_exposed) + 1, false },
		{ EGRESS_MSG_PEER, sizeof(struct egress_peer), false }, /* without a name */
		{ EGRESS_MSG_REFUSED, 0, true },
		{ EGRESS_MSG_REFUSED, 1, false },
	};

	memset(m.body, 0, sizeof(m.body));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, message_is_valid(rows[i].kind, rows[i].n) == rows[i].valid);
}

/* A socket comes with a connection, and with nothing else. */
static void test_peers(void **)
{
	struct egress_peer_done done = { .outcome = EGRESS_PEER_CONNECTED };
	struct egress_peer peer = { .name = "db.group.cay.internal", .port = 5432 };
	struct egress_exposed exposed = { .n = 2, .ports = { { 80, 80 }, { 8000, 8010 } } };
	struct id sandbox = {};

	assert_true(egress_exposed_has(&exposed, 80) && egress_exposed_has(&exposed, 8010));
	assert_false(egress_exposed_has(&exposed, 81) || egress_exposed_has(&exposed, 0));
	assert_int_equal(id_generate(ID_SANDBOX, 0, 0, &sandbox), 0);
	m.head = egress_message_init(EGRESS_MSG_PEER_DONE, &sandbox, 7);
	memcpy(m.body, &done, sizeof(done));
	assert_true(egress_message_check(&m, sizeof(m.head) + sizeof(done), 1, true) < 0);
	assert_true(egress_message_check(&m, sizeof(m.head) + sizeof(done), 0, true) < 0);
	done = (struct egress_peer_done){ .peer = sandbox, .outcome = EGRESS_PEER_ABSENT };
	memcpy(m.body, &done, sizeof(done));
	assert_true(egress_message_check(&m, sizeof(m.head) + sizeof(done), 1, true) < 0);
	done.outcome = EGRESS_PEER_CONNECTED;
	memcpy(m.body, &done, sizeof(done));
	assert_int_equal(egress_message_check(&m, sizeof(m.head) + sizeof(done), 1, true), 0);
	assert_true(egress_message_check(&m, sizeof(m.head) + sizeof(done), 0, true) < 0);
	done = (struct egress_peer_done){ .outcome = EGRESS_PEER_ABSENT };
	memcpy(m.body, &done, sizeof(done));
	assert_int_equal(egress_message_check(&m, sizeof(m.head) + sizeof(done), 0, true), 0);
	assert_true(egress_message_check(&m, sizeof(m.head) + sizeof(done), 1, true) < 0);
	memcpy(m.body, &peer, sizeof(peer));
	assert_true(message_is_valid(EGRESS_MSG_PEER, sizeof(peer)));
	m.body[2] = '/';
	assert_false(message_is_valid(EGRESS_MSG_PEER, sizeof(peer)));
	memcpy(m.body, &exposed, sizeof(exposed));
	assert_true(message_is_valid(EGRESS_MSG_EXPOSE, sizeof(exposed)));
	exposed.ports[1].to = 7999;
	memcpy(m.body, &exposed, sizeof(exposed));
	assert_false(message_is_valid(EGRESS_MSG_EXPOSE, sizeof(exposed)));
}

static void test_names(void **)
{
	static const struct {
		const char *name;
		bool valid;
	} rows[] = {
		{ "api.example.com", true },
		{ "_dmarc.xn--a-1.example", true },
		{ "", true },
		{ "API.example.com", false },
		{ "a b", false },
		{ "a\"b", false },
		{ "*.example.com", false },
		{ "\xc3\xa4.example", false },
	};
	struct egress_flow_row row = {};
	struct egress_cut cut = {};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(m.body, 0, sizeof(m.body));
		memcpy(m.body + sizeof(row), rows[i].name, strlen(rows[i].name)); /* the second */
		row_check(i, message_is_valid(EGRESS_MSG_FLOWS, 2 * sizeof(row)) == rows[i].valid);
		memset(m.body, 0, sizeof(m.body));
		memcpy(m.body, rows[i].name, strlen(rows[i].name));
		row_check(i, message_is_valid(EGRESS_MSG_CUT, sizeof(cut)) == rows[i].valid);
	}
	memset(row.name, 'a', sizeof(row.name)); /* without an end */
	memcpy(m.body, &row, sizeof(row));
	assert_false(message_is_valid(EGRESS_MSG_FLOWS, sizeof(row)));
	assert_false(message_is_valid(EGRESS_MSG_CUT, sizeof(cut)));
	row = (struct egress_flow_row){ .state = EGRESS_FLOW_NUM_STATES };
	memcpy(m.body, &row, sizeof(row));
	assert_false(message_is_valid(EGRESS_MSG_FLOWS, sizeof(row)));
	for (uint8_t i = 0; i <= EGRESS_ASK_NUM_EVENTS; i++) {
		struct egress_ask ask = { .name = "a.example", .event = i };

		memcpy(m.body, &ask, sizeof(ask));
		row_check(i, message_is_valid(EGRESS_MSG_ASK, sizeof(ask)) ==
				     (i < EGRESS_ASK_NUM_EVENTS));
	}
	for (uint16_t i = 0; i <= EGRESS_ANSWER_NUM; i++) {
		struct egress_answer answer = { .address = 1, .verdict = i };

		memcpy(m.body, &answer, sizeof(answer));
		row_check(i, message_is_valid(EGRESS_MSG_ANSWER, sizeof(answer)) ==
				     (i < EGRESS_ANSWER_NUM));
	}
	cut = (struct egress_cut){ .name = "a.example", .address = 1 };
	memcpy(m.body, &cut, sizeof(cut));
	assert_false(message_is_valid(EGRESS_MSG_CUT, sizeof(cut)));
}

/* Rows of LOG have words, and no number beyond the end. */
static void test_log(void **)
{
	const struct egress_log_row good = {
		.name = "a.example", .op = "connect", .outcome = "allow", .seq = 7
	};
	struct egress_log_row rows[6] = { good, good, good, good, good, good };
	struct egress_log_query q = { .verdict = EGRESS_LOG_NUM };
	const struct egress_log_end end = { .next = 7 };

	rows[1].op[0] = 0;
	rows[2].outcome[0] = '"';
	rows[3].layer = 5;
	rows[4].verdict = EGRESS_LOG_NUM;
	rows[5].seq = 8;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memcpy(m.body, &end, sizeof(end));
		memcpy(m.body + sizeof(end), &rows[i], sizeof(rows[i]));
		row_check(i, message_is_valid(EGRESS_MSG_LOG, sizeof(end) + sizeof(rows[i])) ==
				     (i == 0));
	}
	memcpy(m.body, &q, sizeof(q));
	assert_true(message_is_valid(EGRESS_MSG_LIST_LOG, sizeof(q)));
	q.verdict++;
	memcpy(m.body, &q, sizeof(q));
	assert_false(message_is_valid(EGRESS_MSG_LIST_LOG, sizeof(q)));
}

/* They only grow, and never beyond the largest number of a reply. */
static void test_counts(void **)
{
	struct egress_counts c = { .open = 3, .denied = 5, .up = 7 };

	egress_counts_raise(&c,
			    &(struct egress_counts){ .open = 1, .denied = 4, .up = UINT64_MAX });
	assert_int_equal(c.open, 1);
	assert_int_equal(c.denied, 5);
	assert_int_equal(c.up, INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sizes),
					    cmocka_unit_test(test_peers),
					    cmocka_unit_test(test_names),
					    cmocka_unit_test(test_log),
					    cmocka_unit_test(test_counts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
