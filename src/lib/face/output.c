/* SPDX-License-Identifier: Apache-2.0 */
#include "face/output.h"

#include <stdio.h>

#define TEXT_MAX MIB(8)

json_t *face_text(struct slice bytes)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	int r = 0;

	if (utf8_is_valid(bytes.p, bytes.n))
		return json_stringn_nocheck(bytes.p, bytes.n);
	while (bytes.n && r >= 0) {
		size_t n = utf8_len(bytes.p, bytes.n);

		r = n ? buf_append(&text, bytes.p, n) : buf_puts(&text, "\xef\xbf\xbd");
		n += n == 0;
		bytes = (struct slice){ bytes.p + n, bytes.n - n };
	}
	return r < 0 ? NULL : json_stringn_nocheck(buf_str(&text), text.len);
}

size_t face_format_gap(const struct frame_reader_item *gap, char ret[static FACE_GAP_MAX])
{
	int n = snprintf(ret, FACE_GAP_MAX, "%llu bytes of %s were lost\n",
			 (unsigned long long)gap->lost, frame_stream_name(gap->stream));

	return n > 0 && n < FACE_GAP_MAX ? (size_t)n : 0;
}
