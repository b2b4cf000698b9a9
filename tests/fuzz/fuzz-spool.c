/* SPDX-License-Identifier: Apache-2.0 */
/* What a spooler says to PID 1, one message behind the other: nothing that was not sent counts as
 * written, nothing that was written becomes unwritten, and a reader is given no more than there
 * is room for. */
#include "fuzz.h"
#include "init/core/init.h"
#include "init/exec/spool-internal.h"

#define BYTES 40000
#define OUTPUTS 2
#define READERS 3

static struct init init;
static struct spool spools[OUTPUTS];
static struct output outputs[OUTPUTS];
static struct output_reader readers[READERS];

/* What it got it takes; the third one leaves. */
static void more(struct output_reader *r)
{
	uint8_t to[512];
	size_t n = output_read_for_reader(r, r->pos, to, sizeof(to));

	CHECK(n <= sizeof(to) && (!r->window || r->window->n <= SPOOL_PIECE));
	if (r == &readers[2])
		output_remove_reader(r);
	else if (n)
		output_reader_advance(r, n);
}

static void begin(void)
{
	init.spools = (struct spools){ .cgroup = -EBADF, .last_id = OUTPUTS };
	init.budget = (struct ring_budget){ .max = MIB(1) };
	for (unsigned i = 0; i < OUTPUTS; i++) {
		struct output *o = &outputs[i];
		uint8_t *to;

		/* polling: there is no pipe to look into */
		*o = (struct output){ .fd = -EBADF,
				      .mode = OUTPUT_SPOOL,
				      .polling = true,
				      .spool = &spools[i],
				      .ring = ring_empty(&init.budget, BYTES / 2) };
		CHECK(ring_reserve(&o->ring, BYTES / 2, false, &to) >= 4);
		memcpy(to, "tail", 4);
		ring_commit(&o->ring, 4);
		o->spooled = BYTES / 4;
		spools[i] = (struct spool){ .next = init.spools.first,
					    .id = i + 1,
					    .fd = -EBADF,
					    .init = &init,
					    .output = o,
					    .sent = BYTES / 2 };
		init.spools.first = &spools[i];
	}
	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = (struct output_reader){ .on_more = more };
		output_add_reader(&outputs[i / 2], &readers[i], i);
		more(&readers[i]);
	}
}

static void end(void)
{
	for (unsigned i = 0; i < READERS; i++)
		output_remove_reader(&readers[i]);
	for (unsigned i = 0; i < OUTPUTS; i++) {
		ring_free_data(&outputs[i].ring);
		CHECK(spools[i].fd < 0);
	}
}

static bool hear(const struct spool_msg *m, const uint8_t *bytes, size_t n)
{
	struct output before[OUTPUTS];
	uint8_t *copy = fuzz_copy(bytes, n);
	int fd = -EBADF;
	bool ok;

	memcpy(before, outputs, sizeof(before));
	ok = spool_handle_message(&init.spools, m, copy, n, &fd);
	free(copy);
	for (unsigned i = 0; i < OUTPUTS; i++) {
		const struct output *o = &outputs[i];

		CHECK(o->spooled <= spools[i].sent);
		CHECK(o->spooled >= before[i].spooled || o->mode == OUTPUT_DROP);
		CHECK(o->mode == before[i].mode || o->mode == OUTPUT_DROP);
		CHECK(ok || (o->spooled == before[i].spooled && o->mode == before[i].mode));
		CHECK(o->spooled == before[i].spooled || o->spooled == 0 || spools[i].opened);
	}
	return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool ok = true;

	begin();
	while (ok && size > sizeof(struct spool_msg)) {
		struct spool_msg m;
		size_t n = data[0];

		memcpy(&m, data + 1, sizeof(m));
		data += 1 + sizeof(m);
		size -= 1 + sizeof(m);
		if (n > size)
			n = size;
		ok = hear(&m, data, n);
		data += n;
		size -= n;
	}
	end();
	return 0;
}
