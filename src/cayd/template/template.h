/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_TEMPLATE_H
#define CAY_CAYD_TEMPLATE_TEMPLATE_H
/*
 * template - named defaults for creates
 *
 * Only the operator changes templates; every tenant can use them, but for those that have the files
 * of a snapshot (template-snapshot.c).  The table is in memory, its rows are in the journal.
 */
#include "cayd/template/build.h"

#define TEMPLATES_MAX 1000

struct template
{
	struct template_info info;
	char building_hash[BUILD_HASH_LEN + 1]; /* hash of the layer being built; "": none */
	bool saved, deleting;                   /* the journal has it; it is being deleted */
	struct template *next_version;          /* the version that is being saved */
	struct arena arena;
};

[[nodiscard]] int templates_open(struct cayd *c, struct cay_err *err);
[[nodiscard]] int template_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
/* Slots of the table; NULL where a template is not saved yet or is being deleted. */
size_t templates_count(const struct cayd *c);
const struct template *template_at(const struct cayd *c, size_t at);
/* NULL if there is none; valid until the loop's next turn. */
const struct template *template_find_by_name(const struct cayd *c, const char *name);
struct image;
/* The name of a template that names this snapshot, or one of this tenant; NULL. Also of one that is
 * being saved or deleted. */
const char *templates_find_naming(const struct cayd *c, const struct id *owned);
/* Whether a template uses this image or layer. */
bool templates_use_image(const struct cayd *c, const struct image *image);
/* The request of a create merged with its template. Texts belong to either and are valid until the
 * loop's next turn. */
[[nodiscard]] int template_apply(const struct cayd *c, const struct actor *actor,
				 const struct sandbox_create *asked, struct arena *arena,
				 struct sandbox_create *ret, struct cay_err *err);

/* template.c, for template-build.c: check the defaults. */
[[nodiscard]] int template_check_defaults(const struct cayd *c, const struct sandbox_create *d,
					  struct cay_err *err);
struct template_info template_from_request(const struct cayd *c, const struct template_create *q);
struct template *template_find_by_id(struct cayd *c, const struct id *id);
struct template *template_find_any_state(struct cayd *c, const char *name);
/* Save it and reply once it is durable; rq may be NULL. Returns the row that it will be, with its
 * id; NULL with err set, or with err unset if the request was answered. */
struct template *template_save(struct cayd *c, struct request *rq, const struct template_info *want,
			       struct cay_err *err);
/* A new row from its text. */
struct template *template_parse(struct slice text, struct cay_err *err);
void template_free(struct template *t);
/* template-snapshot.c: whether the template, or its next version, names the snapshot, or one of the
 * tenant. */
bool template_names(const struct cayd *c, const struct template *t, const struct id *owned);
/* Whether the actor may create sandboxes of it; whether operations show it to the actor. */
bool template_may_be_used_by(const struct cayd *c, const struct template *t,
			     const struct actor *by);
bool template_is_visible_to(const struct cayd *c, const struct template *t, const struct actor *by);
/* Check the snapshot that a new template names, if it does. */
[[nodiscard]] int template_check_snapshot(const struct cayd *c, const struct actor *by,
					  const struct template_create *q, struct cay_err *err);
/* Let a create begin with the files of the snapshot that the template names, if it does. */
[[nodiscard]] int template_give_files(const struct cayd *c, const struct template *t,
				      struct sandbox_create *spec, struct cay_err *err);
/* template-build.c: a create that needs a build; the reply of get. */
void template_build_start(struct cayd *c, struct request *rq, const struct layer_spec *spec);
const struct template_info *template_describe(const struct template *t, struct template_info *ret);

#endif
