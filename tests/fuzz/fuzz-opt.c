/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a command line, separated by NUL, through the options of every
 * command: refused with a message, or read so that each word is accounted for. */
#include "cli/core/command.h"
#include "fuzz.h"

#define WORDS_MAX 64

static void read_with(const struct cmd *cmd, const char *const *words, size_t n)
{
	static const struct opt_group none[] = { OPTS_END };
	auto_arena arena = ARENA_INIT(MIB(1));
	void *args = arena_alloc(&arena, 1, cmd->size + 1);
	struct cay_err err = {};
	struct opt_words w;
	const char *near;

	CHECK(args);
	CHECK(opt_count_own_words(cmd->options ? cmd->options : none, words, n, cmd->max) <= n);
	if (opt_parse_words(cmd->options ? cmd->options : none, words, n, &arena, args, &w, &near,
			    &err) < 0) {
		CHECK(err.code != CAY_OK && err.msg[0]);
		return;
	}
	CHECK(w.n_operands + w.n_rest <= n);
	for (size_t i = 0; i < w.n_operands; i++)
		CHECK(w.operands[i][0] != '-' || !w.operands[i][1]);
	CHECK(!w.rest || w.rest[w.n_rest] == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	const char *words[WORDS_MAX + 1] = {};
	size_t n = 0, begin = 0;

	for (size_t i = 0; i < size && n < WORDS_MAX; i++) {
		if (text[i])
			continue;
		words[n++] = text + begin;
		begin = i + 1;
	}
	for (const struct cmd *const *c = commands; *c; c++)
		read_with(*c, words, n);
	free(text);
	return 0;
}
