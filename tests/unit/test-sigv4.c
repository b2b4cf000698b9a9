/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of botocore 1.43, the first two of which AWS publishes in its manual of S3 ("Examples:
 * Signature Calculations").  All are of 2013-05-24 and of the keys in that manual. */
#include "broker/sigv4.h"
#include "unit.h"

#define KEYS "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define WHEN_NS (UINT64_C(1369353600) * 1000000000)
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct broker_record record = { .port = 443,
					     .host = "examplebucket.s3.amazonaws.com" };

/* The head is valid while the parser is. */
static void parse(struct http_parser *p, const char *method, const char *target, const char *more)
{
	auto_buf text = BUF_INIT(HTTP_HEAD_MAX);
	struct cay_err err = {};
	struct slice in, body;

	assert_int_equal(buf_printf(&text, "%s %s HTTP/1.1\r\nHost: a.example\r\n%s\r\n", method,
				    target, more),
			 0);
	in = (struct slice){ text.data, text.len };
	http_parser_init(p, HTTP_KIND_REQUEST);
	assert_int_equal(http_parser_next(p, &in, &body, &err), HTTP_HEAD_DONE);
}

static int sign(const char *scope, const char *method, const char *target, const char *more,
		struct buf *ret)
{
	struct http_parser p;
	struct cay_err err = {};
	int r;

	parse(&p, method, target, more);
	r = sigv4_headers_write(&p.head, &record, SLICE(KEYS), slice_of(scope), WHEN_NS, ret, &err);
	http_parser_fini(&p);
	assert_true(r == 0 || err.code == CAY_E_INVALID || err.code == CAY_E_HEADERS);
	return r;
}

static const struct {
	const char *scope, *method, *target, *more, *hash, *names, *signature;
} rows[] = {
	{ "us-east-1/s3", "GET", "/?lifecycle", "", EMPTY, "host;x-amz-content-sha256;x-amz-date",
	  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
	{ "us-east-1/s3", "GET", "/?max-keys=2&prefix=J", "", EMPTY,
	  "host;x-amz-content-sha256;x-amz-date",
	  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	{ "eu-west-1/s3", "GET", "/a%20b/c%2Bd/~x//y/./z", "", EMPTY,
	  "host;x-amz-content-sha256;x-amz-date",
	  "dc63118c5e2c52edf003cac54015dd48d1027b16e65f78cc18ea05d38f27f85d" },
	{ "eu-west-1/s3", "PUT", "/key%C3%A9?partNumber=2&uploadId=a%2Fb",
	  "Content-Type: text/plain; charset=utf-8\r\nx-amz-acl: private\r\nx-amz-meta-a: one  two "
	  "  three\r\n",
	  "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5",
	  "content-type;host;x-amz-acl;x-amz-content-sha256;x-amz-date;x-amz-meta-a",
	  "8a738102f87e1d3628bb8278df22f5f212162ff8a3fc3d61c266a861b13f7c4c" },
	{ "eu-west-1/s3", "PUT", "/key", "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n",
	  "UNSIGNED-PAYLOAD", "content-md5;host;x-amz-content-sha256;x-amz-date",
	  "47702b52e343d23841cb78a0e0e4c675d138c74cbef009d9336a5f1351bfa1fe" },
	{ "eu-west-1/s3", "PUT", "/key",
	  "x-amz-decoded-content-length: 5\r\nx-amz-trailer: x-amz-checksum-crc32\r\n",
	  "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
	  "host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-trailer",
	  "706a9517c4e8a8c17b12d1913e2ce6f83a6e929815d803531f31b849d4bc0d3c" },
	{ "eu-west-1/s3", "GET", "/?b=2&a=2&a=1&A=0&list-type=2&prefix=", "", EMPTY,
	  "host;x-amz-content-sha256;x-amz-date",
	  "aeff3ceb5e0be7fcecd82025772ef5fe48f848b2f460618ee89b24f80a704ec6" },
	{ "us-west-2/dynamodb", "POST", "/",
	  "Content-Type: application/x-amz-json-1.0\r\nx-amz-target: "
	  "DynamoDB_20120810.ListTables\r\n",
	  "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
	  "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-target",
	  "fe2c4d0d5abe90a63bd30eb9ed5573d4c159baef80bd8b776db00e56c2826ff0" },
	{ "us-west-2/lambda", "GET", "/2015-03-31/functions/a%20b%3A1/policy?Qualifier=%24LATEST",
	  "", EMPTY, "host;x-amz-content-sha256;x-amz-date",
	  "78fddc4710e2cf28ede962d72db28d12bfe858d3f0260e004dd882c3f75ea52c" },
	{ "us-west-2/sts", "GET", "/?Action=GetCallerIdentity&Version=2011-06-15", "", EMPTY,
	  "host;x-amz-content-sha256;x-amz-date",
	  "5f2754e878864c5a888605a298fd690b16f624c3269008fe1737fc6817d31dcb" },
};

static void signatures(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf out = BUF_INIT(KIB(4)), want = BUF_INIT(KIB(4)), more = BUF_INIT(KIB(4));

		assert_int_equal(buf_printf(&want,
					    "X-Amz-Date: 20130524T000000Z\r\n"
					    "X-Amz-Content-Sha256: %s\r\n"
					    "Authorization: AWS4-HMAC-SHA256 "
					    "Credential=AKIAIOSFODNN7EXAMPLE/20130524/%s/"
					    "aws4_request, SignedHeaders=%s, Signature=%s\r\n",
					    rows[i].hash, rows[i].scope, rows[i].names,
					    rows[i].signature),
				 0);
		/* what the program signed has no influence */
		assert_int_equal(buf_printf(&more,
					    "%sX-Amz-Content-Sha256: %s\r\nAuthorization: AWS4\r\n"
					    "X-Amz-Date: 1\r\nx-amz-security-token: a\r\n"
					    "User-Agent: b\r\nContent-Length: 5\r\n",
					    rows[i].more, rows[i].hash),
				 0);
		assert_int_equal(
			sign(rows[i].scope, rows[i].method, rows[i].target, buf_str(&more), &out),
			0);
		assert_string_equal(buf_str(&out), buf_str(&want));
	}
}

static void a_request_without_a_body_needs_no_hash(void **)
{
	auto_buf out = BUF_INIT(KIB(4));

	assert_int_equal(sign(rows[0].scope, "GET", rows[0].target, "", &out), 0);
	assert_non_null(strstr(buf_str(&out), rows[0].signature));
}

static void requests_that_cannot_be_signed(void **)
{
	static const struct {
		const char *scope, *target, *more;
	} wrong[] = {
		{ "eu-west-1/s3", "/a", "Content-Length: 1\r\n" },
		{ "eu-west-1/s3", "/a", "Transfer-Encoding: chunked\r\n" },
		{ "eu-west-1/s3", "/a",
		  "X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n" },
		{ "eu-west-1/s3", "/a", "X-Amz-Content-Sha256: unsigned-payload\r\n" },
		{ "eu-west-1/s3", "/a", "X-Amz-Content-Sha256: 00\r\n" },
		{ "eu-west-1/s3", "/a", "X-Amz-Content-Sha256: " EMPTY "00\r\n" },
		{ "eu-west-1/s3", "/a?b=c+d", "" },
		{ "eu-west-1/s3", "/a?b=%zz", "" },
		{ "eu-west-1/s3", "/%0", "" },
		{ "eu-west-1/s3", "/a%00", "" },
		{ "eu-west-1/s3", "/a?X-Amz-Signature=1", "" },
		{ "eu-west-1/s3", "/a?X%2dAmz-Algorithm=1", "" },
		{ "eu-west-1/s3", "/a", "x-amz-acl: a\r\nX-Amz-Acl: b\r\n" },
		{ "eu-west-1/sqs", "/a//b", "" },
		{ "eu-west-1/sqs", "/a/../b", "" },
		{ "eu-west-1/sqs", "/./b", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		auto_buf out = BUF_INIT(KIB(4));

		row_check(i,
			  sign(wrong[i].scope, "POST", wrong[i].target, wrong[i].more, &out) < 0);
	}
}

static void much_is_refused(void **)
{
	auto_buf target = BUF_INIT(KIB(8)), out = BUF_INIT(KIB(4)), full = BUF_INIT(256);

	assert_int_equal(buf_puts(&target, "/?a"), 0);
	for (unsigned i = 0; i < 128; i++)
		assert_int_equal(buf_puts(&target, "&b=1"), 0);
	assert_true(sign("eu-west-1/s3", "GET", buf_str(&target), "", &out) < 0);
	assert_true(sign("eu-west-1/s3", "GET", "/", "", &full) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signatures),
		cmocka_unit_test(a_request_without_a_body_needs_no_hash),
		cmocka_unit_test(requests_that_cannot_be_signed),
		cmocka_unit_test(much_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
