/* SPDX-License-Identifier: Apache-2.0 */
/* What cay-opensandbox decodes besides JSON and forms: output is the same lines however it is cut;
 * times, filters, queries and modes are refused or valid; a pattern ends. */
#include "fuzz.h"
#include "opensandbox/output-lines.h"
#include "opensandbox/translate.h"

/* Lines as one text, each between '<' and '>'. */
static void lines_read(const char *in, size_t size, size_t step, struct buf *ret)
{
	struct output_lines l = output_lines_create();
	struct slice line;

	for (size_t at = 0; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;
		struct slice piece = { in + at, n };
		int r;

		while ((r = output_lines_next(&l, &piece, &line)) > 0) {
			CHECK(line.n <= OUTPUT_LINES_MAX && !memchr(line.p, '\n', line.n) &&
			      !memchr(line.p, '\r', line.n));
			CHECK(buf_putc(ret, '<') >= 0 && buf_append(ret, line.p, line.n) >= 0 &&
			      buf_putc(ret, '>') >= 0);
		}
		CHECK(r == 0 && !piece.n);
	}
	if (output_lines_last(&l, &line))
		CHECK(buf_append(ret, line.p, line.n) >= 0);
	CHECK(!output_lines_last(&l, &line));
	output_lines_fini(&l);
}

static void check_lines(const char *in, size_t size)
{
	auto_buf whole = BUF_INIT(MIB(8)), cut = BUF_INIT(MIB(8));

	lines_read(in, size, size + 1, &whole);
	lines_read(in, size, 1, &cut);
	CHECK(whole.len == cut.len && (!whole.len || memcmp(whole.data, cut.data, cut.len) == 0));
}

static void check_query(const char *in, size_t size)
{
	char *out = malloc(size + 1);

	CHECK(out);
	if (translate_query(in, size, out) >= 0)
		CHECK(strlen(out) <= size);
	free(out);
}

static void check_mode(const char *in, size_t size)
{
	char text[TRANSLATE_MODE_TEXT];
	int64_t digits = 0;

	memcpy(&digits, in, size < sizeof(digits) ? size : sizeof(digits));
	if (translate_mode(digits, text) >= 0)
		CHECK(strlen(text) == 4 && strspn(text, "01234567") == 4);
}

/* Of a pattern and a name, which a line end divides. */
static void check_pattern(char *text)
{
	char *name = strchr(text, '\n');

	if (!name)
		return;
	*name++ = 0;
	if (strlen(text) > TRANSLATE_PATTERN_MAX || strlen(name) > 255)
		return;
	if (!strpbrk(text, "*?[\\"))
		CHECK(translate_name_matches(text, name) == (strcmp(text, name) == 0));
	else
		(void)translate_name_matches(text, name);
	CHECK(translate_name_matches("*", name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size), *text;
	auto_buf selector = BUF_INIT(KIB(1));
	struct cay_err err = {};
	uint64_t ns;

	check_lines(in, size);
	check_query(in, size);
	check_mode(in, size);
	(void)translate_time((struct slice){ in, size }, &ns);
	text = strndup(in, size);
	CHECK(text);
	CHECK((translate_filter(text, &selector, &err) < 0) == (err.code != CAY_OK));
	check_pattern(text);
	free(text);
	free(in);
	return 0;
}
