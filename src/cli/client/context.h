/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_CONTEXT_H
#define CAY_CLI_CLIENT_CONTEXT_H
/*
 * context - a named daemon: its url, trusted CA and token
 *
 * One file each, NAME.context, in $XDG_CONFIG_HOME/cay or ~/.config/cay; the file
 * "current" there names the default.  "local" has no file: it is this machine's socket.
 *
 * A file holds a secret and the address it is sent to.  Files that other users own or may
 * read, and directories they may write to, are refused.  Plain HTTP is allowed to loopback
 * only, so no context sends its token unencrypted over a network.
 */
#include "base/buf.h"
#include "cli/client/url.h"

#define CONTEXT_LOCAL "local"
#define CONTEXT_NAME_MAX 63
#define CONTEXT_CA_MAX 4095 /* PATH_MAX less one */
#define CONTEXT_TOKEN_MAX 4095
#define CONTEXT_FILE_MAX KIB(16)

struct context {
	char name[CONTEXT_NAME_MAX + 1];
	struct url url;
	char ca[CONTEXT_CA_MAX + 1]; /* "": the system's CAs */
	char token[CONTEXT_TOKEN_MAX + 1];
};

#define auto_context CAY_CLEANUP(context_wipe) struct context

void context_wipe(struct context *c);

/* A url that a token may be sent to. */
[[nodiscard]] int context_url_parse(const char *text, struct url *ret, struct cay_err *err);
/* A token: one word of printable ASCII; white space around it is dropped. */
[[nodiscard]] int context_token_parse(struct slice text, char ret[static CONTEXT_TOKEN_MAX + 1],
				      struct cay_err *err);
/* Whether a file may have this name; "local" may not. */
[[nodiscard]] int context_name_check(const char *name, struct cay_err *err);

/* The text of a file, without the name.  Errors never quote it. */
[[nodiscard]] int context_parse(struct slice text, struct context *ret, struct cay_err *err);
[[nodiscard]] int context_format(const struct context *c, struct buf *out);

/* Append the path $VARIABLE/cay, or ~/BELOW/cay.  1 when neither variable is set. */
[[nodiscard]] int xdg_dir_format(const char *variable, const char *below, struct buf *ret,
				 struct cay_err *err);
/* Create the missing directories of the path. */
[[nodiscard]] int xdg_dir_create(struct buf *path, struct cay_err *err);
/* Open the directory; make: create it if it is missing.  1 when it does not exist. */
[[nodiscard]] int context_dir_open(bool make, struct buf *ret_path, int *ret_fd,
				   struct cay_err *err);
[[nodiscard]] int context_load(const char *name, struct context *ret, struct cay_err *err);
/* CAY_E_CONFLICT when it exists and replace is false. */
[[nodiscard]] int context_save(const struct context *c, bool replace, struct cay_err *err);
[[nodiscard]] int context_remove(const char *name, struct cay_err *err);
/* Append the names, sorted, each ended by a 0. */
[[nodiscard]] int context_list_names(struct buf *out, struct cay_err *err);
/* The current context; CONTEXT_LOCAL when none is set. */
[[nodiscard]] int context_read_current(char ret[static CONTEXT_NAME_MAX + 1], struct cay_err *err);
/* Does not check that the context exists. */
[[nodiscard]] int context_set_current(const char *name, struct cay_err *err);
#endif
