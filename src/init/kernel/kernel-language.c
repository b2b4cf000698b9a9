/* SPDX-License-Identifier: Apache-2.0 */
#include "init/kernel/kernel-language.h"

#include <strings.h>

#include "base/mem.h"
#include "init/kernel/kernel-texts.h"

/* Both read the runner from fd 5 and run it in the interpreter's own process. */
static const char python_start[] =
	"import os; exec(compile(os.fdopen(5, 'rb').read(), '<cay kernel>', 'exec'))";
static const char node_start[] = "new Function('require', 'module', 'process', "
				 "require('fs').readFileSync(5, 'utf8'))(require, module, process)";

static const struct kernel_language kernel_languages[] = {
	{
		.name = "python",
		.other_names = (const char *const[]){ "python3", "py", "ipython", NULL },
		.argv = (const char *const[]){ "python3", "-c", python_start, NULL },
		.text = &kernel_text_python,
		.text_size = &kernel_text_python_size,
		.missing = "the image has no python3: use the image `python` or `code`",
	},
	{
		.name = "node",
		.other_names = (const char *const[]){ "javascript", "js", "nodejs", NULL },
		.argv = (const char *const[]){ "node", "--no-warnings",
					       "--no-force-async-hooks-checks", "-e", node_start,
					       NULL },
		.text = &kernel_text_node,
		.text_size = &kernel_text_node_size,
		.interrupt_by_frame = true,
		.missing = "the image has no node: use the image `node` or `code`",
	},
	{
		.name = "r",
		.other_names = (const char *const[]){ NULL },
		.argv = (const char *const[]){ "R", "--no-echo", "--no-restore", "--no-save", "-e",
					       "source(file('/dev/fd/5'), local = new.env())",
					       NULL },
		.text = &kernel_text_r,
		.text_size = &kernel_text_r_size,
		.missing = "the image has no R: use the image `r` or `code`",
	},
};

#define TYPESCRIPT \
	"there is no TypeScript kernel: remove the types and run JavaScript in a `node` kernel, " \
	"or write a file and run `npx tsx FILE` with exec.run"

/* Languages that clients of other systems ask for. */
static const struct {
	const char *name, *why;
} kernel_languages_refused[] = {
	{ "bash", "for bash, open a shell: shell.create" },
	{ "sh", "for a shell, use shell.create" },
	{ "typescript", TYPESCRIPT },
	{ "ts", TYPESCRIPT },
	{ "java", "there is no Java kernel: write a file and run `java` with exec.run" },
	{ "go", "there is no Go kernel: write a file and run `go run` with exec.run" },
};

static bool kernel_language_has_name(const struct kernel_language *l, const char *name)
{
	if (strcasecmp(l->name, name) == 0)
		return true;
	for (const char *const *other = l->other_names; *other; other++)
		if (strcasecmp(*other, name) == 0)
			return true;
	return false;
}

const struct kernel_language *kernel_language_find(const char *name, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernel_languages); i++)
		if (kernel_language_has_name(&kernel_languages[i], name))
			return &kernel_languages[i];
	for (size_t i = 0; i < ARRAY_SIZE(kernel_languages_refused); i++)
		if (strcasecmp(kernel_languages_refused[i].name, name) == 0) {
			(void)cay_fail_field(err, CAY_E_UNSUPPORTED, "language", "%s",
					     kernel_languages_refused[i].why);
			return NULL;
		}
	(void)cay_fail_field(err, CAY_E_UNSUPPORTED, "language",
			     "there is no kernel for '%s': python, node and r have one", name);
	return NULL;
}
