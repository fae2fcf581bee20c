/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests in virtual time.
 *
 * A test declared with unit_test(... VIRTUAL ...) links the simulation's base/loop.h, base/now.h, base/log.h,
 * net/udp.h, net/rpc.h and net/http_server.h (tests/sim/sim.h) instead of the real ones. Its code needs no
 * change: there is one host, 127.0.0.1, from before main() on, with a network path to itself and clocks that
 * run at the same rate.
 *
 * Only waiting takes time, so a busy machine changes nothing: loop_turn() goes to the next timer, packet or
 * worker at once. Workers run on the only thread, 2 ms later on average. Chance comes from the seed
 * TUTTI_TEST_SEED (default 1); the same seed gives the same run. A loop that is freed with timers or watches,
 * or a call or connection that is left over, fails the test.
 *
 * Under ThreadSanitizer (preset tsan) the same tests run on the real loop with its threads and on real sockets:
 * virtual_time_real.c.
 *
 * Not there: files to watch (loop_watch() never fires), signals, HTTP from outside, sockets.
 */
#ifndef TESTS_VIRTUAL_TIME_H
#define TESTS_VIRTUAL_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* The network from now on: one way takes `delay_ns`, and more by chance, `jitter_ns` on average. */
void virtual_network(int64_t delay_ns, int64_t jitter_ns);

/* Called by a worker's function: the worker hangs until *go is true, and only then its end is delivered. */
void virtual_hold_worker(const bool *go);
void virtual_release_worker(bool *go); /* makes it true */

/* Called by a worker's function: returns at that instant of CLOCK_MONOTONIC. As store_fault_env.wait. */
void virtual_worker_wait(void *arg, int64_t until_mono_ns);

/* An rpc whose calls come from another address than the test's. NULL on real sockets: there is but one address. */
struct loop;
struct rpc;
struct rpc *virtual_foreign_rpc(struct loop *loop);
void virtual_foreign_rpc_free(struct rpc *rpc);

#endif
