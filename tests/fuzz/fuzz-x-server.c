/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever an X server sends: a picture, the windows, typed text, the wait for its drawing and the
 * clipboard end, within memory.  The first byte says what is asked; cookies and displays are read
 * from the rest.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "init/screen/screen.h"
#include "init/screen/x-clipboard.h"

static void ask(struct x_conn *c, unsigned what)
{
	struct screen_action type = { .type = SCREEN_TYPE, .text = "aZ\n\xe6\x97\xa5\xe6\x97\xa5" };
	struct screen_action keys = { .type = SCREEN_KEY, .keys = "ctrl+Delete" };
	struct screen_action drag = { .type = SCREEN_DRAG };
	struct screen_action focus = { .type = SCREEN_FOCUS, .window = 0x61616161 };
	struct screen_action list[] = { type, keys, drag, focus };
	struct screen_act act = { .actions = { list, ARRAY_SIZE(list) } };
	struct screen_shot_query q = { .max_width = 100, .cursor = true };
	struct hand h = { .conn = c, .width = 1, .height = 1 };
	auto_buf png = BUF_INIT(PICTURE_PNG_MAX + KIB(1)), text = BUF_INIT(X_CLIPBOARD_MAX + 1);
	struct x_clipboard clipboard;
	auto_arena arena = ARENA_INIT(MIB(1));
	struct field_list windows;
	struct cay_err err = {};

	if ((uint32_t)c->width * c->height > 1 << 16)
		return; /* slow, and not different */
	if (what == 0 && screen_write_png(c, &q, &png, &err) >= 0)
		CHECK(png.len > 50);
	if (what == 1 && x_list_windows(c, &arena, &windows, &err) >= 0)
		CHECK(windows.n <= X_WINDOWS_MAX);
	if (what == 2)
		(void)hand_run(&h, &act, &err);
	if (what == 3 && x_watch_drawing(c, &err) >= 0)
		(void)x_wait_until_still(c, 1, 2, &err);
	if (what == 4 && x_read_clipboard(c, &text, &err) >= 0)
		CHECK(utf8_is_valid(buf_str(&text), text.len) &&
		      strlen(buf_str(&text)) == text.len);
	if (what == 5 && x_own_clipboard(c, &clipboard, &err) >= 0)
		x_serve_clipboard(c, &clipboard, SLICE("copied"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_x_conn c = X_CONN_INIT;
	auto_close int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct slice cookie;
	struct cay_err err = {};

	if (!size)
		return 0;
	cookie = x_authority_find((struct slice){ (const char *)data, size }, data[0]);
	CHECK(cookie.n <= size);
	c.in = memfd_create("x", MFD_CLOEXEC);
	CHECK(c.in >= 0 && null >= 0);
	CHECK(write(c.in, data + 1, size - 1) == (ssize_t)size - 1 &&
	      lseek(c.in, 0, SEEK_SET) == 0);
	c.out = null;
	if (x_conn_greet(&c, cookie, &err) >= 0)
		ask(&c, data[0] % 6);
	return 0;
}
