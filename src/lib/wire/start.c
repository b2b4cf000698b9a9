/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/start.h"

#include <errno.h>

#include "base/endian.h"

#define MAGIC UINT32_C(0x53594143) /* "CAYS" */
#define SCRIPT_AT 8
#define TEXT_AT 128
#define SIGNAL_MAX 64
static_assert(TEXT_AT - SCRIPT_AT == START_SCRIPT_MAX + 1);
static_assert(START_SIZE - TEXT_AT == START_TEXT_MAX + 1);

static bool start_char_is_control(const char *p, size_t n)
{
	/* C0, DEL and, in two bytes, C1 */
	return (unsigned char)p[0] < 0x20 || p[0] == 0x7f ||
	       (n == 2 && (unsigned char)p[0] == 0xc2 && (unsigned char)p[1] < 0xa0);
}

void start_failure_set_text(char *to, size_t max, struct slice text)
{
	size_t n = 0;

	while (text.n && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == ' '))
		text.n--;
	if (text.n > max) {
		text.p += text.n - max;
		text.n = max;
		/* not from the middle of a letter */
		while (text.n && (text.p[0] & 0xc0) == 0x80) {
			text.p++;
			text.n--;
		}
	}
	while (text.n) {
		size_t len = utf8_len(text.p, text.n), step = len ? len : 1;

		if (len && !start_char_is_control(text.p, len))
			memcpy(to + n, text.p, len);
		else
			to[n] = len ? ' ' : '?';
		n += len && !start_char_is_control(text.p, len) ? len : 1;
		text.p += step;
		text.n -= step;
	}
	memset(to + n, 0, max + 1 - n);
}

void start_failure_encode(const struct start_failure *f, uint8_t out[static START_SIZE])
{
	le32_put(out, MAGIC);
	out[4] = f->what;
	out[5] = f->signal;
	out[6] = f->exit_code;
	out[7] = 0;
	memcpy(out + SCRIPT_AT, f->script, sizeof(f->script));
	memcpy(out + TEXT_AT, f->text, sizeof(f->text));
}

/* Clean text up to a 0, followed by zeros. */
static bool start_failure_decode_text(const uint8_t *in, char *to, size_t max)
{
	size_t n = strnlen((const char *)in, max + 1);

	if (n > max)
		return false;
	for (size_t i = n; i <= max; i++)
		if (in[i])
			return false;
	memcpy(to, in, max + 1);
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(to + i, n - i);

		if (!len || start_char_is_control(to + i, len))
			return false;
		i += len;
	}
	return true;
}

static bool start_failure_is_valid(const struct start_failure *f)
{
	if (f->what == START_NONE || f->what >= START_NUM)
		return false;
	if ((f->what == START_KILLED) != (f->signal != 0) || f->signal > SIGNAL_MAX)
		return false;
	return (f->what == START_EXITED) == (f->exit_code != 0);
}

int start_failure_decode(const uint8_t *in, size_t n, struct start_failure *ret)
{
	struct start_failure f = {};

	if (n != START_SIZE || le32_get(in) != MAGIC || in[7])
		return -EPROTO;
	f.what = in[4];
	f.signal = in[5];
	f.exit_code = in[6];
	if (!start_failure_is_valid(&f) ||
	    !start_failure_decode_text(in + SCRIPT_AT, f.script, START_SCRIPT_MAX) ||
	    !start_failure_decode_text(in + TEXT_AT, f.text, START_TEXT_MAX))
		return -EPROTO;
	*ret = f;
	return 0;
}
