/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_CONTEXT_H
#define CAY_CLI_CLIENT_CONTEXT_H
/*
 * context - a daemon somewhere, by a name: its url, who vouches for it, our token
 *
 * One file each, NAME.context, in $XDG_CONFIG_HOME/cay or ~/.config/cay; the file
 * "current" there names the one that is asked when nothing else is said.  "local" is
 * not a file: it is the socket of this machine.
 *
 * A file holds a secret and decides whom it is sent to, so one that others own or may
 * read, in a directory others may write to, is refused and not read.  Plain HTTP is for
 * loopback alone: a context that would send its token past a stranger does not exist.
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
	char ca[CONTEXT_CA_MAX + 1]; /* "": those the system believes */
	char token[CONTEXT_TOKEN_MAX + 1];
};

#define auto_context CAY_CLEANUP(context_wipe) struct context

void context_wipe(struct context *c);

/* A url that a token may be sent to. */
[[nodiscard]] int context_url_parse(const char *text, struct url *ret, struct cay_err *err);
/* A token: one word of visible ASCII, white space at its ends is not of it. */
[[nodiscard]] int context_token_parse(struct slice text, char ret[static CONTEXT_TOKEN_MAX + 1],
				      struct cay_err *err);
/* Whether it may be the name of one that is a file. */
[[nodiscard]] int context_name_check(const char *name, struct cay_err *err);

/* A file's text, both ways; name is not in it.  No error repeats what it read. */
[[nodiscard]] int context_parse(struct slice text, struct context *ret, struct cay_err *err);
[[nodiscard]] int context_format(const struct context *c, struct buf *out);

/* The directory; made when it is not there and make says so.  1 when it is not. */
[[nodiscard]] int context_dir_open(bool make, struct buf *ret_path, int *ret_fd,
				   struct cay_err *err);
[[nodiscard]] int context_load(const char *name, struct context *ret, struct cay_err *err);
/* CAY_E_CONFLICT when it is there and may not be replaced. */
[[nodiscard]] int context_save(const struct context *c, bool replace, struct cay_err *err);
[[nodiscard]] int context_remove(const char *name, struct cay_err *err);
/* Names, sorted, each ended by a 0. */
[[nodiscard]] int context_list_names(struct buf *out, struct cay_err *err);
/* The current one; CONTEXT_LOCAL when none is. */
[[nodiscard]] int context_read_current(char ret[static CONTEXT_NAME_MAX + 1], struct cay_err *err);
/* Make it the current one, whether it is there or not. */
[[nodiscard]] int context_set_current(const char *name, struct cay_err *err);
#endif
