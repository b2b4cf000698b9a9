/* SPDX-License-Identifier: Apache-2.0 */
/* setup-swap - swap for the memory of sandboxes that doze: a compressed device in memory, because
 * what is on a disk in clear can be read there */
#include <stdio.h>
#include <sys/sysinfo.h>

#include "cli/setup/run-program.h"
#include "cli/setup/setup.h"
#include "text/quantity.h"

#define SIZE_LEAST MIB(64)
#define PROGRAM_MS 60000

bool setup_swap_wanted(const struct setup *s)
{
	return s->swap;
}

int setup_swap_check(struct setup *s, struct cay_err *err)
{
	struct sysinfo now;

	if (quantity_parse_bytes(slice_of(s->swap), &s->swap_bytes) < 0 ||
	    s->swap_bytes < SIZE_LEAST)
		return cay_fail(err, CAY_E_INVALID,
				"--swap: '%s' is no size of 64Mi or more; use 8Gi", s->swap);
	if (sysinfo(&now) == 0 && now.totalswap)
		return setup_report(s, 1, "%llu MiB of swap",
				    (unsigned long long)now.totalswap * now.mem_unit >> 20);
	return setup_report(s, 0, "no swap: sandboxes that doze keep their memory");
}

int setup_swap_apply(struct setup *s, struct cay_err *err)
{
	char unit[64];
	const char *argv[] = { "systemctl", "enable", "--now", unit, NULL };
	auto_buf out = BUF_INIT(KIB(4));
	int r;

	if (snprintf(unit, sizeof(unit), "cay-swap@%llu.service",
		     (unsigned long long)s->swap_bytes) >= (int)sizeof(unit))
		return cay_fail(err, CAY_E_INVALID, "--swap is too large");
	if (!setup_systemd_runs())
		return setup_report(s, 1,
				    "systemd is not running; as root: modprobe zram; d=$(zramctl "
				    "--find --size %llu) && echo %llu "
				    ">/sys/block/${d#/dev/}/mem_limit && mkswap $d && swapon $d",
				    (unsigned long long)s->swap_bytes,
				    (unsigned long long)s->swap_bytes / 2);
	r = run_program_to_end(&s->cli->arena, argv, NULL, PROGRAM_MS, &out, err);
	if (r > 0) {
		api_hint_set(s->api, "see 'journalctl -u cay-swap@*'; the kernel needs zram");
		return setup_program_fail_last("systemctl enable", &out, err);
	}
	return r < 0 ? r
		     : setup_report(s, 0, "%s: %llu MiB, compressed in memory", unit,
				    (unsigned long long)s->swap_bytes >> 20);
}
