/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/list.h"

struct volume_args {
	struct volume_create make; /* the request */
	const char *from;
};

static const struct opt volume_rows[] = {
	{ "size", 0, OPT_BYTES, offsetof(struct volume_args, make.size_bytes), .arg = "SIZE",
	  .help = "Most disk space of its files, e.g. 20Gi; default 10Gi, or that of --from" },
	{ "from", 0, OPT_TEXT, offsetof(struct volume_args, from), .operand = OPERAND_VOLUME,
	  .arg = "VOLUME", .help = "Copy the files of this volume, also while a sandbox has it" },
	{ "read-only", 0, OPT_FLAG, offsetof(struct volume_args, make.read_only),
	  .help = "Make a snapshot: with --from, a volume that nothing is ever written to" },
	{ "group", 0, OPT_TEXT, offsetof(struct volume_args, make.group), .operand = OPERAND_GROUP,
	  .arg = "NAME", .help = "Group it belongs to" },
	{ "label", 0, OPT_PAIRS, offsetof(struct volume_args, make.labels), .arg = "KEY=VALUE",
	  .help = "Label; may be repeated" },
};

static int cmd_volume_create_prepare(struct cli *c, void *args, const struct opt_words *w,
				     struct api_call *, struct cay_err *err)
{
	struct volume_args *a = args;

	a->make.name = w->operands[0];
	a->make.has_size = a->make.size_bytes;
	return a->from ? api_find_volume(&c->api, a->from, &a->make.from, err) : 0;
}

const struct cmd cmd_volume_create = {
	CMD_USAGE("volume create", "[OPTION...] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	CMD_OPTIONS(volume_args, OPTS(volume_rows, 0)),
	.help = "Create a volume, empty or as a copy, and print its id",
	.more = "A volume is a directory that outlives sandboxes. 'cay create --volume NAME:PATH' "
		"mounts it: in one sandbox that may write to it, or read-only in any number.",
	.op = OP_VOLUME_CREATE,
	.prepare = cmd_volume_create_prepare,
	.prints = "id",
};

const struct cmd cmd_volume_ls = {
	CMD_USAGE("volume ls", "[--json]"),
	.help = "List volumes",
	.op = OP_VOLUME_LIST,
	CMD_COLUMNS({ "ID", "id" }, { "NAME", "name" }, { "SIZE", "size_bytes", AS_SIZE },
		    { "WRITER", "writer" }, { "READERS", "readers" },
		    { "AGE", "created_at", AS_AGE }),
};

static int cmd_volume_show_print(const void *reply, struct cay_err *err)
{
	return print_json(&volume_info_table, reply, err);
}

const struct cmd cmd_volume_show = {
	CMD_USAGE("volume show", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_VOLUME),
	.help = "Show a volume and how much of it is used, as JSON",
	.op = OP_VOLUME_GET,
	.print = cmd_volume_show_print,
};

static const struct opt resize_rows[] = {
	{ "size", 0, OPT_BYTES, offsetof(struct volume_resize, size_bytes), .arg = "SIZE",
	  .help = "Most disk space of its files, e.g. 40Gi" },
};

static int cmd_volume_resize_prepare(struct cli *, void *args, const struct opt_words *,
				     struct api_call *, struct cay_err *err)
{
	const struct volume_resize *q = args;

	return q->size_bytes ? 0
			     : cay_fail(err, CAY_E_INVALID, "give the new size, as in --size 40Gi");
}

const struct cmd cmd_volume_resize = {
	CMD_USAGE("volume resize", "--size SIZE NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_VOLUME),
	CMD_OPTIONS(volume_resize, OPTS(resize_rows, 0)),
	.help = "Change the size of a volume, also while a sandbox has it",
	.op = OP_VOLUME_RESIZE,
	.prepare = cmd_volume_resize_prepare,
};

const struct cmd cmd_volume_rm = {
	CMD_USAGE("volume rm", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_VOLUME),
	.help = "Delete a volume with its files; no sandbox may have it",
	.op = OP_VOLUME_DELETE,
};

#define HOST_PREFIX "host/" /* no volume has a slash in its name */

static int volume_word_apply(struct cli *c, const char *word, struct volume_mount *ret,
			     struct cay_err *err)
{
	struct slice rest = slice_of(word);
	struct slice name = slice_cut(&rest, ':'), path = slice_cut(&rest, ':');
	const char *text = arena_strndup(&c->arena, name.p, name.n);

	if (!path.p || (rest.p && !slice_eq(rest, slice_of("ro"))))
		return cay_fail(err, CAY_E_INVALID,
				"--volume %s: expected NAME:PATH or NAME:PATH:ro", word);
	ret->read_only = rest.p != NULL;
	ret->path = arena_strndup(&c->arena, path.p, path.n);
	if (!text || !ret->path)
		return cay_no_memory(err);
	if (strncmp(text, HOST_PREFIX, strlen(HOST_PREFIX)) == 0) {
		ret->host = text + strlen(HOST_PREFIX);
		return 0;
	}
	return api_find_volume(&c->api, text, &ret->volume, err);
}

int volume_words_apply(struct cli *c, const struct field_texts *words, struct field_list *ret,
		       struct cay_err *err)
{
	struct volume_mount *v = arena_alloc(&c->arena, words->n + 1, sizeof(*v));

	if (!v)
		return cay_no_memory(err);
	for (size_t i = 0; i < words->n; i++) {
		v[i] = (struct volume_mount){};
		if (volume_word_apply(c, words->v[i], &v[i], err) < 0)
			return -EINVAL;
	}
	*ret = (struct field_list){ v, words->n };
	return 0;
}
