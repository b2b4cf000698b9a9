/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_WEBHOOK_H
#define CAY_CAYD_OBSERVE_WEBHOOK_H
/*
 * webhook - events of all tenants for the operator's server (webhook.url)
 *
 * cay-egress signs and delivers them; here each is written as
 *
 *	{"type":"egress.asked","timestamp":"...","tenant":"tn...","data":{...}}
 */
#include "cayd/core/cayd.h"

/* A sandbox asks to connect to something, or that was answered. */
void webhook_send_ask(struct cayd *c, const struct id *tenant, const struct ask_info *ask,
		      bool answered);
#endif
