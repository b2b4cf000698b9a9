/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_X_SCREEN_H
#define CAY_INIT_SCREEN_X_SCREEN_H
/* x-screen - what an X server shows, and the events of mouse and keys it is given */
#include "base/arena.h"
#include "init/screen/picture.h"
#include "init/screen/x-conn.h"
#include "ops/types.h"

#define X_WINDOWS_MAX 64

struct x_region {
	uint32_t x, y, width, height;
};

/* The region's pixels; it must be within the screen. */
[[nodiscard]] int x_read_pixels(struct x_conn *c, const struct x_region *at, struct picture *ret,
				struct cay_err *err);
/* Draw the cursor into a picture of that region; without XFIXES there is none. */
[[nodiscard]] int x_draw_cursor(struct x_conn *c, const struct x_region *at, struct picture *p,
				struct cay_err *err);
[[nodiscard]] int x_read_cursor_place(struct x_conn *c, uint32_t *ret_x, uint32_t *ret_y,
				      struct cay_err *err);
/* As the window manager lists them, oldest first; texts are in the arena. */
[[nodiscard]] int x_list_windows(struct x_conn *c, struct arena *arena, struct field_list *ret,
				 struct cay_err *err);

/* Ask the window manager to activate a window of that list, and wait until it has. */
[[nodiscard]] int x_focus_window(struct x_conn *c, uint32_t window, struct cay_err *err);
/* Ask it to close one, as its close button does: the program may ask its user first. */
[[nodiscard]] int x_close_window(struct x_conn *c, uint32_t window, struct cay_err *err);

/* From here on the server reports what it draws; without DAMAGE nothing happens. */
[[nodiscard]] int x_watch_drawing(struct x_conn *c, struct cay_err *err);
/* Wait until nothing larger than a text cursor was drawn for quiet_ms, for max_ms at most. */
[[nodiscard]] int x_wait_until_still(struct x_conn *c, uint64_t quiet_ms, uint64_t max_ms,
				     struct cay_err *err);

enum x_input { X_KEY_DOWN = 2, X_KEY_UP, X_BUTTON_DOWN, X_BUTTON_UP, X_MOTION };
/* detail: keycode or button; the place is that of a motion. */
[[nodiscard]] int x_fake_input(struct x_conn *c, enum x_input what, uint8_t detail, uint32_t x,
			       uint32_t y, struct cay_err *err);
#endif
