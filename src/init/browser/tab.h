/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_BROWSER_TAB_H
#define CAY_INIT_BROWSER_TAB_H
/*
 * tab - one tab of the browser, and a world in its page where the scripts of guest/browser run
 *
 * The world is made once for a page and found again by its name, so references to elements that one
 * request returned are valid in the next.  Nothing else is kept between requests.
 *
 * A dialog of the page (alert, confirm, prompt) is dismissed when it opens, and noted in changes.
 */
#include "init/browser/cdp.h"
#include "ops/types.h"

#define TAB_ID_MAX 64
#define TABS_MAX 64
#define TAB_CHANGES_MAX 32
#define TAB_TEXT_MAX 512 /* of what a page says in a dialog */

struct tab {
	struct devtools devtools;
	struct cdp cdp;
	char id[TAB_ID_MAX + 1];
	int64_t world; /* the number of our world, or 0 */
	bool world_is_ready;
	bool loading, crashed;
	bool attaching;  /* a page that has crashed is replaced by an empty one */
	unsigned status; /* of the last document, with network events */
	const char *changes[TAB_CHANGES_MAX];
	size_t n_changes;
	bool may_change; /* the request may answer dialogs and replace a page that has crashed */
	struct arena *arena; /* of the texts in changes */
};

#define auto_tab CAY_CLEANUP(tab_fini) struct tab

/* arena outlives the tab. */
void tab_init(struct tab *t, struct arena *arena);
void tab_fini(struct tab *t);
/* Close the connection and forget the page; what was noted stays. */
void tab_leave(struct tab *t);
/* Whether a text can be the id of a tab. */
bool tab_id_is_valid(const char *id);
/* The tabs, the one last used first; texts are in the arena. */
struct browser_tab;
[[nodiscard]] int tabs_read(struct devtools *d, struct arena *arena, struct field_list *ret,
			    struct cay_err *err);
/* Attach to a tab, NULL: the one last used.  The devtools are open, and become the tab's. */
[[nodiscard]] int tab_attach(struct tab *t, const char *id, struct cay_err *err);
/* The value of an expression of JavaScript in our world, where `cayPage` is. */
[[nodiscard]] int tab_evaluate(struct tab *t, const char *expression, json_t **ret,
			       struct cay_err *err);
/* The same in the world of the page, of a client's script; *ret is what the promise gave. */
[[nodiscard]] int tab_run_script(struct tab *t, const char *script, json_t **ret,
				 struct cay_err *err);
/* cayPage.NAME(ARGUMENT, ARGUMENT): texts, or NULL. */
[[nodiscard]] int tab_ask_page(struct tab *t, const char *name, const char *one, const char *two,
			       json_t **ret, struct cay_err *err);
/* Let the page work for quiet_ms, and until it has loaded if it is loading, for at most max_ms. */
[[nodiscard]] int tab_settle(struct tab *t, uint64_t quiet_ms, uint64_t max_ms,
			     struct cay_err *err);
/* Note what happened, for the reply. */
__attribute__((format(printf, 2, 3))) void tab_note(struct tab *t, const char *fmt, ...);
#endif
