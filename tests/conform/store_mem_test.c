/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/store.h"
#include "tests/conform/store_conform.h"
#include "tests/lib/check.h"

int main(void)
{
	struct store *s;
	struct err e;

	store_conform("mem://conform");
	CHECK_OK(store_open(&s, "mem://", &e), e);
	CHECK(!store_directory(s));
	CHECK_OK(store_put_bytes(s, "left", "x", 1, 0, STORE_NO_DEADLINE, &e), e);
	store_free(s);
	return 0;
}
