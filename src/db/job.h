/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DB_JOB_H
#define CAY_DB_JOB_H
/* job - a write somebody asked for, and lists of them in the order of asking */
#include "db/db-internal.h"

struct job {
	struct job *next;
	enum db_stmt kind;
	union {
		struct db_row row;
		struct db_event event;
		struct db_entry entry;
		struct id id;
		uint64_t before;
	};
	size_t bytes;
	db_fn *fn;
	void *arg;
	/* the outcome; why is nobody's to free */
	enum cay_code code;
	int sys;
	const char *why;
	char text[];
};

struct jobs {
	struct job *first, **end;
};

static inline void jobs_init(struct jobs *list)
{
	*list = (struct jobs){ .end = &list->first };
}

static inline void jobs_add(struct jobs *list, struct job *job)
{
	job->next = NULL;
	*list->end = job;
	list->end = &job->next;
}

static inline struct job *jobs_take(struct jobs *list)
{
	struct job *job = list->first;

	if (!job)
		return NULL;
	list->first = job->next;
	if (!list->first)
		list->end = &list->first;
	return job;
}

/* All of `from` behind `to`. */
static inline void jobs_move(struct jobs *to, struct jobs *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	jobs_init(from);
}
#endif
