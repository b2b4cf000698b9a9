/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_BROWSER_BROWSER_H
#define CAY_INIT_BROWSER_BROWSER_H
/*
 * browser - operations on the browser of the sandbox, in a child that is the user
 *
 * The browser is the service `browser` of the image.  The first browser.act or browser.cdp starts
 * it.  Each request connects to it, does its actions and leaves; what lasts is in the browser.
 */
#include "init/browser/tab.h"
#include "init/file/child-op.h"
#include "ops/types.h"

#define BROWSER_KEYS_MAX 16 /* combinations of one action */

/* Modifiers, as DevTools has them. */
enum { MODIFIER_ALT = 1, MODIFIER_CTRL = 2, MODIFIER_META = 4, MODIFIER_SHIFT = 8 };

struct browser_key {
	unsigned modifiers;
	const char *name, *code; /* as pages see them; name NULL: only modifiers */
	unsigned number;         /* of the key, as Windows has it */
	const char *text;        /* what it types; NULL: nothing */
	char name_room[8], code_room[8], text_room[8];
};

/* Combinations such as ctrl+a or Enter, with spaces between them. */
[[nodiscard]] int browser_keys_parse(const char *text, struct browser_key *ret, size_t *n,
				     struct cay_err *err);
/* Whether it is a reference as snapshots have them. */
bool browser_ref_is_valid(const char *ref);
/* Everything about a request that is known before the page is. */
[[nodiscard]] int browser_actions_check(const struct browser_act *q, struct cay_err *err);

[[nodiscard]] int browser_shot_check(const struct browser_shot_query *q, struct cay_err *err);

/* What carries out actions. */
struct browser_hand {
	struct tab *tab;
	struct child_op *op; /* NULL: of the fuzzer */
	const char *id;      /* of the tab to attach to, NULL: the one last used */
	size_t value_bytes;  /* of scripts, so far */
	bool attached;       /* the first action that needs a page attaches */
};

[[nodiscard]] int browser_do(struct browser_hand *h, const struct browser_action *a,
			     struct browser_result *ret, struct cay_err *err);
/* Ask the page for a snapshot; texts are in the arena of the tab. */
[[nodiscard]] int browser_read_page(struct tab *t, unsigned filter, const char *ref,
				    uint64_t max_chars, struct browser_snapshot *ret,
				    struct cay_err *err);
/* A picture of what the tab shows, of a region of it, or of the whole page: base64, in the arena of
 * the tab.  q: NULL, or one that browser_shot_check() accepts. */
[[nodiscard]] int browser_take_picture(struct tab *t, const struct browser_shot_query *q,
				       struct slice *ret, struct cay_err *err);
/* The page as PDF, in the same form. */
[[nodiscard]] int browser_print(struct tab *t, struct slice *ret, struct cay_err *err);
/* Let the page work meanwhile. */
[[nodiscard]] int browser_pause(struct browser_hand *h, uint64_t ms, struct cay_err *err);
/* of browser-input.c */
[[nodiscard]] int browser_type(struct browser_hand *h, const char *text, struct cay_err *err);
[[nodiscard]] int browser_press(struct browser_hand *h, const struct browser_action *a,
				struct cay_err *err);
[[nodiscard]] int browser_insert(struct browser_hand *h, const char *text, struct cay_err *err);
/* Where a mouse action happens: at the coordinates, or at a point of the element. */
struct browser_place {
	double x, y;
};
[[nodiscard]] int browser_click(struct browser_hand *h, const struct browser_action *a,
				struct browser_place at, struct cay_err *err);
[[nodiscard]] int browser_hover(struct browser_hand *h, struct browser_place at,
				struct cay_err *err);
[[nodiscard]] int browser_drag(struct browser_hand *h, struct browser_place from,
			       struct browser_place to, struct cay_err *err);
[[nodiscard]] int browser_scroll(struct browser_hand *h, const struct browser_action *a,
				 struct browser_place at, struct cay_err *err);
#endif
