/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as datagrams of PyTorch processes. The input is a row of {pid, user, length, bytes}: many processes of many
 * users, whatever they send, are never more than the limits, and a process is known by its real pid alone.
 */
#include "agent/tracer/pytorch/processes.h"

#include <stdlib.h>

#include "base/loop.h"
#include "net/datagram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_ask(void *arg, const struct pytorch_process *p, struct buf *config)
{
	(void)arg;
	if (p->pid <= 0 || p->inner_pid <= 0)
		abort();
	buf_add_str(config, "A=1\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct loop *loop;
	struct pytorch_processes *ps;
	struct buf reply = BUF_INIT;
	size_t n;

	if (!loop && loop_new(&loop, 1, NULL))
		abort();
	ps = pytorch_processes_new(loop, "", "", on_ask, NULL);
	while (size >= 3) {
		struct datagram_from from = { .pid = data[0], .uid = data[1] % 3 };
		size_t len = data[2] < size - 3 ? data[2] : size - 3;

		if (!pytorch_processes_take(ps, data + 3, len, &from, &reply, NULL) && !from.pid)
			abort();
		data += 3 + len;
		size -= 3 + len;
	}
	pytorch_processes_list(ps, &n);
	if (n > PYTORCH_PROCESSES_MAX)
		abort();
	pytorch_processes_free(ps);
	buf_release(&reply);
	return 0;
}
