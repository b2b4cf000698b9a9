/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/egress-usage.h"

struct egress_usage egress_usage_get(const struct sandbox *sb)
{
	const struct egress_counts *c = &sb->egress_counts.now;

	return (struct egress_usage){ .open = c->open,
				      .total = c->connected + c->denied + c->failed + c->limited,
				      .denied = c->denied,
				      .failed = c->failed + c->limited,
				      .names_denied = c->names_denied,
				      .up_bytes = c->up,
				      .down_bytes = c->down };
}

void egress_usage_restore(struct sandbox *sb, const struct egress_usage *used)
{
	const uint64_t refused = used->denied + used->failed;

	sb->egress_counts.now = (struct egress_counts){
		.connected = used->total > refused ? used->total - refused : 0,
		.denied = used->denied,
		.failed = used->failed,
		.names_denied = used->names_denied,
		.up = used->up_bytes,
		.down = used->down_bytes,
	};
	sb->egress_counts.known = true;
}

void egress_usage_save_all(struct cayd *c)
{
	if (c->lost.code)
		return;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		if (sb->egress_counts.changed && sb->egress && !life_is_finished(&sb->life))
			sandbox_save(sb, false);
}
