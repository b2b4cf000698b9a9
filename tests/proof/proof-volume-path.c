/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any path of up to seven bytes: the check reads no more than there is, and what
 * passes is absolute, without an empty part, "." or "..", a space or a colon.
 * Seven hold "/proc/a", the longest word that the check knows.
 *
 * sources: wire/volume-path.c base/str.c tests/proof/stubs.c
 * unwind: 9
 */
#include "proof.h"
#include "wire/volume-path.h"

/* CBMC has none of its own. */
void *memchr(const void *in, int c, size_t n)
{
	const unsigned char *p = in;

	for (size_t i = 0; i < n; i++)
		if (p[i] == (unsigned char)c)
			return (void *)(p + i);
	return NULL;
}

int main(void)
{
	size_t n = nondet_size();
	char *p;

	assume(n > 0 && n <= 7);
	p = (char *)bytes_of(n);
	if (volume_path_fault(p, n))
		return 0;
	prove(n > 1 && p[0] == '/' && p[n - 1] != '/');
	for (size_t i = 0; i + 1 < n; i++) {
		bool last = i + 2 == n, dots = !last && p[i + 1] == '.' && p[i + 2] == '.';

		prove(p[i + 1] > ' ' && p[i + 1] <= '~' && p[i + 1] != ':');
		if (p[i] != '/')
			continue;
		prove(p[i + 1] != '/');
		prove(p[i + 1] != '.' || !(last || p[i + 2] == '/'));
		prove(!dots || (i + 3 < n && p[i + 3] != '/'));
	}
	return 0;
}
