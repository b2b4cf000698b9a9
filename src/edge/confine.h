/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_CONFINE_H
#define CAY_EDGE_CONFINE_H
/*
 * confine - what an edge can still do once it serves
 *
 * It can talk on sockets it has, accept more, and dial unix sockets.  It can open no
 * file, start no program and no thread, and make no memory executable.  A bug in a
 * parser finds nothing here but what passes through.
 */
#include "base/err.h"

/* For good. */
[[nodiscard]] int edge_confine(struct cay_err *err);
#endif
