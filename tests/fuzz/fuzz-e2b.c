/* SPDX-License-Identifier: Apache-2.0 */
/* What cay-e2b decodes besides JSON: a form and a stream of events, which are the same however they
 * are cut; an envelope; pairs of metadata, which survive the way to labels and back. */
#include "e2b/envelope.h"
#include "e2b/metadata.h"
#include "e2b/network.h"
#include "e2b/sse.h"
#include "fuzz.h"
#include "http/multipart.h"
#include "text/json.h"

/* Everything that the form has, as one text; negative: refused. */
static int form_read(const char *in, size_t size, size_t step, struct buf *ret)
{
	struct multipart m;
	struct cay_err err = {};
	int r = multipart_init(&m, SLICE("multipart/form-data; boundary=b"), &err);
	size_t at = 0;

	CHECK(r >= 0);
	while (r >= 0 && at < size) {
		size_t n = size - at < step ? size - at : step;
		struct slice piece = { in + at, n }, data = {};

		while ((r = multipart_next(&m, &piece, &data, &err)) > MULTIPART_MORE) {
			if (r == MULTIPART_PART)
				CHECK(buf_printf(ret, "<%s|%s>", m.name, m.file) >= 0);
			else if (r == MULTIPART_DATA)
				CHECK(data.n && buf_append(ret, data.p, data.n) >= 0);
			else
				CHECK(buf_putc(ret, '.') >= 0);
		}
		CHECK(r < 0 || !piece.n);
		at += n;
	}
	CHECK((r < 0) == (err.code != CAY_OK));
	if (r >= 0 && multipart_is_complete(&m))
		r = 1;
	multipart_fini(&m);
	return r;
}

static void check_form(const char *in, size_t size)
{
	auto_buf whole = BUF_INIT(MIB(8)), cut = BUF_INIT(MIB(8));
	int a = form_read(in, size, size + 1, &whole), b = form_read(in, size, 1, &cut);

	CHECK((a < 0) == (b < 0));
	if (a >= 0)
		CHECK(a == b);
	/* what was read before a boundary is refused may be more in one of them */
	if (a == 1)
		CHECK(whole.len == cut.len &&
		      (!whole.len || memcmp(whole.data, cut.data, whole.len) == 0));
}

static void events_read(const char *in, size_t size, size_t step, struct buf *ret)
{
	struct cay_err err = {};
	struct sse s;
	int r = 0;

	sse_init(&s);
	for (size_t at = 0; at < size && r >= 0; at += step) {
		struct slice piece = { in + at, size - at < step ? size - at : step }, data = {};

		while ((r = sse_next(&s, &piece, &data, &err)) > 0)
			CHECK(buf_putc(ret, '[') >= 0 && buf_append(ret, data.p, data.n) >= 0);
	}
	sse_fini(&s);
}

static void check_events(const char *in, size_t size)
{
	auto_buf whole = BUF_INIT(MIB(8)), cut = BUF_INIT(MIB(8));

	events_read(in, size, size + 1, &whole);
	events_read(in, size, 1, &cut);
	CHECK(whole.len == cut.len && (!whole.len || memcmp(whole.data, cut.data, whole.len) == 0));
}

/* A policy never allows more than what is listed. */
static void check_network(const char *in, size_t size)
{
	json_t *network = NULL, *policy = NULL;
	struct cay_err err = {};

	if (json_parse((struct slice){ in, size }, &json_control_limits, &network, &err) < 0)
		return;
	err = (struct cay_err){};
	if (network_to_egress(network, NULL, &policy, &err) >= 0 && policy)
		CHECK(!json_object_size(policy) ||
		      json_text_eq(json_object_get(policy, "default"), "deny"));
	json_decref(policy);
	json_decref(network);
}

static bool utf8_is_text(const char *s)
{
	json_t *j = json_string(s);
	bool good = j;

	json_decref(j);
	return good;
}

static void check_pair(const char *in, size_t size)
{
	const char *cut = memchr(in, '=', size);
	json_t *labels = json_object(), *back;
	char *key, *value;
	struct cay_err err = {};

	if (!cut)
		cut = in + size;
	key = strndup(in, (size_t)(cut - in));
	value = strndup(cut, size - (size_t)(cut - in));
	CHECK(labels && key && value);
	/* JSON has UTF-8 only: what is not, cannot come */
	if (utf8_is_text(key) && utf8_is_text(value) &&
	    metadata_add_label(key, value, labels, &err) >= 0) {
		back = metadata_from_labels(labels);
		CHECK(back && json_object_size(back) == 1 &&
		      json_text_eq(json_object_get(back, key), value));
		json_decref(back);
	}
	json_decref(labels);
	free(key);
	free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	auto_buf selector = BUF_INIT(KIB(4));
	struct cay_err err = {};
	struct slice message;
	uint8_t head[ENVELOPE_HEAD];

	check_form(in, size);
	check_events(in, size);
	check_network(in, size);
	if (envelope_open((struct slice){ in, size }, &message, &err) >= 0) {
		envelope_head(0, message.n, head);
		CHECK(memcmp(head, in, sizeof(head)) == 0);
	}
	check_pair(in, size);
	if (!memchr(in, 0, size)) {
		char *text = strndup(in, size);

		CHECK(text);
		err = (struct cay_err){};
		CHECK((metadata_add_query(text, &selector, &err) < 0) == (err.code != CAY_OK));
		free(text);
	}
	free(in);
	return 0;
}
