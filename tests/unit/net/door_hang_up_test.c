/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/unit/net/door_fixture.h"

/* What nng 1.5.2 forgets of such clients is its loss, and the reason for a program of its own. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libnng\n";
}

/* Clients that hang up in the middle of nng's greeting stop nng 1.5.2 from accepting; the door
 * notices and opens anew. */
static void test_hang_up_at_once(struct state *s)
{
	int64_t end_ns = now_mono_ns() + 30 * NS_PER_S;
	struct ask a;

	for (int i = 0; i < 20; i++)
		close(door_fix_socket(s->path, false));
	do {
		CHECK(now_mono_ns() < end_ns);
		door_fix_ask(s, &a, "here", 4);
		door_fix_finish(s, &a);
	} while (a.rc == ERR_CLOSED);
	CHECK_OK(a.rc, a.e);
	free(a.reply);
}

int main(void)
{
	struct state s;
	struct err e = { 0 };

	door_fix_start(&s);
	CHECK_OK(door_open(&s.door, s.loop, s.url, door_fix_handle, &s, &e), e);
	test_hang_up_at_once(&s);
	door_fix_stop(&s);
	return 0;
}
