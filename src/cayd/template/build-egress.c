/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cayd/egress/policy.h"
#include "cayd/template/build-internal.h"

int build_egress_get_hash(const struct sandbox_create *like, uint8_t ret[static KEY_HASH_LEN])
{
	auto_buf text = BUF_INIT(2 * DB_TEXT_MAX);
	struct jw w = jw_to(&text);

	jw_array_begin(&w, NULL);
	if (like->has_egress)
		field_encode(&egress_spec_table, NULL, &like->egress, &w);
	else
		jw_null(&w, NULL);
	if (like->template_egress)
		field_encode(&egress_spec_table, NULL, like->template_egress, &w);
	jw_end(&w);
	if (jw_finish(&w) < 0)
		return -ENOMEM;
	key_hash((struct slice){ text.data, text.len }, ret);
	return 0;
}

/* The sandbox belongs to build_tenant, but the bound is the one of the tenant that asks for the
 * build: otherwise packages would be a way around it. */
int build_egress_apply(const struct build *b, const struct sandbox_create *like,
		       struct sandbox_create *spec, struct cay_err *err)
{
	spec->has_egress = like->has_egress;
	spec->egress = like->egress;
	spec->template_egress = like->template_egress;
	spec->egress_tenant = &b->spec.tenant;
	if (egress_create_check(b->cayd, spec->egress_tenant, spec, err) < 0)
		return -EINVAL;
	return egress_create_require_link(b->cayd, spec, err);
}

void build_egress_describe(const struct build *b, char *ret, size_t size)
{
	const struct egress_counts *n = &b->sandbox->egress_counts.now;
	unsigned long long denied = n->denied + n->names_denied;
	int r = 0;

	ret[0] = 0;
	if (!sandbox_has_egress(b->sandbox))
		r = snprintf(ret, size, " without a network");
	else if (denied)
		r = snprintf(ret, size, " after its egress policy denied %llu connections", denied);
	if (r < 0 || (size_t)r >= size)
		ret[0] = 0;
}
