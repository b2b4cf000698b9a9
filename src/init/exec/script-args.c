/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/script-args.h"

#include "base/buf.h"
#include "base/str.h"

#define LAUNCHER_MAX KIB(4)
#define CHAR_MAX_LEN 4 /* of UTF-8 */

static bool script_args_is_shell(const char *program)
{
	static const char *const shells[] = { "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh" };
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (str_eq(name, shells[i]))
			return true;
	return false;
}

/* Whether the word is a group of options; adds how many of the next words are their values. */
static bool script_args_read_options(const char *word, size_t *values, bool *has_c)
{
	if ((word[0] != '-' && word[0] != '+') || !word[1])
		return false;
	if (word[0] == '-' && word[1] == '-') {
		*values += str_eq(word, "--rcfile") || str_eq(word, "--init-file");
		return word[2];
	}
	for (const char *c = word + 1; *c; c++) {
		*has_c |= word[0] == '-' && *c == 'c';
		*values += *c == 'o' || *c == 'O';
	}
	return true;
}

/* Where the script is; 0: argv is no shell with a script. */
static size_t script_args_find(const char *const *argv)
{
	size_t values = 0, i = 1;
	bool has_c = false;

	if (!script_args_is_shell(argv[0]))
		return 0;
	for (; argv[i]; i++) {
		if (values)
			values--;
		else if (!script_args_read_options(argv[i], &values, &has_c))
			break;
	}
	if (argv[i] && str_eq(argv[i], "--"))
		i++;
	return has_c && argv[i] ? i : 0;
}

int script_args_check(const char *const *argv, size_t n, struct cay_err *err)
{
	for (size_t i = 0; i < n; i++) {
		size_t bytes = strlen(argv[i]);

		if (bytes > ARG_BYTES_MAX && (!i || i != script_args_find(argv)))
			return cay_fail_field(
				err, CAY_E_TOO_LARGE, "argv",
				"argument %zu has %zu bytes; the limit is %zu, except "
				"for the script of 'sh -c': send it as stdin, or in a "
				"file (PUT .../files/content)",
				i, bytes, ARG_BYTES_MAX);
	}
	return 0;
}

/* The next part, with whole characters. */
static size_t script_args_part_len(struct slice text)
{
	size_t whole;

	if (text.n <= ARG_BYTES_MAX)
		return text.n;
	whole = utf8_whole_prefix_len(text.p, ARG_BYTES_MAX);
	return whole ? whole : ARG_BYTES_MAX;
}

static char *script_args_write_launcher(size_t parts)
{
	auto_buf b = BUF_INIT(LAUNCHER_MAX);
	int r = buf_printf(&b, "eval \"shift %zu; ", parts);

	for (size_t i = 1; r >= 0 && i <= parts; i++)
		r = buf_printf(&b, "${%zu}", i);
	if (r >= 0)
		r = buf_putc(&b, '"');
	return r < 0 ? NULL : strdup(buf_str(&b));
}

/* In a child that calls exec or exits, so nothing is freed. */
const char *const *script_args_split(const char *const *argv)
{
	size_t at = script_args_find(argv), n = at, parts = 0, most;
	struct slice text = slice_of(at ? argv[at] : "");
	const char **ret;

	if (text.n <= ARG_BYTES_MAX)
		return argv;
	while (argv[n])
		n++;
	most = text.n / (ARG_BYTES_MAX + 1 - CHAR_MAX_LEN) + 1;
	ret = calloc(n + most + 2, sizeof(*ret));
	if (!ret)
		return NULL;
	memcpy(ret, argv, at * sizeof(*ret));
	for (; text.n && parts < most; parts++) {
		size_t len = script_args_part_len(text);

		ret[at + 2 + parts] = strndup(text.p, len);
		if (!ret[at + 2 + parts])
			return NULL; /* NOLINT(clang-analyzer-unix.Malloc) */
		text.p += len;
		text.n -= len;
	}
	ret[at] = script_args_write_launcher(parts);
	/* $0, which a shell takes from its own name when no word follows the script */
	ret[at + 1] = argv[at + 1] ? argv[at + 1] : argv[0];
	if (argv[at + 1])
		memcpy(&ret[at + 2 + parts], &argv[at + 2], (n - at - 2) * sizeof(*ret));
	return ret[at] && !text.n ? ret : NULL;
}
