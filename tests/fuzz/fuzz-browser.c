/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a browser sends: its tabs, a page's snapshot, actions and a picture end, within memory.
 * The first byte says what is asked; port files, escapes and names of keys are read from the rest.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "init/browser/browser.h"

static void ask_page(struct tab *t, unsigned what)
{
	struct browser_hand h = { .tab = t, .attached = true };
	struct browser_action actions[] = {
		{ .type = BROWSER_CLICK, .ref = "ref_1" },
		{ .type = BROWSER_FILL, .ref = "ref_1", .text = "a", .has_text = true },
		{ .type = BROWSER_NAVIGATE, .url = "https://shop.example/" },
		{ .type = BROWSER_UPLOAD, .ref = "ref_1" },
		{ .type = BROWSER_EVALUATE, .script = "1" },
		{ .type = BROWSER_BACK },
	};
	const struct browser_shot_query whole = { .full = true },
					region = { .x = 1, .width = 9, .height = 9 };
	struct browser_result result = {};
	struct browser_snapshot snapshot = {};
	struct slice png = {};
	struct cay_err err = {};

	if (tab_attach(t, "A1", &err) < 0)
		return;
	if (what < ARRAY_SIZE(actions)) {
		(void)!browser_do(&h, &actions[what], &result, &err);
	} else if (what == ARRAY_SIZE(actions)) {
		(void)!browser_take_picture(t, &whole, &png, &err);
	} else if (what == ARRAY_SIZE(actions) + 1) {
		(void)!browser_take_picture(t, &region, &png, &err);
	} else if (browser_read_page(t, BROWSER_ALL, NULL, 100, &snapshot, &err) >= 0) {
		CHECK(utf8_is_valid(snapshot.text, strlen(snapshot.text)));
		CHECK(utf8_is_valid(snapshot.url, strlen(snapshot.url)));
	}
	CHECK(t->n_changes <= TAB_CHANGES_MAX);
}

static void read_texts(const uint8_t *data, size_t size)
{
	struct browser_key keys[BROWSER_KEYS_MAX];
	char path[DEVTOOLS_PATH_MAX];
	auto_buf text = BUF_INIT(MIB(1));
	auto_json j = NULL;
	struct cay_err err = {};
	uint16_t port;
	size_t n;

	if (devtools_parse_port_file((struct slice){ (const char *)data, size }, &port, path) >= 0)
		CHECK(port && path[0] == '/' && strlen(path) < sizeof(path));
	if (buf_append(&text, data, size) < 0)
		return;
	if (text.len && browser_keys_parse(text.data, keys, &n, &err) >= 0)
		CHECK(n && n <= BROWSER_KEYS_MAX);
	if (text.len)
		(void)!cdp_parse(text.data, text.len, &j, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_arena arena = ARENA_INIT(MIB(16));
	int in = memfd_create("browser", MFD_CLOEXEC);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct field_list tabs = {};
	struct cay_err err = {};
	auto_tab t;

	tab_init(&t, &arena);
	CHECK(in >= 0 && null >= 0);
	t.devtools.in = in;
	t.devtools.out = null;
	devtools_set_deadline(&t.devtools, 1000);
	if (size) {
		read_texts(data + 1, size - 1);
		CHECK(write(in, data + 1, size - 1) == (ssize_t)size - 1 &&
		      lseek(in, 0, SEEK_SET) == 0);
		if (data[0] % 10 == 9 && tabs_read(&t.devtools, &arena, &tabs, &err) >= 0)
			CHECK(tabs.n <= TABS_MAX);
		if (data[0] % 10 < 9)
			ask_page(&t, data[0] % 11);
	}
	CHECK(close(null) == 0);
	return 0;
}
