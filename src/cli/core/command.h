/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CORE_COMMAND_H
#define CAY_CLI_CORE_COMMAND_H
/*
 * command - the commands of `cay`, one row each
 *
 * commands.def lists them; help, cay(1), completion and the dispatcher read the rows.  A
 * command gets its options in the struct of its row and returns its exit status, or -errno
 * with err set, which main prints as "cay: ..." and turns into the exit status of the error.
 */
#include "cli/client/api.h"
#include "cli/core/options.h"
#include "ops/settings.h"

enum cmd_needs {
	CMD_NEEDS_DAEMON,       /* sends requests to the server of the context */
	CMD_NEEDS_THIS_MACHINE, /* works on this machine: refused with another context */
	CMD_NEEDS_NOTHING,      /* sends no requests: works with unreadable contexts */
};

/* Options of every command; json not of those with .no_json. */
struct global_options {
	const char *context; /* or NULL */
	bool no_pager, json;
};
extern const struct opt opts_everywhere[2];
extern const struct opt opts_json[1];

struct cli {
	struct settings settings;
	struct cay_err settings_error; /* why they are the defaults, or no error */
	struct global_options global;
	struct api api;
	struct arena arena; /* words and options */
	const void *args;   /* the options of the command, in the struct of its row */
};

/* The words after "--".  A command follows the last operand and begins with the first word that is
 * no option, also without "--". */
enum cmd_rest { REST_NONE, REST_OPTIONAL, REST_COMMAND };

#define CMD_OPERANDS_MAX 2

struct column; /* cli/print/list.h */

/*
 * A row without a run function calls `op`: prepare() checks the words and completes args and
 * call; the first operand names the object in the path, by operands[0]; a second one that is
 * OPERAND_SERVICE or OPERAND_KERNEL names the next in the path; the args struct, where there is
 * one, is the request or the query.  The reply is printed as `columns`, `print` (also after
 * columns) or `prints` say, or not at all; with --json as it came.
 */
struct cmd {
	const char *name;                        /* one word or two */
	const char *args;                        /* operands, for help */
	enum operand operands[CMD_OPERANDS_MAX]; /* the last also of all after it */
	size_t min, max;                         /* how many operands */
	enum cmd_rest rest;
	enum cmd_needs needs;
	bool no_json;                    /* has no --json */
	bool ignores_settings_error;     /* runs with the defaults if cay.conf is not valid */
	const struct opt_group *options; /* ended by a group without rows; or NULL */
	size_t size;                     /* of the struct they fill */
	const void *defaults;            /* such a struct; NULL: zero, or as init_args() says */
	void (*init_args)(void *args);
	const char *help; /* one line */
	const char *more; /* paragraphs, or NULL */
	int (*run)(struct cli *c, const struct opt_words *w, struct cay_err *err);
	enum op_id op;
	int (*prepare)(struct cli *c, void *args, const struct opt_words *w, struct api_call *call,
		       struct cay_err *err); /* or NULL */
	size_t operand_at[3];                /* OPERAND_AT: an operand that is text of the args */
	const struct column *columns;        /* the reply is a list */
	bool (*wanted)(const void *row);     /* which rows of it; NULL: all */
	int (*print)(const void *reply, struct cay_err *err);
	const char *prints; /* this member of the reply, on a line */
};

#define OPTS(rows_, base_) { .rows = (rows_), .n = ARRAY_SIZE(rows_), .base = (base_) }
#define OPTS_END { .rows = NULL }
/* Parts of a row: its name and words for help, its options, how many operands of which kinds. */
#define CMD_USAGE(name_, args_) .name = (name_), .args = (args_)
#define CMD_OPTIONS(S, ...) \
	.options = (const struct opt_group[]){ __VA_ARGS__, OPTS_END }, .size = sizeof(struct S)
#define CMD_OPERANDS(min_, max_, ...) .min = (min_), .max = (max_), .operands = { __VA_ARGS__ }
#define OPERAND_AT(S, m) (offsetof(struct S, m) + 1)

#define CAY_COMMAND(group, sym) extern const struct cmd cmd_##sym;
#include "cli/core/commands.def"
#undef CAY_COMMAND

extern const struct cmd *const commands[]; /* ended by NULL */

enum cmd_group {
	GROUP_EVERYDAY,
	GROUP_SANDBOXES,
	GROUP_FILES,
	GROUP_IMAGES,
	GROUP_ACCESS,
	GROUP_NODE,
};
extern const enum cmd_group command_groups[]; /* of each of commands[] */

/* The command that the words begin with, or NULL; *ret_words of them are its name. */
const struct cmd *cmd_find(const char *const *words, size_t n, size_t *ret_words);
/* A similar name, or NULL. */
const char *cmd_find_similar(const char *word);
/* Describe words that name no command: a message, and a hint or "". */
[[nodiscard]] int cmd_describe_unknown(const char *const *words, size_t n, struct buf *message,
				       struct buf *hint);
/* The context to use: --context, the environment, or the current one. */
[[nodiscard]] int cmd_choose_context_name(const struct cli *c,
					  char ret[static CONTEXT_NAME_MAX + 1],
					  struct cay_err *err);
/* Read a context; sets a hint on failure. */
[[nodiscard]] int cmd_load_context(struct cli *c, const char *name, struct context *ret,
				   struct cay_err *err);
/* Run a command with the words after its name. */
[[nodiscard]] int cmd_dispatch(struct cli *c, const struct cmd *cmd, const char *const *words,
			       size_t n, struct cay_err *err);

/* The i-th option of a command, --json last; NULL: there are no more. */
const struct opt *cmd_option_at(const struct cmd *cmd, size_t i);

/* Help for one command, the list of all, and cay(1) as scdoc source. */
[[nodiscard]] int help_format_command(const struct cmd *cmd, struct buf *out);
[[nodiscard]] int help_format_list(struct buf *out);
/* The same as one line of JSON; NULL: all commands. */
[[nodiscard]] int help_format_json(const struct cmd *cmd, struct buf *out);
[[nodiscard]] int help_format_man(struct buf *out);

/* The options of an egress policy: names of presets, and NAME[:PORTS]. */
struct egress_options {
	struct field_texts presets, allow, ask, deny, expose;
};
/* Names of presets and NAME[:PORTS] to allow, in any order. */
[[nodiscard]] int egress_words_apply(struct cli *c, const struct field_texts *words,
				     struct egress_spec *ret, struct cay_err *err);
/* The same as text, "git db.example.com:5432". */
[[nodiscard]] int egress_words_write(const struct egress_spec *spec, struct buf *ret);
[[nodiscard]] int egress_options_apply(struct cli *c, const struct egress_options *o,
				       struct egress_spec *ret, struct cay_err *err);

/* The options of create, shared with run and templates. */
struct sandbox_create_args {
	struct sandbox_create create;
	const char *idempotency_key; /* or NULL, here and below */
	const char *writable;        /* paths separated by commas */
	const char *registry_auth;   /* path of a file */
	const char *warm_python;     /* modules separated by commas */
	struct field_map services;
	struct egress_options egress;
};
extern const struct opt opts_create[37];
/* request: a struct sandbox_create, or one that begins with it (init_args of such rows). */
void create_request_init(void *request);
/* Mark members that no option has set as absent: the server or the template decides. */
void create_request_mark_given(struct sandbox_create *request);
/* Fill the request from the options. */
[[nodiscard]] int create_request_apply_args(struct cli *c, const struct sandbox_create_args *a,
					    struct sandbox_create *request, struct cay_err *err);
void service_put_set_defaults(void *put); /* a struct service_put, or one that begins with it */
/* Set the image from the operand; exactly one of image and template must be given. */
[[nodiscard]] int create_request_set_image(struct sandbox_create *request,
					   const struct opt_words *w, struct cay_err *err);
/* Volumes as words NAME:PATH or NAME:PATH:ro. */
[[nodiscard]] int volume_words_apply(struct cli *c, const struct field_texts *words,
				     struct field_list *ret, struct cay_err *err);
/* Fill the request from the options and send it. */
[[nodiscard]] int create_request_send(struct cli *c, const struct sandbox_create_args *a,
				      struct sandbox_info *ret, struct cay_err *err);

/* The same for this many; each outcome is printed as it comes.  Returns 1 if one of them failed. */
[[nodiscard]] int create_many_send(struct cli *c, const struct sandbox_create_args *a,
				   uint64_t count, struct cay_err *err);

/* Send a request whose reply is outcomes of this many creates, and print them the same way. */
[[nodiscard]] int create_outcomes_print(struct cli *c, struct api_call *call, uint64_t count,
					struct cay_err *err);

/* Print a struct as one line of JSON. */
[[nodiscard]] int print_json(const struct field_table *t, const void *in, struct cay_err *err);
/* End the JSON that w has written to out, and print it. */
[[nodiscard]] int print_json_finish(struct jw *w, struct buf *out, struct cay_err *err);
/* Begin an object with one array; end both and print them. */
struct jw json_list_begin(struct buf *out, const char *name);
[[nodiscard]] int json_list_print(struct jw *w, struct buf *out, struct cay_err *err);
/* Print a reply: with --json as it came, else this member of it; NULL: nothing. */
[[nodiscard]] int reply_print(struct cli *c, enum op_id op, const void *reply, const char *member,
			      struct cay_err *err);

/* Print usage and limits of one sandbox. */
[[nodiscard]] int sandbox_usage_print(struct cli *c, const char *word, struct cay_err *err);
/* Remove every sandbox of a group and wait for each; json: an open array for them, or NULL. */
[[nodiscard]] int sandbox_group_remove(struct api *a, const char *group, struct jw *json,
				       struct cay_err *err);
/* Call it, and print the reply as reply_print() does. */
[[nodiscard]] int api_call_print(struct cli *c, const struct api_call *call, const char *member,
				 struct cay_err *err);

/* Send the content of fd as the body of a call; total: bytes to expect, 0: unknown. */
[[nodiscard]] int file_content_send(struct cli *c, const struct api_call *call, int fd,
				    uint64_t total, void *ret, struct cay_err *err);
[[nodiscard]] int service_name_check(const char *name, struct cay_err *err);

/* Import an image from a path; create a template. */
[[nodiscard]] int image_import_send(struct cli *c, const char *path, const char *name,
				    struct image_info *ret, struct cay_err *err);
/* of: further members of the request, or NULL. */
[[nodiscard]] int template_create_send(struct cli *c, const struct template_create *of,
				       const char *name, const char *image,
				       const struct sandbox_create_args *make,
				       const struct opt_words *w, struct template_info *ret,
				       struct cay_err *err);
#endif
