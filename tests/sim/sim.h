/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates a cluster in one process, on a virtual clock, from a seed. The agent and the aggregator are the
 * real code; the front-door headers of base/ and net/ that they use have a second implementation here.
 *
 *   sched.c   events in order of virtual time, random numbers, the hash of all that happened
 *   host.c    hosts: their clocks (base/now.h), what happens to them, their log lines (base/log.h)
 *   loop.c    base/loop.h: timers, posts and workers by virtual time
 *   udp.c     net/udp.h          wire.c, channel.c, call.c   net/rpc.h          http.c   net/http_server.h
 *   daemon.c  starts, stops and kills agents and the aggregator; tracer.c records bursts; job.c marks steps
 *   flaky_store.c  the aggregator's store: takes time, fails, is away, kills it; fiber.c lets a worker wait
 *   user.c    requests captures, stops, cancels, retries; client.c uses ProfilerService; snapshots.c the past
 *   more.c    what some seeds draw besides, from random numbers of its own
 *   check.c   checks the sessions; check_store.c what is in the store and in spools
 *   play.c    the schedule of a seed; fleet.c its machines; main.c the command line
 *
 * True time is virtual, in ns since the begin of the simulation, and the same on all hosts. Code takes no time,
 * except to read a clock; a worker, a packet and a slow host take a random time.
 * The seed alone decides what happens, so a seed that fails once fails each time.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/now.h"

/* ---- random numbers: xorshift64* ---- */

struct rng {
	uint64_t state;
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
int64_t rng_range(struct rng *r, int64_t from, int64_t to); /* both included */
bool rng_chance(struct rng *r, double p);
double rng_unit(struct rng *r); /* [0, 1) */
int64_t rng_wait(struct rng *r, double mean); /* exponentially distributed */
int64_t rng_scale(struct rng *r, int64_t from, int64_t to); /* log-uniform */

/* ---- events ---- */

typedef void (*sim_fn)(void *arg);

/* Embedded in its owner, which cancels it before it frees itself; zeroed means idle. */
struct sim_event {
	int64_t at_ns;
	uint64_t seq;
	sim_fn fn;
	void *arg;
	size_t slot; /* 1 + place in the heap; 0 = idle */
};

void sim_at(struct sim_event *ev, int64_t at_ns, sim_fn fn, void *arg); /* sets or moves it */
void sim_cancel(struct sim_event *ev);
bool sim_step(void); /* runs the next event; false if there is none */
void sim_run(int64_t until_ns);

/* ---- the world ---- */

struct sim_host;

struct sim {
	uint64_t seed;
	struct rng rng;
	int64_t now_ns;
	struct sim_event **heap;
	size_t n, cap;
	uint64_t seq, steps;
	uint64_t hash; /* of all that happened so far */
	struct sim_host *host; /* whose code is running; NULL = the simulation's own */
	struct sim_host **hosts; /* the first one is the aggregator's that leads */
	size_t n_hosts;
	struct sim_host
		*standby; /* of the other aggregator, on the same machine; NULL = there is one */
	int verbose;
	unsigned int failures;
};
extern struct sim sim;

void sim_begin(uint64_t seed);
void sim_end(void); /* events that are still set are dropped: their owners are freed */

/* Records what happened in the hash and, with --verbose, on stderr. */
void sim_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
void sim_hash(const void *data, size_t len);

/* The seed has failed: prints that, with the command that plays it again. */
void sim_fail(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* ---- hosts ---- */

/* In a larger fleet failures are rarer, and a capture takes all hosts. */
#define LARGE_FLEET 20

/* One way over the network, between a host and the aggregator. */
struct sim_path {
	int64_t delay_ns; /* the least delay */
	double jitter_ns; /* mean of the random delay that is added */
	double loss; /* share of lost datagrams; a lost TCP segment arrives later instead */
	double twice; /* share of datagrams that arrive twice */
};

struct sim_host {
	char name[24];
	bool alive; /* a daemon runs */
	bool cleaning_up; /* it was killed and is being cleaned up: no peer receives from it */
	bool vanished; /* it lost power: peers are not informed that its connections are gone */
	int64_t cleanup_ns; /* time that passes for it alone during the clean-up */

	/* clocks */
	int64_t raw0_ns, mono0_ns, real0_ns; /* at true time 0 */
	int64_t raw_ppb, mono_ppb; /* error of the clock's rate: positive = too fast */
	struct sim_sleep {
		int64_t from_ns, to_ns; /* neither raw nor mono runs */
	} sleeps[64];
	size_t n_sleeps; /* in order; the last one may not have ended yet */
	bool asleep;
	int64_t stepped_ns; /* sum of the steps of the wall clock */

	/* network */
	struct sim_path there, back;
	int64_t bytes_per_s;
	int64_t cut_until_ns; /* no packet arrives until then */
	bool kernel_stamps;

	/* execution */
	int64_t busy_until_ns; /* its latest code takes until then */
	int64_t paused_until_ns; /* none of its code runs until then */
	int64_t slow_ns; /* mean delay before code gets the processor */
	int64_t well_since_ns; /* true time: the last failure that befell it is over then */
	enum sim_mark { SIM_MARK_NONE, SIM_MARK_SPOILT, SIM_MARK_BIG } mark; /* tests/sim/more.h */
	char marked[64]; /* the session that the mark is for */
	struct sim_event wake;
	TAILQ_HEAD(, loop) loops;
};

struct sim_host *host_new(const char *name);
struct sim_host *host_new_outside(const char *name); /* not in sim.hosts: nothing befalls it */
struct sim_host *host_find(
	const char *name); /* or NULL; "leader" is that of the aggregator that leads */
void host_free(struct sim_host *h);

/* True time, plus cleanup_ns while the host is being cleaned up. */
int64_t host_now_ns(const struct sim_host *h);
int64_t sim_here_ns(void); /* of the host whose code runs */
int64_t host_raw_ns(const struct sim_host *h, int64_t true_ns);
int64_t host_mono_ns(const struct sim_host *h, int64_t true_ns);
int64_t host_real_ns(const struct sim_host *h, int64_t true_ns);
int64_t host_true_of_mono(const struct sim_host *h,
			  int64_t mono_ns); /* the first instant at or after */
bool host_is_asleep(const struct sim_host *h, int64_t true_ns);

/* Failures of a host. */
void host_pause(struct sim_host *h, int64_t for_ns); /* SIGSTOP: clocks run, the kernel answers */
void host_suspend(struct sim_host *h, int64_t for_ns); /* the whole machine, until it is woken */
void host_cut(struct sim_host *h, int64_t for_ns); /* no packet in or out */
void host_set_speed(struct sim_host *h,
		    int64_t bytes_per_s); /* what was sent slowly until now may be late */
void host_step(struct sim_host *h, int64_t by_ns); /* its wall clock is set */

/* ---- network ---- */

/* How long a packet takes between two hosts, one of which is the aggregator's. */
int64_t net_delay_ns(const struct sim_host *from, const struct sim_host *to);
const struct sim_path *net_path(const struct sim_host *from, const struct sim_host *to);
int64_t net_cut_until_ns(const struct sim_host *a,
			 const struct sim_host *b); /* 0 = it is not cut */

/* For the connections of this host. Its process has ended: peers are informed unless the host vanished. It does
 * not answer: peers may notice the silence. */
void wire_host_gone(struct sim_host *h);
void wire_host_silent(struct sim_host *h);
size_t wire_connections(void); /* how many are open */
void http_host_gone(struct sim_host *h);

/* loop_clock_set(): reports to the host's loops that its wall clock was set. loop_replan(): sets their timers
 * again, because the map from mono time to true time has changed. */
void loop_clock_set(struct sim_host *h);
void loop_replan(struct sim_host *h);

/* Called in a worker's function: the worker's `done` is called only once *go is true. */
void loop_hold_worker(const bool *go);

/* Called in a worker's function: returns at that true time, or at once when its host is being cleaned up. False
 * outside of workers, where it does not wait. */
bool loop_worker_wait(int64_t until_ns);

/* ---- requests to the aggregator ---- */

/* status 0: no aggregator runs, or it ended before it answered. */
typedef void (*sim_answer_fn)(void *arg, int status, const char *body, size_t len);
void http_ask(const char *method, const char *path, const char *body, sim_answer_fn fn, void *arg);

#endif
