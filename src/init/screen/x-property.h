/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_X_PROPERTY_H
#define CAY_INIT_SCREEN_X_PROPERTY_H
/* x-property - properties of windows, and events, by which the programs of a screen communicate */
#include "init/screen/x-conn.h"

#define X_PROPERTY_MAX KIB(4)

struct x_property {
	uint8_t format; /* bits of each datum; 0: the window has no such property */
	uint32_t type, left;
	struct slice value; /* in c->reply */
};

/* The number of a name, which is made if there is none. */
[[nodiscard]] int x_intern(struct x_conn *c, const char *name, uint32_t *ret, struct cay_err *err);
/* Up to max bytes of a property; left: how many more there are. */
[[nodiscard]] int x_read_property(struct x_conn *c, uint32_t window, uint32_t atom, bool and_delete,
				  size_t max, struct x_property *ret, struct cay_err *err);
/* The value alone; empty if the window has no such property of that format. */
[[nodiscard]] int x_get_property(struct x_conn *c, uint32_t window, uint32_t atom, uint8_t format,
				 struct slice *ret, struct cay_err *err);

struct x_event {
	uint8_t bytes[32];
};

[[nodiscard]] int x_send_event(struct x_conn *c, uint32_t window, uint32_t mask,
			       const struct x_event *e, struct cay_err *err);
#endif
