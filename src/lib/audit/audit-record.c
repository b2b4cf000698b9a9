/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/evp.h>

#include "audit/audit-internal.h"
#include "base/jsonw.h"
#include "text/hex.h"
#include "text/json.h"
#include "text/time.h"

static const struct json_limits limits = { AUDIT_LINE_MAX, 1, 32 };

/* Text members in the order they are written, between time and the dropped records. */
static const struct {
	const char *name;
	size_t offset, size;
} texts[] = {
#define TEXT(m) { #m, offsetof(struct audit_record, m), sizeof(((struct audit_record *)0)->m) }
	TEXT(tenant),  TEXT(key),        TEXT(op),   TEXT(target),
	TEXT(outcome), TEXT(request_id), TEXT(peer), TEXT(detail),
#undef TEXT
};

void audit_record_set_text(char *to, size_t size, const char *text)
{
	size_t n = strnlen(text, size - 1);

	for (size_t i = 0; i < n; i++)
		to[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
	to[n] = 0;
}

int audit_line_hash(const char *line, size_t n, char ret[static AUDIT_HEX_LEN + 1])
{
	uint8_t md[AUDIT_HEX_LEN / 2];
	unsigned len = 0;

	if (EVP_Digest(line, n, md, &len, EVP_sha256(), NULL) != 1 || len != sizeof(md))
		return -EIO;
	hex_encode(md, sizeof(md), ret);
	return 0;
}

int audit_record_format(const struct audit_record *rec, struct buf *out)
{
	struct jw w = jw_to(out);
	char at[CLK_TEXT_LEN + 1];

	clk_format_rfc3339(rec->wall_ns, at);
	jw_object_begin(&w, NULL);
	jw_u64(&w, "seq", rec->seq);
	jw_str(&w, "time", at);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *text = (const char *)rec + texts[i].offset;

		if (text[0])
			jw_str(&w, texts[i].name, text);
	}
	if (rec->dropped.head[0]) {
		jw_u64(&w, "count", rec->dropped.count);
		jw_str(&w, "head", rec->dropped.head);
	}
	jw_str(&w, "prev", rec->prev);
	jw_end(&w);
	return jw_finish(&w);
}

static int audit_json_read_text(const json_t *j, const char *name, char *to, size_t size)
{
	const json_t *v = json_object_get(j, name);
	const char *text = json_string_value(v);

	if (!v)
		return 0;
	if (!text || json_string_length(v) >= size)
		return -EINVAL;
	memcpy(to, text, json_string_length(v) + 1);
	return 0;
}

static int audit_json_read_number(const json_t *j, const char *name, uint64_t *ret)
{
	const json_t *v = json_object_get(j, name);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return -EINVAL;
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int audit_json_read_hash(const json_t *j, const char *name,
				char ret[static AUDIT_HEX_LEN + 1])
{
	uint8_t md[AUDIT_HEX_LEN / 2];
	int r = audit_json_read_text(j, name, ret, AUDIT_HEX_LEN + 1);

	if (r >= 0 && ret[0])
		r = hex_decode(ret, strlen(ret), md, sizeof(md));
	return r;
}

static int audit_record_decode(const json_t *j, struct audit_record *ret)
{
	char at[CLK_TEXT_LEN + 1] = "";
	int r = audit_json_read_number(j, "seq", &ret->seq);

	if (r >= 0)
		r = audit_json_read_text(j, "time", at, sizeof(at));
	if (r >= 0)
		r = time_parse(slice_of(at), &ret->wall_ns);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(texts); i++)
		r = audit_json_read_text(j, texts[i].name, (char *)ret + texts[i].offset,
					 texts[i].size);
	if (r >= 0)
		r = audit_json_read_number(j, "count", &ret->dropped.count);
	if (r >= 0)
		r = audit_json_read_hash(j, "head", ret->dropped.head);
	if (r >= 0)
		r = audit_json_read_hash(j, "prev", ret->prev);
	return r < 0 || !ret->seq || !ret->op[0] || !ret->prev[0] ? -EINVAL : 0;
}

/* Unknown or duplicate members, another spelling or order do not round-trip, and are refused. */
int audit_record_parse(const char *line, size_t n, struct audit_record *ret)
{
	auto_buf again = BUF_INIT(AUDIT_LINE_MAX);
	auto_json j = NULL;

	*ret = (struct audit_record){};
	if (json_parse((struct slice){ line, n }, &limits, &j, NULL) < 0 || !json_is_object(j) ||
	    audit_record_decode(j, ret) < 0 || audit_record_format(ret, &again) < 0)
		return -EINVAL;
	return slice_eq((struct slice){ line, n }, (struct slice){ again.data, again.len })
		       ? 0
		       : -EINVAL;
}
