/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/exchange.h"

#include "tests/lib/check.h"

#define COOKIE 77
#define EPOCH  5

static struct probe reply_to(const struct probe *request)
{
	struct probe p = *request;

	p.type = PROBE_REPLY;
	p.epoch = EPOCH;
	p.flags = PROBE_KERNEL;
	p.t2_ns = p.t1_ns + 100;
	p.t3_ns = p.t2_ns + 10;
	return p;
}

static void test_user_stamps(void)
{
	static struct exchange x;
	struct clock_sample out[EXCHANGE_SAMPLES];
	struct probe p, reply;

	exchange_begin(&x, COOKIE, EPOCH, 0);
	CHECK(!exchange_is_kernel(&x));
	p = exchange_make_probe(&x, 0, 0, 1000);
	CHECK_EQ(p.type, PROBE_REQUEST);
	CHECK_EQ(p.cookie, COOKIE);
	reply = reply_to(&p);
	CHECK_EQ(exchange_take_reply(&x, &reply, 1300, false, out), 1);
	CHECK_EQ(out[0].t1_ns, 1000);
	CHECK_EQ(out[0].t2_ns, 1100);
	CHECK_EQ(out[0].t3_ns, 1110);
	CHECK_EQ(out[0].t4_ns, 1300);
	CHECK_EQ(exchange_take_reply(&x, &reply, 1301, false, out), 0); /* a duplicate */
	CHECK_EQ(x.answered, 1);
	CHECK(!exchange_is_kernel(&x));
}

/* A clock with a tick of 42 ns may have been 42 ns further when it was read. */
static void test_ticks(void)
{
	static struct exchange x;
	struct clock_sample out[EXCHANGE_SAMPLES];
	struct probe p, reply;

	exchange_begin(&x, COOKIE, EPOCH, 42);
	p = exchange_make_probe(&x, 0, 0, 1000);
	CHECK_EQ(p.t1_ns, 1000);
	reply = reply_to(&p);
	CHECK_EQ(exchange_take_reply(&x, &reply, 1300, false, out), 1);
	CHECK_EQ(out[0].t1_ns, 958);
	CHECK_EQ(out[0].t2_ns, 1100);
	CHECK_EQ(out[0].t3_ns, 1110);
	CHECK_EQ(out[0].t4_ns, 1342);
}

static void test_kernel_stamps(void)
{
	static struct exchange x;
	struct clock_sample out[EXCHANGE_SAMPLES];
	struct probe first, second, reply;

	exchange_begin(&x, COOKIE, EPOCH, 0);
	first = exchange_make_probe(&x, 2, 9, 1000);
	exchange_set_departure(&x, 1, 9, 1001); /* another socket's */
	exchange_set_departure(&x, 2, 9, 1020);
	reply = reply_to(&first);
	CHECK_EQ(exchange_take_reply(&x, &reply, 1300, true, out), 1);
	CHECK_EQ(out[0].t1_ns, 1020);
	CHECK(exchange_is_kernel(&x));

	/* The next reply carries the time at which the first one really left. */
	second = exchange_make_probe(&x, 3, 9, 2000);
	reply = reply_to(&second);
	reply.sent[0] = (struct probe_sent){ first.seq, 1150 };
	CHECK_EQ(exchange_take_reply(&x, &reply, 2300, true, out), 2);
	CHECK_EQ(out[0].t1_ns, 1020);
	CHECK_EQ(out[0].t2_ns, 1100);
	CHECK_EQ(out[0].t3_ns, 1150);
	CHECK_EQ(out[0].t4_ns, 1300);
	CHECK(out[0].is_update && out[0].no_request && !out[0].no_reply);
	CHECK_EQ(out[1].t1_ns, 2000);
	CHECK(!out[1].is_update);

	/* An update counts once. */
	second = exchange_make_probe(&x, 3, 10, 3000);
	reply = reply_to(&second);
	reply.sent[0] = (struct probe_sent){ first.seq, 1150 };
	CHECK_EQ(exchange_take_reply(&x, &reply, 3300, true, out), 1);
	CHECK_EQ(x.bad_stamps, 0);
}

/* A stamp that the user's clock excludes is ignored: the probe keeps the user's stamp. */
static void test_impossible_stamps(void)
{
	static struct exchange x;
	static const int64_t departures[] = { 1301, 1000 + 10000001 };
	struct clock_sample out[EXCHANGE_SAMPLES];
	struct probe p, reply;

	for (size_t i = 0; i < 2; i++) {
		exchange_begin(&x, COOKIE, EPOCH, 0);
		p = exchange_make_probe(&x, 0, 0, 1000);
		exchange_set_departure(&x, 0, 0, departures[i]);
		reply = reply_to(&p);
		CHECK_EQ(exchange_take_reply(&x, &reply, i == 1 ? INT64_C(1) << 40 : 1300, true,
					     out),
			 1);
		CHECK_EQ(out[0].t1_ns, 1000);
		CHECK_EQ(x.bad_stamps, 1);
	}
	p = exchange_make_probe(&x, 0, 1, 5000);
	reply = reply_to(&p);
	reply.sent[0] = (struct probe_sent){ 1, 1109 }; /* before it was handed over */
	reply.sent[1] = (struct probe_sent){ 1, 1150 }; /* only the first update counts */
	reply.sent[2] = (struct probe_sent){ 2, 5150 }; /* of this very reply: impossible */
	reply.sent[3] = (struct probe_sent){ 4711, 5150 };
	CHECK_EQ(exchange_take_reply(&x, &reply, 5300, true, out), 1);
	CHECK_EQ(x.bad_stamps, 1);
	CHECK_EQ(out[0].t1_ns, 5000);
}

static void test_foreign_replies(void)
{
	static struct exchange x;
	struct clock_sample out[EXCHANGE_SAMPLES];
	struct probe p, good, bad;

	exchange_begin(&x, COOKIE, EPOCH, 0);
	p = exchange_make_probe(&x, 0, 0, 1000);
	good = reply_to(&p);
	bad = good;
	bad.cookie++;
	CHECK_EQ(exchange_take_reply(&x, &bad, 1300, true, out), 0);
	bad = good;
	bad.epoch++;
	CHECK_EQ(exchange_take_reply(&x, &bad, 1300, true, out), 0);
	bad = good;
	bad.seq += EXCHANGE_PROBES;
	CHECK_EQ(exchange_take_reply(&x, &bad, 1300, true, out), 0);
	bad = good;
	bad.t1_ns++;
	CHECK_EQ(exchange_take_reply(&x, &bad, 1300, true, out), 0);
	CHECK_EQ(exchange_take_reply(&x, &p, 1300, true, out), 0);
	CHECK_EQ(exchange_take_reply(&x, &good, 1300, true, out), 1);

	/* Older than the remembered probes. */
	p = exchange_make_probe(&x, 0, 0, 1000);
	good = reply_to(&p);
	for (int i = 0; i < EXCHANGE_PROBES; i++)
		exchange_make_probe(&x, 0, 0, 1000);
	CHECK_EQ(exchange_take_reply(&x, &good, 1300, true, out), 0);
}

int main(void)
{
	test_user_stamps();
	test_ticks();
	test_kernel_stamps();
	test_impossible_stamps();
	test_foreign_replies();
	return 0;
}
