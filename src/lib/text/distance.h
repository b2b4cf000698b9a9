/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_DISTANCE_H
#define CAY_TEXT_DISTANCE_H
/* distance - how similar two words are, for "did you mean" */
#include "base/str.h"

#define DISTANCE_MAX 32

/* Letters inserted, removed, changed or swapped with their neighbour; DISTANCE_MAX if a word has
 * more letters than that. */
unsigned str_edit_distance(struct slice a, struct slice b);
#endif
