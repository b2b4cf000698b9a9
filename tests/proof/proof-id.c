/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text of up to 27 characters: inside, and an id has one spelling.
 *
 * sources: base/id.c
 * unwind: 34
 */
#include "base/id.h"
#include "proof.h"

int main(void)
{
	char *in, out[ID_TEXT_LEN + 1];
	size_t n = nondet_size();
	struct id id;

	assume(n <= 27);
	in = bytes_of(n);
	if (id_parse(ID_NONE, (struct slice){ in, n }, &id) < 0)
		return 0;
	prove(n == ID_TEXT_LEN && id_is_valid(&id, ID_NONE));
	id_format(&id, out);
	for (size_t i = 0; i < ID_TEXT_LEN; i++)
		prove(out[i] == in[i]);
	return 0;
}
