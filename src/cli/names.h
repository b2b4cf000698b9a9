/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_NAMES_H
#define CAY_CLI_NAMES_H
/* names - of files in a sandbox, for people: text, or base64 of what is not UTF-8; escaped */
#include "cli/cmd.h"

[[nodiscard]] int names_show(struct buf *out, const char *text, const char *b64);
/* A directory as a table, or as JSON. */
[[nodiscard]] int names_list(struct cli *c, const char *word, bool json, struct cay_err *err);
#endif
