/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_FIELD_INTERNAL_H
#define CAY_OPS_FIELD_INTERNAL_H
/* Shared by field-*.c. */
#include "ops/field.h"

struct field_check_row {
	const char *pattern; /* ECMA regular expression for the schema, or NULL */
	const char *what;    /* in messages: "must be ..." */
	bool (*ok)(struct slice s);
};

const struct field_check_row *field_check_row(enum field_check check);
bool field_check_key(enum field_check check, struct slice key);
/* "must be a number from 1 to 100" */
[[nodiscard]] int field_refuse(const struct field *f, struct cay_err *err);
/* Set a scalar from text, as in a query or an example. */
[[nodiscard]] int field_set_from_text(const struct field *f, struct slice s, struct arena *arena,
				      void *ret, struct cay_err *err);
/* Absent members: defaults, and an error for required ones. */
[[nodiscard]] int field_set_absent(const struct field *f, void *ret, struct cay_err *err);
/* The pool gave nothing: the request's fault when it is the limit, else ours. */
[[nodiscard]] int field_fail_no_memory(const char *name, const struct arena *arena,
				       struct cay_err *err);
void field_mark_present(const struct field *f, void *ret);
static inline uint64_t *field_given_bits(const struct field_table *t, void *ret)
{
	return (uint64_t *)(void *)((char *)ret + (t->given - 1));
}
#endif
