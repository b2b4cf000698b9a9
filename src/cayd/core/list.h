/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_LIST_H
#define CAY_CAYD_CORE_LIST_H
/* list - singly linked lists */

/* Unlink an item that is in the list; `next` is the member that links it. */
#define LIST_UNLINK(first, item, next) \
	do { \
		typeof(&(first)) at_ = &(first); \
\
		while (*at_ != (item)) \
			at_ = &(*at_)->next; \
		*at_ = (item)->next; \
	} while (0)
#endif
