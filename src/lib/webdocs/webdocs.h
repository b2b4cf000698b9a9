/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WEBDOCS_WEBDOCS_H
#define CAY_WEBDOCS_WEBDOCS_H
/*
 * pages - documents that are served as they are: bytes of the program
 *
 * make.py writes them from what tablegen and toolgen print, so they are of the same rows as the
 * program that serves them.  The reference asks for nothing from outside, and its own
 * policy lets a browser run what is in it and nothing else.
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
