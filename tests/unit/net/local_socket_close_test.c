/* SPDX-License-Identifier: Apache-2.0 */
#include <semaphore.h>

#include "net/local_impl.h"
#include "tests/lib/check.h"

struct socket {
	sem_t may_close, closed;
};

static void socket_close(void *arg)
{
	struct socket *s = arg;

	while (sem_wait(&s->may_close))
		;
	CHECK(!sem_post(&s->closed));
}

static void test_ends_at_once(struct socket *s)
{
	CHECK(!sem_post(&s->may_close));
	local_close_on_thread(socket_close, s);
	CHECK(!sem_trywait(&s->closed));
}

/* As nng's may: whoever closes it goes on all the same. */
static void test_never_ends(struct socket *s)
{
	local_close_on_thread(socket_close, s);
	CHECK(sem_trywait(&s->closed));
	CHECK(!sem_post(&s->may_close));
	while (sem_wait(&s->closed))
		;
}

int main(void)
{
	struct socket s;

	CHECK(!sem_init(&s.may_close, 0, 0) && !sem_init(&s.closed, 0, 0));
	test_ends_at_once(&s);
	test_never_ends(&s);
	return 0;
}
