/* SPDX-License-Identifier: Apache-2.0 */
/* A text and edits of it, separated by 0xFF; an edit is a kind (r, a, i and its line), the old
 * text, 0xFE and the new.  The result is what a model makes that copies byte by byte. */
#include "file/edit.h"
#include "fuzz.h"

#define TEXT_MAX KIB(16)

static size_t times(const struct buf *b, struct slice what)
{
	size_t n = 0;

	for (size_t i = 0; i + what.n <= b->len; i++)
		n += memcmp(b->data + i, what.p, what.n) == 0;
	return n;
}

static int model_replace(struct buf *b, const struct edit *e)
{
	struct buf made = BUF_INIT(TEXT_MAX);
	size_t n = e->old.n && !slice_eq(e->old, e->text) ? times(b, e->old) : 0;
	int r = !n || (e->kind == EDIT_REPLACE && n != 1) ? -1 : 0;

	for (size_t i = 0; r == 0 && i < b->len;) {
		bool here = i + e->old.n <= b->len && memcmp(b->data + i, e->old.p, e->old.n) == 0;

		if (here)
			r = e->text.n ? buf_append(&made, e->text.p, e->text.n) : 0;
		else
			r = buf_putc(&made, b->data[i]);
		i += here ? e->old.n : 1;
	}
	buf_fini(b);
	*b = made;
	return r;
}

/* Lines of an insert: as many as were there and the new ones, none of them joined. */
static size_t lines(struct slice s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == '\n' || i + 1 == s.n;
	return n;
}

static bool parse(struct slice s, struct edit *ret)
{
	struct slice old;

	if (!s.n || !strchr("rai", s.p[0]))
		return false;
	ret->kind = s.p[0] == 'r' ? EDIT_REPLACE : s.p[0] == 'a' ? EDIT_REPLACE_ALL : EDIT_INSERT;
	s.p++;
	s.n--;
	if (ret->kind == EDIT_INSERT) {
		if (!s.n)
			return false;
		ret->line = (unsigned char)s.p[0];
		ret->text = (struct slice){ s.p + 1, s.n - 1 };
		return true;
	}
	old = slice_cut(&s, '\xfe');
	ret->old = old;
	ret->text = s;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size };
	struct slice text = slice_cut(&rest, '\xff');
	struct edit edits[8] = {};
	struct buf is = BUF_INIT(TEXT_MAX), model = BUF_INIT(TEXT_MAX);
	struct cay_err err = {};
	bool inserts = false;
	uint64_t count;
	size_t n = 0;
	int r, m = text.n ? buf_append(&model, text.p, text.n) : 0;

	while (n < 8 && rest.p && parse(slice_cut(&rest, '\xff'), &edits[n]))
		inserts = inserts || edits[n++].kind == EDIT_INSERT;
	r = edit_apply(text, edits, n, &is, &count, &err);
	CHECK((r < 0) == (err.code != CAY_OK));
	if (n == 1 && inserts && r == 0)
		CHECK(lines((struct slice){ buf_str(&is), is.len }) ==
		      lines(text) + lines(edits[0].text));
	if (!n || inserts || m < 0)
		goto out;
	for (size_t i = 0; m == 0 && i < n; i++)
		m = model_replace(&model, &edits[i]);
	CHECK((r < 0) == (m < 0));
	if (r == 0)
		CHECK(slice_eq((struct slice){ buf_str(&is), is.len },
			       (struct slice){ buf_str(&model), model.len }));
out:
	buf_fini(&is);
	buf_fini(&model);
	free(in);
	return 0;
}
