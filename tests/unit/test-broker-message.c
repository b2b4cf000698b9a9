/* SPDX-License-Identifier: Apache-2.0 */
/* Records of cay-egress and credentials of cayd for cay-broker: one valid message, and each part of
 * it broken. */
#include "unit.h"
#include "wire/broker-message.h"
#include "wire/credential-message.h"

static struct broker_record record_create(void)
{
	struct id sandbox, tenant;
	struct broker_record m;

	assert_int_equal(id_generate(ID_SANDBOX, 0, 0, &sandbox), 0);
	assert_int_equal(id_generate(ID_TENANT, 0, 0, &tenant), 0);
	assert_int_equal(broker_record_init(&m, &sandbox, &tenant, SLICE("api.example.com"), 443,
					    SLICE("key-1")),
			 0);
	return m;
}

static bool record_is_valid(const struct broker_record *m)
{
	return broker_record_check(m, sizeof(*m), BROKER_NUM_FDS) == 0;
}

static void test_record(void **)
{
	const struct broker_record m = record_create();
	struct broker_record bad[] = { m, m, m, m, m, m, m, m, m };

	assert_true(record_is_valid(&m));
	assert_true(broker_record_check(&m, sizeof(m) - 1, BROKER_NUM_FDS) < 0);
	assert_true(broker_record_check(&m, sizeof(m), BROKER_NUM_FDS - 1) < 0);
	bad[0].magic++;
	bad[1].abi++;
	bad[2].port = 0;
	bad[3].sandbox = m.tenant;
	bad[4].tenant = m.sandbox;
	bad[5].host[0] = 'A';
	bad[6].host[0] = 0; /* and bytes behind it */
	memset(bad[7].host, 'a', sizeof(bad[7].host));
	bad[8].credential[3] = '/';
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, !record_is_valid(&bad[i]));
}

static void test_names_of_records(void **)
{
	static const char *const hosts[] = { "", "a b", "API.example.com", "a\n" };
	static const char *const names[] = { "-a", "a b", "a/b" };
	char long_name[BROKER_CREDENTIAL_SIZE + 1] = "";
	struct broker_record m = record_create(), none = m;

	memset(long_name, 'a', BROKER_CREDENTIAL_SIZE);
	assert_false(broker_credential_name_is_valid(slice_of(long_name)));
	assert_false(broker_credential_name_is_valid((struct slice){}));
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		row_check(i, broker_record_init(&m, &m.sandbox, &m.tenant, slice_of(hosts[i]), 1,
						(struct slice){}) < 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		row_check(i, broker_record_init(&m, &m.sandbox, &m.tenant, SLICE("a.example"), 1,
						slice_of(names[i])) < 0);
	memset(none.credential, 0, sizeof(none.credential));
	assert_true(record_is_valid(&none)); /* it needs no credential */
}

static struct credential_message put_create(void)
{
	struct credential_message m = credential_message_init(CREDENTIAL_MSG_PUT);

	assert_int_equal(id_generate(ID_TENANT, 0, 0, &m.tenant), 0);
	memcpy(m.name, "key-1", 6);
	memcpy(m.hosts[0], "api.example.com", 16);
	memcpy(m.hosts[1], "b_1.example", 12);
	m.n_hosts = 2;
	m.n_sealed = 1;
	return m;
}

static bool put_is_valid(const struct credential_message *m)
{
	return credential_message_check(m, sizeof(*m), true) == 0;
}

static void test_kinds_of_messages(void **)
{
	static const struct {
		enum credential_message_kind kind;
		bool from_cayd, from_broker;
	} rows[] = {
		{ CREDENTIAL_MSG_HELLO, true, true },
		{ CREDENTIAL_MSG_ALL, true, false },
		{ CREDENTIAL_MSG_PUT, true, false },
		{ CREDENTIAL_MSG_GONE, true, false },
		{ CREDENTIAL_MSG_END, true, false },
		{ CREDENTIAL_MSG_APPLIED, false, true },
		{ CREDENTIAL_MSG_CLOSED, false, true },
		{ CREDENTIAL_MSG_NUM, false, false },
		{ (enum credential_message_kind)0, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct credential_message m = put_create();

		m.kind = (uint16_t)rows[i].kind;
		m.number = rows[i].kind == CREDENTIAL_MSG_HELLO ? CREDENTIAL_ABI : 0;
		row_check(i, put_is_valid(&m) == rows[i].from_cayd);
		row_check(i, (credential_message_check(&m, sizeof(m), false) == 0) ==
				     rows[i].from_broker);
		m.number++;
		row_check(i, !put_is_valid(&m));
	}
	assert_true(credential_message_check(&rows, 7, true) < 0);
	assert_int_equal(credential_message_init(CREDENTIAL_MSG_HELLO).number, CREDENTIAL_ABI);
}

static void test_parts_of_a_credential(void **)
{
	const struct credential_message m = put_create();
	struct credential_message bad[] = { m, m, m, m, m, m, m, m, m, m, m, m, m };

	assert_true(put_is_valid(&m));
	bad[0].magic++;
	bad[1].zero = 1;
	bad[2].name[0] = 0;
	bad[3].tenant = (struct id){};
	bad[4].form = CREDENTIAL_NUM_KINDS;
	bad[5].n_hosts = 0;
	bad[6].n_hosts = CREDENTIAL_HOSTS_MAX + 1;
	bad[7].n_hosts = 1; /* and a second */
	bad[8].hosts[1][0] = 'B';
	bad[9].n_sealed = 0;
	bad[10].n_sealed = CREDENTIAL_SEALED_MAX + 1;
	bad[11].header[0] = 'x'; /* of a bearer token */
	memset(bad[12].pattern, 'x', sizeof(bad[12].pattern));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, !put_is_valid(&bad[i]));
}

static void test_where_a_value_is_set(void **)
{
	static const struct {
		enum credential_kind form;
		const char *header, *pattern;
		bool valid;
	} rows[] = {
		{ CREDENTIAL_HEADER, "X-Api-Key", "{}", true },
		{ CREDENTIAL_HEADER, "Authorization", "Token {}", true },
		{ CREDENTIAL_HEADER, "X-Api-Key", "", false },
		{ CREDENTIAL_HEADER, "X-Api-Key", "{}{}", false },
		{ CREDENTIAL_HEADER, "X-Api-Key", "{} ", false },
		{ CREDENTIAL_HEADER, "X-Api-Key", "a\n{}", false },
		{ CREDENTIAL_HEADER, "Host", "{}", false },
		{ CREDENTIAL_HEADER, "Content-Length", "{}", false },
		{ CREDENTIAL_HEADER, "Proxy-Authorization", "{}", false },
		{ CREDENTIAL_HEADER, "a b", "{}", false },
		{ CREDENTIAL_HEADER, "", "{}", false },
		{ CREDENTIAL_QUERY, "api_key", "", true },
		{ CREDENTIAL_QUERY, "a&b", "", false },
		{ CREDENTIAL_QUERY, "", "", false },
		{ CREDENTIAL_QUERY, "key", "{}", false },
		{ CREDENTIAL_BASIC, "", "", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct credential_message m = put_create();

		m.form = (uint16_t)rows[i].form;
		memcpy(m.header, rows[i].header, strlen(rows[i].header));
		memcpy(m.pattern, rows[i].pattern, strlen(rows[i].pattern));
		row_check(i, put_is_valid(&m) == rows[i].valid);
	}
}

static void test_values(void **)
{
	static const struct {
		enum credential_kind form;
		const char *value;
		bool valid;
	} rows[] = {
		{ CREDENTIAL_BEARER, "0123456", false },
		{ CREDENTIAL_BEARER, "01234567", true },
		{ CREDENTIAL_BEARER, "0123456\n", false },
		{ CREDENTIAL_BEARER, " 1234567", false },
		{ CREDENTIAL_BEARER, "0123456 ", false },
		{ CREDENTIAL_BASIC, "user:12345678", true },
		{ CREDENTIAL_BASIC, "user:1234567", false },
		{ CREDENTIAL_BASIC, ":12345678", false },
		{ CREDENTIAL_BASIC, "user12345678", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, !credential_value_refusal(rows[i].form, slice_of(rows[i].value)) ==
				     rows[i].valid);
}

/* Whatever says where a value goes is part of the purpose. */
static void test_purposes_differ(void **)
{
	const struct credential_message m = put_create();
	struct credential_message other[] = { m, m, m, m, m };
	auto_buf one = BUF_INIT(CREDENTIAL_PURPOSE_MAX);

	assert_int_equal(credential_purpose_write(&m, &one), 0);
	other[0].name[0] = 'x';
	other[1].form = CREDENTIAL_BASIC;
	other[2].header[0] = 'x';
	other[3].n_hosts = 1;
	other[4].pattern[0] = 'x';
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		auto_buf two = BUF_INIT(CREDENTIAL_PURPOSE_MAX);

		row_check(i, credential_purpose_write(&other[i], &two) == 0 &&
				     !str_eq(buf_str(&one), buf_str(&two)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_names_of_records),
		cmocka_unit_test(test_kinds_of_messages),
		cmocka_unit_test(test_parts_of_a_credential),
		cmocka_unit_test(test_where_a_value_is_set),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_purposes_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
