/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/services-check.h"

static int service_spec_check(const struct service_spec *all, size_t i, size_t *words,
			      const char *field, struct cay_err *err)
{
	const struct service_spec *s = &all[i];

	if (!op_name_is_valid(slice_of(s->name)))
		return cay_fail_field(
			err, CAY_E_INVALID, field,
			"'%s' is not a valid name: use letters, digits, '.', '_' and '-'", s->name);
	for (size_t k = 0; k < i; k++)
		if (str_eq(all[k].name, s->name))
			return cay_fail_field(err, CAY_E_INVALID, field,
					      "two services have the name '%s'", s->name);
	*words += s->put.argv.n + s->put.env.n;
	if (*words > SERVICES_WORDS_MAX)
		return cay_fail_field(err, CAY_E_INVALID, field,
				      "services have more than %d arguments and variables together",
				      SERVICES_WORDS_MAX);
	if (s->put.has_argv == (s->put.command != NULL))
		return cay_fail_field(err, CAY_E_INVALID, field,
				      "'%s': give one of argv and command", s->name);
	return 0;
}

int services_check(const struct field_list *services, const char *field, struct cay_err *err)
{
	const struct service_spec *all = services->v;
	auto_buf text = BUF_INIT(SERVICES_TEXT_MAX);
	struct jw w = jw_to(&text);
	size_t words = 0;

	jw_array_begin(&w, NULL);
	for (size_t i = 0; i < services->n; i++) {
		if (service_spec_check(all, i, &words, field, err) < 0)
			return -EINVAL;
		field_encode(&service_spec_table, NULL, &all[i], &w);
	}
	jw_end(&w);
	if (jw_finish(&w) < 0)
		return cay_fail_field(err, CAY_E_INVALID, field,
				      "services take more than %llu KiB together",
				      (unsigned long long)(SERVICES_TEXT_MAX / KIB(1)));
	return 0;
}

/* As in import statements. */
static bool module_name_is_valid(const char *name)
{
	size_t n = strlen(name);

	return n && n < 128 && !(name[0] >= '0' && name[0] <= '9') &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
		       n;
}

int warm_kernels_check(const struct field_list *kernels, const char *field, struct cay_err *err)
{
	const struct warm_kernel *all = kernels->v;

	for (size_t i = 0; i < kernels->n; i++)
		for (size_t k = 0; k < all[i].modules.n; k++)
			if (!module_name_is_valid(all[i].modules.v[k]))
				return cay_fail_field(err, CAY_E_INVALID, field,
						      "'%.128s' is not the name of a module",
						      all[i].modules.v[k]);
	return 0;
}
