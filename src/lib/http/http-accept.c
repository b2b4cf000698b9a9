/* SPDX-License-Identifier: Apache-2.0 */
/* Search the headers of a parsed head */
#include "http/http.h"

struct slice http_header_find(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, name))
			return h->headers[i].value;
	return (struct slice){};
}

/* Whether a comma-separated header lists the word; parameters are ignored. */
static bool http_header_lists(const struct http_head *h, const char *name, const char *what)
{
	for (size_t i = 0; i < h->n_headers; i++) {
		struct slice list = h->headers[i].value;

		if (!http_equals_nocase(h->headers[i].name, name))
			continue;
		while (list.p) {
			struct slice item = slice_cut(&list, ',');

			if (http_equals_nocase(slice_trim(slice_cut(&item, ';')), what))
				return true;
		}
	}
	return false;
}

bool http_accepts_media_type(const struct http_head *h, const char *media)
{
	return http_header_lists(h, "accept", media);
}

bool http_prefers(const struct http_head *h, const char *what)
{
	return http_header_lists(h, "prefer", what);
}
