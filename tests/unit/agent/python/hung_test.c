/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are left alone after a reader of their memory hung, and for how long. A pipe stands for a reader. */
#include "agent/python/hung.h"

#include <unistd.h>

#include "agent/proc/status.h"
#include "tests/lib/check.h"

#define OTHER 4711 /* users */
#define PID   UINT32_C(4000000) /* and up: none of them runs */

/* A reader hangs; its end comes back when it is closed. */
static int hang(struct python_hung *h, uint32_t pid, uint32_t uid, int64_t now_ns)
{
	int fds[2];

	CHECK(!pipe(fds));
	python_hung_add(h, pid, uid, fds[0], now_ns);
	return fds[1];
}

static void a_process_is_left_alone_until_its_reader_is_back(void)
{
	struct python_hung *h = python_hung_new();
	int64_t now_ns = 0;

	for (int64_t rest_ns = PYTHON_REST_NS; rest_ns <= 4 * PYTHON_REST_NS; rest_ns *= 2) {
		int reader = hang(h, PID, OTHER, now_ns);

		now_ns += 3600 * NS_PER_S;
		python_hung_look(h, now_ns);
		CHECK(python_hung_has(h, PID) && !python_hung_has(h, PID + 1));
		close(reader);
		python_hung_look(h, now_ns);
		now_ns += rest_ns - 1;
		python_hung_look(h, now_ns);
		CHECK(python_hung_has(h, PID));
		python_hung_look(h, ++now_ns);
		CHECK(!python_hung_has(h, PID));
	}
	CHECK(!python_hung_is_full(h));
	python_hung_free(h);
}

/* This process is of the user whose other processes have readers hang. */
static void a_user_takes_no_more_than_his_share(void)
{
	struct python_hung *h = python_hung_new();
	const uint32_t pid = (uint32_t)getpid();
	struct proc_status status;
	int64_t now_ns = 0;

	CHECK(proc_status_of(pid, &status));
	for (uint32_t i = 0; i < PYTHON_HUNG_FREE; i++) {
		CHECK(!python_hung_has(h, pid));
		python_hung_add(h, PID + i, OTHER, -1, now_ns);
		python_hung_add(h, PID + 100 + i, status.uid, -1, now_ns);
	}
	CHECK(python_hung_has(h, pid));
	now_ns += PYTHON_REST_NS << (PYTHON_HUNG_FREE - 1);
	python_hung_look(h, now_ns);
	CHECK(!python_hung_has(h, pid));
	/* Each further hang takes longer, up to a limit. */
	for (int i = 0; i < 20; i++)
		python_hung_add(h, PID, status.uid, -1, now_ns);
	python_hung_look(h, now_ns + PYTHON_REST_MAX_NS - 1);
	CHECK(python_hung_has(h, pid));
	python_hung_look(h, now_ns + PYTHON_REST_MAX_NS);
	CHECK(!python_hung_has(h, pid));
	/* In the end all is forgotten. */
	python_hung_look(h, now_ns + 10 * PYTHON_REST_MAX_NS);
	python_hung_add(h, PID, status.uid, -1, now_ns);
	CHECK(!python_hung_has(h, pid));
	python_hung_free(h);
}

static void readers_are_bounded(void)
{
	struct python_hung *h = python_hung_new();
	int readers[PYTHON_HUNG_MAX];

	for (uint32_t i = 0; i < PYTHON_HUNG_MAX; i++) {
		CHECK(!python_hung_is_full(h));
		readers[i] = hang(h, PID + i, OTHER + i, 0);
	}
	CHECK(python_hung_is_full(h));
	close(readers[3]);
	python_hung_look(h, 0);
	CHECK(!python_hung_is_full(h));
	/* However many have hung, those that do now are known. */
	for (uint32_t i = 0; i < 1000; i++)
		python_hung_add(h, PID + 1000 + i, OTHER + 1000 + i, -1, 1);
	CHECK(python_hung_has(h, PID) && python_hung_has(h, PID + 15));
	for (int i = 0; i < PYTHON_HUNG_MAX; i++)
		if (i != 3)
			close(readers[i]);
	python_hung_free(h);
}

/* It is not known where: all rest. */
static void a_hang_in_no_process(void)
{
	struct python_hung *h = python_hung_new();

	python_hung_add(h, 0, UINT32_MAX, -1, 0);
	CHECK(python_hung_is_full(h));
	python_hung_look(h, PYTHON_REST_NS);
	CHECK(!python_hung_is_full(h));
	python_hung_free(h);
}

int main(void)
{
	a_process_is_left_alone_until_its_reader_is_back();
	a_user_takes_no_more_than_his_share();
	readers_are_bounded();
	a_hang_in_no_process();
	return 0;
}
