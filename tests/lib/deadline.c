/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No unit or conformance test waits for ever, whatever it waits for: after LIMIT_S (or TUTTI_TEST_LIMIT_S, of
 * what runs outside of ctest) its program says where it is, and ends.
 * test_lib brings this into every such program. What a test forks ends with it (base/child.h).
 */
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LIMIT_S	   110 /* below that of ctest, which knows only the name of the test */
#define FRAMES_MAX 64

static void on_late(int number)
{
	static const char text[] = "test: it has not ended in time; it is at\n";
	void *frames[FRAMES_MAX];

	(void)number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), STDERR_FILENO);
	_exit(1);
}

__attribute__((constructor)) static void begin(void)
{
	const char *limit = getenv("TUTTI_TEST_LIMIT_S");

	signal(SIGALRM, on_late);
	alarm(limit ? (unsigned int)strtoul(limit, NULL, 10) : LIMIT_S);
}
