/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/id-page.h"

#include "base/path.h"

/* Keep the smallest ids after `after`, in order. */
static void id_page_add(struct id_page *l, const struct id *id)
{
	uint32_t at = l->n;

	while (at > 0 && memcmp(&l->ids[at - 1], id, sizeof(*id)) > 0)
		at--;
	if (l->n == VERB_LIST_MAX) {
		l->more = true;
		if (at == VERB_LIST_MAX)
			return;
		l->n--;
	}
	memmove(&l->ids[at + 1], &l->ids[at], (l->n - at) * sizeof(*id));
	l->ids[at] = *id;
	l->n++;
}

static int on_id_page_name(void *arg, int, const char *name)
{
	struct id_page *l = arg;
	struct id id;

	if (id_parse(l->noun, slice_of(name), &id) == 0 && memcmp(&id, &l->after, sizeof(id)) > 0)
		id_page_add(l, &id);
	return 0;
}

int id_page_read(struct id_page *l, int dir)
{
	return path_for_each_entry(dir, on_id_page_name, l);
}
