/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/profiles/profile-output.h"

#include <inttypes.h>

#include "text/base64.h"

/* Counting characters or lines needs the output after the cut.  Two streams of JSON escapes
 * fit TOOL_RUN_ANSWER_MAX. */
#define COUNTED_MAX KIB(512)

static const struct profile_limits *output_limits(const struct tool_run *run)
{
	return &profile_limits[run->tool->profile];
}

static size_t output_stream_max(const struct tool_run *run, const char *stream)
{
	const struct profile_limits *limits = output_limits(run);

	return str_eq(stream, "stdout") ? limits->stdout_max : limits->stderr_max;
}

struct output_query output_query_of(const struct tool_run *run)
{
	const struct profile_limits *limits = output_limits(run);

	if (limits->cut == CUT_CHARS || limits->cut == CUT_LINES)
		return (struct output_query){ COUNTED_MAX, "head" };
	return (struct output_query){ limits->stdout_max, "both" };
}

/* A part of a stream as text; what: "" or "_tail", what_b64: the same if it is not UTF-8. */
static int output_add_part(const json_t *answer, const char *stream, const char *what,
			   const char *what_b64, struct buf *out)
{
	struct slice text = json_stream_text(answer, stream, what);
	struct slice base64 = json_stream_text(answer, stream, what_b64);
	auto_free uint8_t *raw = NULL;
	size_t n = 0;

	if (text.n || !base64.n)
		return text_append_utf8(text, out);
	raw = malloc(BASE64_BYTES(base64.n) + 1);
	if (!raw)
		return -ENOMEM;
	if (base64_decode(base64.p, base64.n, raw, &n) < 0)
		return 0; /* the sandbox sent something else */
	return text_append_utf8((struct slice){ (const char *)raw, n }, out);
}

/* What a reply has of a stream, and how many bytes it leaves out. */
struct output_parts {
	struct buf head, tail;
	uint64_t cut;
};
#define auto_parts CAY_CLEANUP(output_parts_fini) struct output_parts
/* a byte that is not UTF-8 becomes three */
#define OUTPUT_PARTS_INIT \
	{ BUF_INIT(3 * TOOL_RUN_ANSWER_MAX), BUF_INIT(3 * TOOL_RUN_ANSWER_MAX), 0 }

static void output_parts_fini(struct output_parts *p)
{
	buf_fini(&p->head);
	buf_fini(&p->tail);
}

static int output_parts_read(const json_t *answer, const char *stream, struct output_parts *p)
{
	uint64_t from = json_stream_number(answer, stream, "_offset");
	uint64_t cut_at = json_stream_number(answer, stream, "_cut_offset");
	int r = output_add_part(answer, stream, "", "_b64", &p->head);

	if (r >= 0)
		r = output_add_part(answer, stream, "_tail", "_tail_b64", &p->tail);
	p->cut = json_stream_number(answer, stream, "_cut_bytes");
	/* its beginning is lost: what there is comes after the cut */
	if (p->cut && cut_at < from && !p->tail.len) {
		struct buf none = p->tail;

		p->tail = p->head;
		p->head = none;
	}
	return r;
}

/* The longest end of at most `max` bytes that begins with a character. */
static size_t text_end_start(const struct buf *b, size_t max)
{
	size_t at = b->len > max ? b->len - max : 0;

	while (at < b->len && ((unsigned char)b->data[at] & 0xc0) == 0x80)
		at++;
	return at;
}

/* SandboxHub strips line ends before it counts. */
static void text_strip_line_ends(struct buf *b)
{
	while (b->len && b->data[b->len - 1] == '\n')
		buf_truncate(b, b->len - 1);
}

/* Head and tail of `max` bytes together. */
static int output_add_halves(const struct tool_run *run, struct output_parts *p, size_t max,
			     struct buf *out)
{
	bool whole = !p->cut && !p->tail.len && p->head.len <= max;
	const struct buf *end = p->tail.len ? &p->tail : &p->head;
	size_t head = p->head.len, from;
	int r;

	if (whole)
		return buf_append(out, buf_str(&p->head), p->head.len);
	if (head > max / 2)
		head = utf8_whole_prefix_len(p->head.data, max / 2);
	from = text_end_start(end, max / 2);
	if (end == &p->head && from < head)
		from = head; /* nothing came after the cut */
	p->cut += end == &p->head ? from - head : from + p->head.len - head;
	r = buf_append(out, buf_str(&p->head), head);
	if (r >= 0 && output_limits(run)->cut == CUT_HALVES)
		r = buf_printf(out, "\n[...%" PRIu64 " bytes 已省略...]\n", p->cut);
	else if (r >= 0)
		r = buf_printf(out,
			       "\n[... %" PRIu64
			       " bytes omitted; write output to a file to read all of it ...]\n",
			       p->cut);
	return r < 0 ? r : buf_append(out, buf_str(end) + from, end->len - from);
}

/* How many characters it has, and where the first `max` of them end. */
static size_t text_count_chars(const struct buf *b, size_t max, size_t *ret_end)
{
	size_t n = 0;

	*ret_end = b->len;
	for (size_t i = 0; i < b->len; i++) {
		if (((unsigned char)b->data[i] & 0xc0) == 0x80)
			continue;
		if (n++ == max)
			*ret_end = i;
	}
	return n;
}

/* The first `max` characters.  A byte that is not in the reply counts as a character. */
static int output_add_chars(const struct output_parts *p, size_t max, struct buf *out)
{
	size_t end, n = text_count_chars(&p->head, max, &end);
	int r = buf_append(out, buf_str(&p->head), end);

	if (r < 0 || (n <= max && !p->cut))
		return r;
	return buf_printf(out, "\n\n... [truncated — %" PRIu64 " chars total, showing first %zu]",
			  n + p->cut, n < max ? n : max);
}

int output_add_stream(const struct tool_run *run, const char *stream, struct buf *out)
{
	const struct profile_limits *limits = output_limits(run);
	size_t max = output_stream_max(run, stream);
	auto_parts p = OUTPUT_PARTS_INIT;
	int r = output_parts_read(run->answer.json, stream, &p);

	if (r >= 0 && limits->cut == CUT_HALVES)
		text_strip_line_ends(p.tail.len ? &p.tail : &p.head);
	if (r < 0)
		return r;
	return limits->cut == CUT_CHARS ? output_add_chars(&p, max, out)
					: output_add_halves(run, &p, max, out);
}

json_t *output_stream_json(const struct tool_run *run, const char *stream)
{
	auto_buf text = BUF_INIT(OUTPUT_TEXT_MAX);

	if (output_add_stream(run, stream, &text) < 0)
		return NULL;
	return json_stringn(buf_str(&text), text.len);
}

json_t *output_text_json(struct slice text, size_t max)
{
	auto_buf cut = BUF_INIT(OUTPUT_TEXT_MAX);
	auto_parts p = OUTPUT_PARTS_INIT;

	if (text_append_utf8(text, &p.head) < 0 || output_add_chars(&p, max, &cut) < 0)
		return NULL;
	return json_stringn(buf_str(&cut), cut.len);
}

/* Lines that end in at most `bytes` bytes: how many, and where the last one ends. */
static uint64_t text_count_lines(const struct buf *b, uint64_t lines, size_t bytes, size_t *ret_end)
{
	uint64_t n = 0;

	*ret_end = 0;
	for (size_t at = 0; at < b->len && n < lines; n++) {
		const char *nl = memchr(b->data + at, '\n', b->len - at);
		size_t end = nl ? (size_t)(nl - b->data) : b->len;

		if (end + 1 > bytes)
			break;
		*ret_end = end;
		at = end + 1;
	}
	return n;
}

int output_add_lines(const struct tool_run *run, struct buf *out)
{
	const struct profile_limits *limits = output_limits(run);
	auto_parts p = OUTPUT_PARTS_INIT, err = OUTPUT_PARTS_INIT;
	uint64_t total, shown, cut;
	size_t end, all, chars_end;
	int r = output_parts_read(run->answer.json, "stdout", &p);

	if (r >= 0)
		r = output_parts_read(run->answer.json, "stderr", &err);
	if (r >= 0)
		r = buf_append(&p.head, buf_str(&err.head), err.head.len);
	if (r < 0)
		return r;
	cut = p.cut + err.cut;
	total = text_count_lines(&p.head, UINT64_MAX, SIZE_MAX, &all);
	shown = text_count_lines(&p.head, limits->lines_max, limits->stdout_max, &end);
	if (!cut && shown == total)
		end = p.head.len;
	else if (!end) /* one long line */
		end = utf8_whole_prefix_len(buf_str(&p.head), p.head.len < limits->stdout_max
								      ? p.head.len
								      : limits->stdout_max);
	r = buf_append(out, buf_str(&p.head), end);
	if (r >= 0 && (cut || shown < total))
		r = buf_printf(out,
			       "\n\n...%s%" PRIu64 " lines (%" PRIu64
			       " bytes) truncated...\n\nUse Grep to search the full content or "
			       "Read with offset/limit to view specific sections.",
			       cut ? "more than " : "", total - shown, p.head.len - end + cut);
	if (r < 0 || text_count_chars(out, limits->chars_max, &chars_end) <= limits->chars_max)
		return r;
	buf_truncate(out, chars_end);
	return buf_puts(out, "\n... (output truncated)");
}
