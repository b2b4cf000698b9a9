/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ADMIN_BUILD_ROOT_H
#define CAY_CLI_ADMIN_BUILD_ROOT_H
/*
 * build-root - the root of a build with a policy
 *
 * A script of root's, in new mount and process namespaces whose first process it is:
 *
 *	sh -c build_root_script sh TOP AUTHFILE UID DIRECTORY COMMAND...
 *
 * It makes a root of its own in memory, below TOP: programs and their settings, read-only; devices
 * that are none; no process, socket or file of this machine but TOP.  AUTHFILE, "" for none, is
 * /auth.json there and belongs to UID.  COMMAND runs in DIRECTORY; its processes end with it.
 */
#define BUILD_ROOT_AUTHFILE "/auth.json"

extern const char build_root_script[];
#endif
