/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_SCREEN_H
#define CAY_INIT_SCREEN_SCREEN_H
/*
 * screen - operations on the X screen of the sandbox, in a child that is the user
 *
 * Nothing of ours runs beside the X server, and nothing is kept between requests.  Coordinates of a
 * request are those of a picture of the whole screen, reduced to its max_width and max_height.
 */
#include "init/file/child-op.h"
#include "init/screen/keysym.h"
#include "init/screen/x-keyboard.h"

#define ACTIONS_WAIT_MAX_MS 100000 /* of all actions of a request */

/* Whether a service is starting it, or has; in a child, as it was at the fork. */
bool screen_is_starting(const struct init *in);
/* Connect to the screen; wait for one that the sandbox is starting. */
[[nodiscard]] int screen_open(const struct init *in, struct x_conn *c, struct cay_err *err);
/* What the query asks for, as PNG. */
[[nodiscard]] int screen_write_png(struct x_conn *c, const struct screen_shot_query *q,
				   struct buf *ret, struct cay_err *err);

/* Put a text on the clipboard, by a process that keeps it there. */
[[nodiscard]] int screen_copy(const struct init *in, const char *text, struct cay_err *err);

/* Everything about a request that is known before the screen is. */
[[nodiscard]] int screen_actions_check(const struct screen_act *q, struct cay_err *err);
/* Whether all coordinates lie in a picture of that size. */
[[nodiscard]] int screen_actions_check_places(const struct screen_act *q, uint32_t width,
					      uint32_t height, struct cay_err *err);

/* What carries out actions: it releases all keys, and the button of a drag, whatever happens. */
struct hand {
	struct x_conn *conn;
	struct child_op *op;    /* NULL: of the fuzzer */
	uint32_t width, height; /* of the picture that coordinates are of */
	struct x_keyboard keyboard;
	uint8_t held[X_KEYS];
	size_t n_held;
	uint8_t button; /* held by a drag, or 0 */
};

[[nodiscard]] int hand_run(struct hand *a, const struct screen_act *q, struct cay_err *err);
[[nodiscard]] int hand_pause(struct hand *a, uint64_t ms, struct cay_err *err);

/* of hand-keys.c */
[[nodiscard]] int hand_type(struct hand *a, const char *text, struct cay_err *err);
[[nodiscard]] int hand_press(struct hand *a, const struct key_combination *k, struct cay_err *err);
[[nodiscard]] int hand_release(struct hand *a, struct cay_err *err);
#endif
