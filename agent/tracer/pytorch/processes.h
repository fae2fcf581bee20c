/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PyTorch processes of this host: those that were started with KINETO_USE_DAEMON and ask this agent every five
 * seconds whether they are to record. A process is known by the pid that the kernel attests, never by what it
 * writes. Loop thread.
 */
#ifndef AGENT_TRACER_PYTORCH_PROCESSES_H
#define AGENT_TRACER_PYTORCH_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define PYTORCH_PROCESSES_MAX 1024
#define PYTORCH_PER_USER_MAX  256
#define PYTORCH_GONE_NS \
	(60 * NS_PER_S) /* a process does not ask any more after this long without a request */
#define PYTORCH_RETRY_LISTEN_NS (30 * NS_PER_S) /* while another program has the socket */

struct loop;
struct pytorch_processes;

struct pytorch_process {
	int64_t pid;
	int32_t inner_pid; /* in its own PID namespace, as it says: part of its files' names */
	uint32_t uid;
	int64_t job; /* Slurm's, or 0 */
	char comm[16];
	int64_t asked_mono_ns; /* the last time */
	uint64_t requests;
	bool can_record; /* no recording is pending or under way, as of the last request */
	int64_t answered_mono_ns; /* when it sent the last request that was answered; 0 = never */
	int answer_fd; /* of datagram_answer(), until it is looked at; -1 = none */
	/* It did not take the last answer, and will take it for the one to its next request. */
	bool is_behind;
};

/* A process asks whether to record. Append its configuration to `config`, or nothing: then it does not
 * record. */
typedef void (*pytorch_ask_fn)(void *arg, const struct pytorch_process *p, struct buf *config);

/*
 * Listens at "@dynolog", and at DIRECTORY/dynolog unless it is NULL or "". While another program has a
 * socket, it is tried again every 30 s.
 */
struct pytorch_processes *pytorch_processes_new(struct loop *loop, const char *abstract,
						const char *directory, pytorch_ask_fn ask,
						void *arg);
void pytorch_processes_free(struct pytorch_processes *ps); /* NULL is fine */

/* Why the agent cannot listen at one of the sockets; 0 if it listens at every one that is configured. */
int pytorch_processes_error(const struct pytorch_processes *ps, struct err *e);

/* Those that asked in the last minute and have not ended; borrowed until the loop turns. */
const struct pytorch_process *pytorch_processes_list(struct pytorch_processes *ps, size_t *n);

/* Some processes asked in the last minute and are not in the list, which was full. */
bool pytorch_processes_left_out(const struct pytorch_processes *ps);

/*
 * A process waits 90 ms for the answer, before PyTorch 2.10 50 ms, and takes one that comes later for the answer to its next
 * request; from then on it is told everything one request late. So there is no late answer, one that is not taken is noticed,
 * and then the next request gets none. A request that was sent again and again to an agent that was away, and arrives at last,
 * is not waited for: the process sends the next one at once, and takes the answer to the first for it.
 */
#define PYTORCH_ANSWER_IN_NS (70 * NS_PER_MS)
#define PYTORCH_TAKEN_IN_NS  (300 * NS_PER_MS)
#define PYTORCH_AT_ONCE_NS   (40 * NS_PER_MS)

/* A datagram as the socket gives it, for tests and the fuzz target; the answer goes to `reply`, which is empty if there
 * is to be none. */
struct datagram_from;
MUST_CHECK int pytorch_processes_take(struct pytorch_processes *ps, const void *data, size_t len,
				      const struct datagram_from *from, struct buf *reply,
				      struct err *e);

#endif
