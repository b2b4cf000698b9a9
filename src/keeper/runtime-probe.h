/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_RUNTIME_PROBE_H
#define CAY_KEEPER_RUNTIME_PROBE_H
/*
 * runtime-probe - a runtime is accepted by its behaviour, not by its version
 *
 * When the keeper starts, each installed runtime has to run our OCI config, whose PID 1 is then
 * inspected, and has to run an image whose /dev is a link to a directory of ours without
 * touching that directory.
 */
#include "keeper/keeper.h"

/* A bit for each row of runtimes[] that passed; failures are logged. */
uint32_t runtime_probe_all(struct keeper *k);
#endif
