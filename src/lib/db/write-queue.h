/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DB_WRITE_QUEUE_H
#define CAY_DB_WRITE_QUEUE_H
/* write-queue - submitted writes, in lists in the order of submission */
#include "db/db-internal.h"

struct db_write {
	struct db_write *next;
	enum db_stmt kind;
	union {
		struct db_sandbox row;
		struct db_event event;
		struct db_entry entry;
		struct id id;
		uint64_t number; /* of an event */
	};
	size_t bytes;
	db_fn *fn;
	void *arg;
	/* the outcome; why is static text */
	enum cay_code code;
	int sys;
	const char *why;
	char text[];
};

struct db_write_list {
	struct db_write *first, **end;
};

static inline void db_write_list_init(struct db_write_list *list)
{
	*list = (struct db_write_list){ .end = &list->first };
}

static inline void db_write_list_append(struct db_write_list *list, struct db_write *exec)
{
	exec->next = NULL;
	*list->end = exec;
	list->end = &exec->next;
}

static inline struct db_write *db_write_list_pop(struct db_write_list *list)
{
	struct db_write *exec = list->first;

	if (!exec)
		return NULL;
	list->first = exec->next;
	if (!list->first)
		list->end = &list->first;
	return exec;
}

/* Append all of `from` to `to`. */
static inline void db_write_list_move(struct db_write_list *to, struct db_write_list *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	db_write_list_init(from);
}
#endif
