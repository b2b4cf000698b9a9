/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_TEMPLATE_H
#define CAY_CAYD_TEMPLATE_TEMPLATE_H
/*
 * template - how sandboxes of one kind are made
 *
 * A name and what a create with it begins with.  The operator's, and everybody's to use.
 * The table is in memory, its rows are in the journal.
 */
#include "cayd/template/build.h"

#define TEMPLATES_MAX 1000

struct template
{
	struct template_info info;
	char building_hash[BUILD_HASH_LEN + 1]; /* what is being made for it; "": nothing */
	bool saved, deleting;                   /* the journal has it; it is being forgotten */
	struct template *next_version;          /* what it is to be, while the journal is told */
	struct arena arena;
};

[[nodiscard]] int templates_open(struct cayd *c, struct cay_err *err);
/* One that the journal has. */
[[nodiscard]] int template_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
/* Places of the table; NULL where there is none yet, or not any more. */
size_t templates_count(const struct cayd *c);
const struct template *template_at(const struct cayd *c, size_t at);
/* NULL when there is none of this name; it may be another one in the loop's next turn. */
const struct template *template_find_by_name(const struct cayd *c, const char *name);
struct image;
/* Whether one of them is made from this image. */
bool templates_use_image(const struct cayd *c, const struct image *image);
/* What a create asks for: its own words over its template's.  Texts are the request's or the
 * template's, good until the loop's next turn. */
[[nodiscard]] int template_apply(const struct cayd *c, struct request *rq,
				 struct sandbox_create *ret, struct cay_err *err);

/* template.c's, for template-build.c: what may be said of every sandbox. */
[[nodiscard]] int template_check_defaults(const struct cayd *c, const struct sandbox_create *d,
					  struct cay_err *err);
struct template_info template_from_request(const struct cayd *c, const struct template_create *q);
struct template *template_find_by_id(struct cayd *c, const struct id *id);
/* Whatever its state is. */
struct template *template_find_any_state(struct cayd *c, const char *name);
/* Make it so, and answer when the journal has it; rq may be NULL.  The row it will be, whose
 * id is its own from now on; NULL, and err says why unless the request was told. */
struct template *template_save(struct cayd *c, struct request *rq, const struct template_info *want,
			       struct cay_err *err);
/* A row of its own from its text. */
struct template *template_parse(struct slice text, struct cay_err *err);
void template_free(struct template *t);
/* template-build.c: a create with something to build; and the answer to get. */
void template_build_start(struct cayd *c, struct request *rq, const struct layer_spec *spec);
const struct template_info *template_describe(const struct template *t, struct template_info *ret);
void op_template_log(struct cayd *c, struct request *rq);

/* The operations. */
void op_template_create(struct cayd *c, struct request *rq);
void op_template_list(struct cayd *c, struct request *rq);
void op_template_get(struct cayd *c, struct request *rq);
void op_template_pool(struct cayd *c, struct request *rq);
void op_template_delete(struct cayd *c, struct request *rq);
#endif
