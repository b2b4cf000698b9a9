/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_PICTURE_H
#define CAY_INIT_SCREEN_PICTURE_H
/* picture - pixels of red, green and blue: reduce them, write them as PNG */
#include <stdint.h>

#include "base/buf.h"

#define PICTURE_PIXELS_MAX (UINT32_C(4096) * 4096)
#define PICTURE_PNG_MAX MIB(52) /* as many pixels, if nothing can be compressed */

struct picture {
	uint32_t width, height;
	uint8_t *rgb; /* three bytes a pixel, by rows */
};

#define auto_picture CAY_CLEANUP(picture_fini) struct picture

void picture_fini(struct picture *p);
[[nodiscard]] int picture_init(struct picture *p, uint32_t width, uint32_t height);

/* The largest size of the same shape within the limits, never larger than it was; 0: no limit. */
void picture_fit(uint32_t width, uint32_t height, uint64_t max_width, uint64_t max_height,
		 uint32_t *ret_width, uint32_t *ret_height);
/* The pixel of a whole of n in which the middle of pixel i of n_reduced lies. */
uint32_t picture_coordinate_enlarge(uint32_t i, uint32_t n_reduced, uint32_t n);
/* The pixel of n_reduced in which the middle of pixel i of n lies; there and back is the same. */
uint32_t picture_coordinate_reduce(uint32_t i, uint32_t n, uint32_t n_reduced);
/* Where the edge before pixel i of n is in a picture of another size. */
uint32_t picture_edge(uint32_t i, uint32_t n, uint32_t n_other);

/* Each pixel is the mean of the area it covers. */
[[nodiscard]] int picture_reduce(const struct picture *p, uint32_t width, uint32_t height,
				 struct picture *ret);
[[nodiscard]] int picture_write_png(const struct picture *p, struct buf *out);
#endif
