/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the input makes us write is JSON that jansson reads. */
#include <jansson.h>

#include "base/jsonw.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	auto_buf b = BUF_INIT(MIB(1));
	struct jw w = jw_to(&b);
	json_t *j;

	jw_array_begin(&w, NULL);
	for (size_t i = 0; i < size; i++) {
		bool object = w.open[w.depth - 1] == '{';
		char key[24];
		size_t left = size - i;

		CHECK(snprintf(key, sizeof(key), "k%zu", i) > 0);
		switch (in[i] & 7) {
		case 0:
			if (w.depth < JW_DEPTH_MAX)
				jw_object_begin(&w, object ? key : NULL);
			break;
		case 1:
			if (w.depth < JW_DEPTH_MAX)
				jw_array_begin(&w, object ? key : NULL);
			break;
		case 2:
			if (w.depth > 1)
				jw_end(&w);
			break;
		case 3:
			jw_i64(&w, object ? key : NULL, (int64_t)(i * 0x9E3779B97F4A7C15));
			break;
		case 4:
			jw_bool(&w, object ? key : NULL, i & 1);
			break;
		default:
			left = left > 16 ? 16 : left;
			jw_slice(&w, object ? key : NULL, (struct slice){ in + i, left });
			i += left - 1;
			break;
		}
	}
	while (w.depth)
		jw_end(&w);
	if (jw_finish(&w) == 0) {
		CHECK(utf8_is_valid(b.data, b.len));
		j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
		CHECK(j);
		json_decref(j);
	}
	free(in);
	return 0;
}
