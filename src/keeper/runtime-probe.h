/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_RUNTIME_PROBE_H
#define CAY_KEEPER_RUNTIME_PROBE_H
/*
 * probe - a runtime is taken by what it does, not by its version
 *
 * When the keeper starts, each runtime that is installed has to run our template
 * and is looked at from outside, and has to run an image whose /dev is a link to
 * a directory of ours without touching that directory.
 */
#include "keeper/keeper.h"

/* A bit for each row of runtimes[] that passed; what the others did is logged. */
uint32_t runtime_probe_all(struct keeper *k);
#endif
