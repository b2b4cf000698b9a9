/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_UPLOAD_TREE_IMPORT_H
#define CAY_CAYD_UPLOAD_TREE_IMPORT_H
/*
 * pour - files of one sandbox into another, past the client; or an upload of its group
 *
 *	GET .../files/tree of the one ──► PUT .../files/tree of the other ──► the answer
 *	upload, a tar of one file     ──┘
 *
 * Both are strangers and of one tenant.  What the first says is moved as it is, in chunks,
 * and never looked at; what the second answers is passed on as bytes, POUR_ANSWER_MAX of
 * them.  A second that takes no more stops the first.  When the first ends in the middle
 * the second's connection is closed in the middle too, so it takes nothing for whole.
 *
 * Here and not in the edge, because only control knows both for sure, and the operator's
 * own socket is here.  Bounded: POURS_MAX at once, POURS_TENANT of them of
 * one tenant; one in which nothing moves for POUR_STILL_MS ends; two reads and POUR_MARK each.
 */
#include "cayd/core/cayd.h"

#define TREE_IMPORTS_MAX 32
#define TREE_IMPORTS_TENANT 4
#define TREE_IMPORT_IDLE_MS 60000
#define TREE_IMPORT_HIGH_WATER KIB(64)
#define TREE_IMPORT_REPLY_MAX KIB(64)

/* The operation. */
void op_tree_import(struct cayd *c, struct request *rq);
#endif
