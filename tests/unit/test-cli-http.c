/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/http-client.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "unit.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define LEN(n) "Content-Length: " #n "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define TYPE "Content-Type: application/json\r\n"
#define EXEC "Cay-Exec: ex0001000g00000000000000tr\r\n"
#define TEN(h) h h h h h h h h h h

static const struct {
	const char *reply;
	int want;         /* 0, -EPROTO, -ECONNRESET */
	const char *body; /* of a success */
} cases[] = {
	{ OK LEN(2) "\r\n{}", 0, "{}" },
	{ OK LEN(0) "\r\n", 0, "" },
	{ OK CHUNKED "\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 0, "abc" },
	{ OK TYPE EXEC LEN(1) "\r\nx", 0, "x" },
	{ "HTTP/1.1 204 No Content\r\n\r\n", 0, "" },
	{ "HTTP/1.1 599 X\r\n" LEN(0) "\r\n", 0, "" },
	{ OK TEN(TEN("X: 1\r\n")) LEN(0) "\r\n", -EPROTO, NULL },
	{ OK TEN("X: 1\r\n") TEN("X: 1\r\n") LEN(0) "\r\n", 0, "" },
	{ OK "X: " TEN(TEN(TEN("0123456789012345678"))) "\r\n" LEN(0) "\r\n", -EPROTO, NULL },
	{ OK "X: " TEN(TEN(TEN("0123456789012345"))) "\r\n" LEN(0) "\r\n", 0, "" },
	{ "HTTP/1.1 100 Continue\r\n\r\n" OK LEN(0) "\r\n", -EPROTO, NULL },
	{ "HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", -EPROTO, NULL },
	{ "HTTP/1.1 600 X\r\n" LEN(0) "\r\n", -EPROTO, NULL },
	{ "HTTP/2.0 200 OK\r\n" LEN(0) "\r\n", -EPROTO, NULL },
	{ "HTTP/0.9 200 OK\r\n" LEN(0) "\r\n", -EPROTO, NULL },
	{ OK TYPE "\r\n{}", -EPROTO, NULL }, /* its end would be the connection's */
	{ OK LEN(2) CHUNKED "\r\n0\r\n\r\n", -EPROTO, NULL },
	{ OK LEN(2) LEN(2) "\r\n{}", -EPROTO, NULL },
	{ OK "Transfer-Encoding: gzip\r\n\r\n", -EPROTO, NULL },
	{ OK TYPE TYPE LEN(0) "\r\n", -EPROTO, NULL },
	{ OK EXEC EXEC LEN(0) "\r\n", -EPROTO, NULL },
	{ OK "Cay-Exec: ex0001000g00000000000000trr\r\n" LEN(0) "\r\n", -EPROTO, NULL },
	{ OK LEN(2) "\r\n{}x", -EPROTO, NULL },
	{ OK CHUNKED "\r\n0\r\n\r\nx", -EPROTO, NULL },
	{ OK CHUNKED "\r\nzz\r\n", -EPROTO, NULL },
	{ "garbage\r\n\r\n", -EPROTO, NULL },
	{ "", -ECONNRESET, NULL },
	{ OK, -ECONNRESET, NULL },
	{ OK LEN(3) "\r\n{}", -ECONNRESET, NULL },
	{ OK CHUNKED "\r\n2\r\nab\r\n", -ECONNRESET, NULL },
};

/* Read a reply that arrives in pieces of step bytes and then ends. */
static int read_reply(struct http_client *h, const char *reply, size_t step, struct buf *body)
{
	struct cay_err err = {};
	size_t left = strlen(reply);
	int pair[2], r = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*h = (struct http_client){ .fd = pair[0],
				   .out = BUF_INIT(KIB(4)),
				   .body = BUF_INIT(KIB(64)) };
	assert_int_equal(
		http_client_queue_request(
			h, &(struct http_client_request){ "GET", "/",
							  .body_length = HTTP_CLIENT_NO_BODY }),
		0);
	while (left && r == 0) {
		size_t n = left < step ? left : step;

		assert_int_equal(write(pair[1], reply, n), n);
		reply += n;
		left -= n;
		r = http_client_receive(h, &err);
		assert_int_equal(buf_append(body, buf_str(&h->body), h->body.len), 0);
		buf_clear(&h->body);
	}
	(void)close(pair[1]);
	if (r == 0)
		r = http_client_receive(h, &err);
	assert_true((r == 0) == (err.code == CAY_OK));
	return r;
}

static void replies_are_what_they_should_be_or_refused(void **)
{
	static const size_t steps[] = { 1, 7, HTTP_PIECE };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(steps); k++) {
			auto_http h = HTTP_INIT;
			auto_buf body = BUF_INIT(KIB(64));
			int r = read_reply(&h, cases[i].reply, steps[k], &body);

			row_check(i, r == cases[i].want);
			if (r == 0)
				assert_text(&body, cases[i].body);
			row_check(i, r != 0 || (h.head_complete && h.reply_complete));
		}
	}
}

/* Whatever lies where the last piece lay. */
static void a_second_reply_of_the_same_length_is_refused(void **)
{
	static const char two[] = OK LEN(0) "\r\n" OK LEN(0) "\r\n";
	auto_http h = HTTP_INIT;
	auto_buf body = BUF_INIT(64);

	assert_int_equal(read_reply(&h, two, (sizeof(two) - 1) / 2, &body), -EPROTO);
}

static void headers_that_matter_are_kept(void **)
{
	auto_http h = HTTP_INIT;
	auto_buf body = BUF_INIT(64);

	assert_int_equal(
		read_reply(&h, OK "Content-TYPE:  a/b \r\n" EXEC "cay-execs: no\r\n" LEN(0) "\r\n",
			   3, &body),
		0);
	assert_string_equal(h.reply_headers.type, "a/b");
	assert_string_equal(h.reply_headers.exec, "ex0001000g00000000000000tr");
	assert_int_equal(h.status, 200);
}

static void a_request_is_spelled_once(void **)
{
	auto_http h = { .fd = -EBADF, .out = BUF_INIT(KIB(4)) };

	assert_int_equal(
		http_client_queue_request(
			&h, &(struct http_client_request){ "POST", "/v1/x?a=b", "c/d", "e/f", "g-h",
							   .body_length = HTTP_CLIENT_CHUNKED }),
		0);
	assert_int_equal(http_client_queue_chunk(&h, "0123456789abcdef", 16), 0);
	assert_int_equal(http_client_queue_chunk(&h, NULL, 0), 0);
	assert_text(&h.out, "POST /v1/x?a=b HTTP/1.1\r\nHost: cay\r\nConnection: close\r\n"
			    "Accept: c/d\r\nContent-Type: e/f\r\nIdempotency-Key: "
			    "g-h\r\nTransfer-Encoding: chunked\r\n\r\n"
			    "10\r\n0123456789abcdef\r\n0\r\n\r\n");
	buf_clear(&h.out);
	assert_int_equal(http_client_queue_request(
				 &h, &(struct http_client_request){ "PUT", "/", .body_length = 7 }),
			 0);
	assert_text(
		&h.out,
		"PUT / HTTP/1.1\r\nHost: cay\r\nConnection: close\r\nContent-Length: 7\r\n\r\n");
}

static bool has(const struct buf *b, const char *text)
{
	return memmem(b->data, b->cap, text, strlen(text));
}

/* In one piece of memory, which forgets it when it is sent. */
static void a_token_is_sent_and_forgotten(void **)
{
	auto_http h = { .fd = -EBADF, .out = BUF_INIT(KIB(4)) };
	char got[512] = "", much[KIB(2)] = {};
	const char *where;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	h.fd = pair[0];
	assert_int_equal(
		http_client_queue_request(
			&h, &(struct http_client_request){ "GET", "/", .host = "box:7070",
							   .token = "s3cret",
							   .body_length = HTTP_CLIENT_NO_BODY }),
		0);
	where = h.out.data;
	assert_text(&h.out, "GET / HTTP/1.1\r\nHost: box:7070\r\nConnection: close\r\n"
			    "Authorization: Bearer s3cret\r\n\r\n");
	assert_int_equal(buf_append(&h.out, much, sizeof(much)), 0);
	assert_ptr_equal(h.out.data, where);
	assert_int_equal(http_client_flush(&h), 0);
	assert_true(read(pair[1], got, sizeof(got) - 1) > 0 && strstr(got, "Bearer s3cret"));
	assert_false(has(&h.out, "s3cret"));
	(void)close(pair[1]);
}

static void what_answers_in_tls_is_named(void **)
{
	static const char alert[] = "\x15\x03\x03\x00\x02\x02\x46";
	auto_http h = { .fd = -EBADF, .out = BUF_INIT(KIB(4)), .body = BUF_INIT(64) };
	struct cay_err err = {};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	h.fd = pair[0];
	assert_int_equal(
		http_client_queue_request(
			&h, &(struct http_client_request){ "GET", "/",
							   .body_length = HTTP_CLIENT_NO_BODY }),
		0);
	assert_int_equal(write(pair[1], alert, sizeof(alert) - 1), sizeof(alert) - 1);
	assert_int_equal(http_client_receive(&h, &err), -EPROTO);
	assert_non_null(strstr(err.msg, "https"));
	(void)close(pair[1]);
}

static void waiting_ends_at_the_deadline(void **)
{
	auto_http h = HTTP_INIT;
	struct interrupt none = INTERRUPT_INIT;
	uint64_t now = clk_boot_ns(&clk_system);
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	h.fd = pair[0];
	assert_int_equal(http_client_wait(&h, POLLIN, now + 20 * NS_PER_MS, &none), -ETIMEDOUT);
	assert_true(clk_boot_ns(&clk_system) - now >= 20 * NS_PER_MS);
	assert_int_equal(http_client_wait(&h, POLLIN, 0, &none), -ETIMEDOUT);
	(void)close(pair[1]);
	assert_int_equal(http_client_wait(&h, POLLIN, UINT64_MAX, &none), 0);
	assert_int_equal(deadline_to_poll_ms(UINT64_MAX), -1);
	assert_int_equal(deadline_to_poll_ms(UINT64_MAX - 1), INT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_are_what_they_should_be_or_refused),
		cmocka_unit_test(a_second_reply_of_the_same_length_is_refused),
		cmocka_unit_test(headers_that_matter_are_kept),
		cmocka_unit_test(a_request_is_spelled_once),
		cmocka_unit_test(a_token_is_sent_and_forgotten),
		cmocka_unit_test(what_answers_in_tls_is_named),
		cmocka_unit_test(waiting_ends_at_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
