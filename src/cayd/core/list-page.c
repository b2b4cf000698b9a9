/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/list-page.h"

void list_page_begin(struct list_page *p, const char *list)
{
	*p = (struct list_page){ .body = BUF_INIT(SERVER_OUT_MAX - KIB(4)) };
	p->w = jw_to(&p->body);
	jw_object_begin(&p->w, NULL);
	jw_array_begin(&p->w, list);
}

/* Keep the row that was written after `before`, unless the page is too long with it. */
static bool list_page_keep_row(struct list_page *p, const struct jw *before, size_t len)
{
	if (p->rows && (p->body.len > PAGE_BYTES || p->w.err == -ENOBUFS)) {
		p->body.len = len;
		p->w = *before;
		return false;
	}
	p->rows++;
	return true;
}

bool list_page_add(struct list_page *p, const struct field_table *t, const void *row)
{
	struct jw before = p->w;
	size_t len = p->body.len;

	field_encode(t, NULL, row, &p->w);
	return list_page_keep_row(p, &before, len);
}

bool list_page_add_text(struct list_page *p, struct slice json)
{
	struct jw before = p->w;
	size_t len = p->body.len;

	jw_json(&p->w, NULL, json);
	return list_page_keep_row(p, &before, len);
}

void list_page_finish(struct list_page *p, const char *next_cursor)
{
	jw_end(&p->w);
	if (next_cursor)
		jw_str(&p->w, "next_cursor", next_cursor);
	jw_end(&p->w);
}

void list_page_reply(struct list_page *p, struct request *rq)
{
	int r = jw_finish(&p->w);

	if (r >= 0)
		r = buf_putc(&p->body, '\n');
	if (r >= 0)
		request_reply(rq, rq->match.op->status, "application/json", &p->body);
	else
		request_failf(rq, r == -ENOMEM ? CAY_E_NO_MEMORY : CAY_E_INTERNAL,
			      "cannot write the reply");
	buf_fini(&p->body);
}
