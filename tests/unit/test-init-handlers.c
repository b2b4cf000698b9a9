/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"
#include "unit.h"

static void every_operation_inside_has_a_handler(void **)
{
	for (size_t i = 0; i < OP_NUM; i++)
		row_check(i, (ops[i].where == WHERE_INSIDE) == (init_handlers[i] != NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_inside_has_a_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
