/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_UPLOAD_TREE_IMPORT_H
#define CAY_CAYD_UPLOAD_TREE_IMPORT_H
/*
 * tree-import - copy files from one sandbox, or an upload of its group, into another
 *
 *	GET .../files/tree of the source ──► PUT .../files/tree of the destination ──► reply
 *	upload, as a tar of one file     ──┘
 *
 * Both sandboxes are untrusted and of one tenant.  Bytes of the source are passed on in chunks
 * and never parsed; the reply of the destination is passed on, TREE_IMPORT_REPLY_MAX bytes of
 * it.  A destination that does not read stops the source.  When the source fails midway, the
 * connection to the destination is cut midway, so that it does not take the tree as complete.
 *
 * This is in control and not in an edge, because only control knows both sandboxes for certain,
 * and it serves the operator's socket.  Bounded: TREE_IMPORTS_MAX at once, TREE_IMPORTS_TENANT
 * of them of one tenant, each ends after TREE_IMPORT_IDLE_MS without progress; memory: two
 * reads and TREE_IMPORT_HIGH_WATER each.
 */
#include "cayd/core/cayd.h"

#define TREE_IMPORTS_MAX 32
#define TREE_IMPORTS_TENANT 4
#define TREE_IMPORT_IDLE_MS 60000
#define TREE_IMPORT_HIGH_WATER KIB(64)
#define TREE_IMPORT_REPLY_MAX KIB(64)

#endif
