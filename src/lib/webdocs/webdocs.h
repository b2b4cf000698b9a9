/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WEBDOCS_WEBDOCS_H
#define CAY_WEBDOCS_WEBDOCS_H
/*
 * webdocs - static documents compiled into the program
 *
 * make.py writes them from the output of tablegen and toolgen, so they always match the
 * program that serves them.  The reference loads nothing from outside, and its
 * Content-Security-Policy allows only the script and style in the page.
 */
#include <stddef.h>

struct page {
	const unsigned char *data;
	size_t n;
};

extern const struct page page_reference; /* HTML */
extern const struct page page_llms;      /* plain text */
extern const struct page page_tools;     /* JSON, as toolgen prints it */
#endif
