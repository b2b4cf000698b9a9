/* SPDX-License-Identifier: Apache-2.0 */
#include "text/distance.h"

/* Damerau-Levenshtein: two swapped letters are one change. */
unsigned str_edit_distance(struct slice a, struct slice b)
{
	unsigned rows[3][DISTANCE_MAX + 1];

	if (a.n > DISTANCE_MAX || b.n > DISTANCE_MAX)
		return DISTANCE_MAX;
	for (unsigned j = 0; j <= b.n; j++)
		rows[0][j] = j;
	for (size_t i = 0; i < a.n; i++) {
		const unsigned *before = rows[(i + 2) % 3], *above = rows[i % 3];
		unsigned *row = rows[(i + 1) % 3];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < b.n; j++) {
			unsigned least = (row[j] < above[j + 1] ? row[j] : above[j + 1]) + 1;
			unsigned change = above[j] + (a.p[i] != b.p[j]);

			if (i && j && a.p[i] == b.p[j - 1] && a.p[i - 1] == b.p[j] &&
			    before[j - 1] + 1 < change)
				change = before[j - 1] + 1;
			row[j + 1] = change < least ? change : least;
		}
	}
	return rows[a.n % 3][b.n];
}
