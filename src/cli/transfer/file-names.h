/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_FILE_NAMES_H
#define CAY_CLI_TRANSFER_FILE_NAMES_H
/* file-names - print names of files in a sandbox, escaped; a name that is not UTF-8 comes as
 * base64 */
#include "cli/core/command.h"

[[nodiscard]] int file_name_format(struct buf *out, const char *text, const char *b64);
/* List a directory as a table, or as JSON. */
[[nodiscard]] int file_names_print_dir(struct cli *c, const char *word, bool json,
				       struct cay_err *err);
#endif
