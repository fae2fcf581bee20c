/* SPDX-License-Identifier: Apache-2.0 */
#include "net/udp.h"

#include <stdbool.h>

#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

#define N_PROBES 200

struct side {
	struct udp *udp;
	int n;
	int64_t sent_raw_ns, back_raw_ns; /* the last one's */
	size_t len;
	bool echo, free_it;
	char last[16];
};

static void on_datagram(void *arg, const void *data, size_t len, int64_t raw_ns,
			const struct udp_from *from)
{
	struct side *s = arg;

	s->n++;
	s->len = len;
	s->back_raw_ns = raw_ns;
	memcpy(s->last, data, len < sizeof(s->last) ? len : sizeof(s->last));
	/* Whatever the stamp's source: it is not in the future. */
	CHECK(raw_ns <= now_raw_ns());
	if (s->echo)
		udp_send_to(s->udp, from, data, len);
	if (s->free_it) {
		udp_free(s->udp);
		s->udp = NULL;
	}
}

static void wait_for(struct loop *l, const struct side *s, int n)
{
	RUN_UNTIL(l, s->n >= n);
}

/* The rule the clock stands on: an arrival is never stamped before the sending. */
static void test_stamps_are_never_early(struct loop *l, struct side *server, struct side *client)
{
	for (int i = 0; i < N_PROBES; i++) {
		int64_t sent_raw_ns = now_raw_ns();

		udp_send(client->udp, &i, sizeof(i));
		wait_for(l, client, i + 1);
		CHECK(server->back_raw_ns >= sent_raw_ns);
		CHECK(client->back_raw_ns >= server->back_raw_ns);
		CHECK_EQ(client->len, sizeof(i));
		CHECK(!memcmp(client->last, &i, sizeof(i)));
	}
}

/* A burst that waits in the kernel is stamped when it came, not when it was read: with kernel
 * stamps, which every Linux has, the stamps lie before the reading began. */
static void test_burst(struct loop *l, struct side *server, struct side *client)
{
	int64_t read_from_ns;
	int n = server->n;

	server->echo = false;
	for (int i = 0; i < 10; i++)
		udp_send(client->udp, "burst", 5);
	read_from_ns = now_raw_ns();
	wait_for(l, server, n + 10);
	CHECK(server->back_raw_ns <= read_from_ns + NS_PER_MS);
	server->echo = true;
}

static void test_odd_sizes(struct loop *l, struct side *server, struct side *client)
{
	static char big[4000];
	int n = client->n;

	udp_send(client->udp, "", 0);
	wait_for(l, client, n + 1);
	CHECK_EQ(client->len, 0);
	udp_send(client->udp, big, sizeof(big));
	wait_for(l, client, n + 2);
	CHECK(client->len < sizeof(big)); /* cut: no probe is that long */
	CHECK(server->len == client->len);
}

/* ---- departures ---- */

struct leaving {
	struct udp *udp;
	uint32_t last_id;
	int64_t left_raw_ns;
	int told, answers;
};

static void on_left(void *arg, uint32_t id, int64_t raw_ns)
{
	struct leaving *s = arg;

	s->told++;
	s->last_id = id;
	s->left_raw_ns = raw_ns;
}

static void on_answer(void *arg, const void *data, size_t len, int64_t raw_ns,
		      const struct udp_from *from)
{
	struct leaving *s = arg;

	(void)data;
	(void)len;
	(void)from;
	CHECK(!s->told || s->left_raw_ns <= raw_ns);
	s->answers++;
}

/* A departure is told before its answer, under its number, between the hand-over and the arrival. */
static void test_departures(struct loop *l, int port)
{
	struct leaving s = { 0 };
	struct err e;

	CHECK_OK(udp_dial(&s.udp, l, "127.0.0.1", port, on_answer, &s, &e), e);
	udp_on_sent(s.udp, on_left);
	for (int i = 0; i < N_PROBES; i++) {
		uint32_t id = udp_next_id(s.udp);
		int64_t before_ns = now_raw_ns();
		int told = s.told;

		udp_send(s.udp, "hello", 5);
		RUN_UNTIL(l, s.answers > i);
		if (s.told == told)
			continue;
		CHECK_EQ(s.told, told + 1);
		CHECK_EQ(s.last_id, id);
		/* The conversion leans to early, by less than a clock pair is wide. */
		CHECK(s.left_raw_ns >= before_ns - NS_PER_MS);
	}
	if (!s.told)
		printf("skipped: this kernel stamps no departures on loopback\n");
	else
		CHECK_EQ(s.told, N_PROBES);
	udp_free(s.udp);
}

/* What could not be sent has a number, too; after it no stamp is taken for another's. */
static void test_recount(struct loop *l, int port)
{
	static char giant[70000];
	struct leaving s = { 0 };
	struct err e;

	CHECK_OK(udp_dial(&s.udp, l, "127.0.0.1", port, on_answer, &s, &e), e);
	udp_on_sent(s.udp, on_left);
	udp_send(s.udp, giant, sizeof(giant)); /* EMSGSIZE */
	CHECK_EQ(udp_next_id(s.udp), 1);
	for (int i = 0; i < 10; i++) {
		udp_send(s.udp, "hello", 5);
		RUN_UNTIL(l, s.answers > i);
	}
	CHECK_EQ(s.told, 0);
	CHECK_EQ(udp_next_id(s.udp), 11);
	udp_free(s.udp);
}

/* No listener: the kernel reports it, the sender goes on. */
static void test_refused(struct loop *l, int dead_port)
{
	struct side lonely = { 0 };
	struct err e = { 0 };

	CHECK_OK(udp_dial(&lonely.udp, l, "127.0.0.1", dead_port, on_datagram, &lonely, &e), e);
	for (int i = 0; i < 5; i++) {
		udp_send(lonely.udp, "x", 1);
		loop_turn(l, 1);
	}
	CHECK_EQ(lonely.n, 0);
	udp_free(lonely.udp);
}

int main(void)
{
	struct side server = { .echo = true }, client = { 0 };
	struct loop *l;
	struct err e = { 0 };
	int port = 0;

	CHECK_OK(loop_new(&l, 1, &e), e);
	CHECK_OK(udp_listen(&server.udp, l, "127.0.0.1:0", on_datagram, &server, &port, &e), e);
	CHECK(port > 0);
	CHECK_OK(udp_dial(&client.udp, l, "127.0.0.1", port, on_datagram, &client, &e), e);
	test_stamps_are_never_early(l, &server, &client);
	test_burst(l, &server, &client);
	test_odd_sizes(l, &server, &client);
	test_departures(l, port);
	test_recount(l, port);
	server.free_it = true;
	server.echo = false;
	for (int i = 0; i < 3; i++)
		udp_send(client.udp, "end", 3);
	RUN_UNTIL(l, !server.udp);
	test_refused(l, port);
	CHECK_EQ(udp_listen(&server.udp, l, "nonsense", on_datagram, &server, NULL, &e),
		 ERR_INVALID);
	udp_free(client.udp);
	udp_free(NULL);
	loop_free(l);
	return 0;
}
