/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-written traces; kineto_oracle.py compares recordings of real ones with another reader. */
#include "xspace/kineto.h"

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/xspace_text.h"

/* The XSpace as text, or the error's sentence; the caller frees it. */
static char *convert(const char *json)
{
	const struct kineto_conf conf = { .max_memory = KINETO_MAX_MEMORY };
	struct xs_builder *b = xs_builder_new();
	struct kineto_counts counts;
	struct buf out = BUF_INIT;
	struct err e = { 0 };
	char *text;

	if (kineto_read(json, strlen(json), &conf, b, &counts, &e)) {
		text = strdup(e.msg);
	} else {
		xs_finish(b, &out);
		text = xspace_text(out.data, out.len);
	}
	buf_release(&out);
	xs_builder_free(b);
	return text;
}

static void check(const char *json, const char *expected)
{
	char *text = convert(json);

	CHECK_STR(text, expected);
	free(text);
}

#define EVENT(ts, dur) \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\",\"pid\":1,\"tid\":2,\"ts\":" ts \
	",\"dur\":" dur "}"
#define FILE_OF(events) "{\"traceEvents\":[" events "]}"

static void test_order(void)
{
	check(FILE_OF(EVENT("2000", "500") "," EVENT("1000.5", "2000") "," EVENT("1000.5", "0.25")),
	      "plane /host:CPU\n"
	      "thread 2 #2: op 0-2 op 0-0.00025 op 0.9995-1.4995\n");
}

static void test_empty(void)
{
	check("{}", "");
	check(FILE_OF(""), "");
	check(FILE_OF("{\"ph\":\"i\",\"name\":\"Record Window End\",\"pid\":\"\",\"ts\":1.5}"), "");
}

static void test_exact_nanoseconds(void)
{
	const struct kineto_conf conf = { .max_memory = KINETO_MAX_MEMORY };
	struct xs_builder *b = xs_builder_new();
	struct kineto_counts counts;
	struct err e = { 0 };
	const char *json = "{\"baseTimeNanoseconds\":1790857026000000000,\"traceEvents\":[" EVENT(
		"4448835488432.308", "0.001") "]}";

	CHECK_OK(kineto_read(json, strlen(json), &conf, b, &counts, &e), e);
	CHECK_EQ(counts.start_unix_ns, INT64_C(1790857026000000000) + INT64_C(4448835488432308));
	CHECK_EQ(counts.end_unix_ns - counts.start_unix_ns, 1);
	xs_builder_free(b);
}

static void test_wrong_input(void)
{
	check("", "offset 0: an object expected");
	check("[1]", "offset 0: an object expected");
	check("{\"traceEvents\":[", "offset 16: an object expected");
	check("{\"traceEvents\":[]", "offset 17: ',' or '}' expected");
	check("{\"traceEvents\":[]}x", "offset 18: the end expected");
	check("{\"traceEvents\":[{\"ts\":1e5}]}", "offset 22: \"1e5\" is no time");
	check("{\"traceEvents\":[{\"ts\":99999999999999999999}]}",
	      "offset 22: \"99999999999999999999\" is no time");
	check("{\"a\":\"b", "offset 7: the end of a string expected");
	check("{\"a\":[{]}", "offset 7: the other closing bracket expected");
	check(FILE_OF(EVENT("0", "1") "," EVENT("2000000000000000", "1")),
	      "its events are 2000000000 s apart");
}

static void test_deep_nesting(void)
{
	char json[256] = "{\"a\":";
	char *text;

	memset(json + strlen(json), '[', 200);
	text = convert(json);
	CHECK(strstr(text, "more than 64 levels"));
	free(text);
}

static void test_kernel(void)
{
	check(FILE_OF("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,"
		      "\"ts\":1000,"
		      "\"dur\":1,\"args\":{\"correlation\":5,\"grid\":[8, 1, 1],\"block\":[32, 1, "
		      "1],"
		      "\"registers per thread\":16,\"shared memory\":0,\"finished\":false}}"),
	      "plane /device:GPU:0\n"
	      "Stream #7 #7: gemm 0-0.001 {correlation_id=5 grid=\"[8, 1, 1]\" block=\"[32, 1, "
	      "1]\" "
	      "registers per thread=16 shared memory=0 finished=0 "
	      "kernel_details=\"regs:16 static_shared:0 dynamic_shared:0 grid:8,1,1 block:32,1,1 "
	      "occ_pct:0\"}\n");
}

/* When the recording ends, in microseconds: it has three calls of optimizer.step(), and one that began before it. */
static int64_t end_of_recording(uint32_t steps)
{
#define CALL(ts) \
	"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"Optimizer.step#SGD.step\",\"pid\":" \
	"1," \
	"\"tid\":2,\"ts\":" ts ",\"dur\":10}"
	static const char json[] = FILE_OF(
		"{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler "
		"(0)\",\"pid\":\"Spans\","
		"\"tid\":\"t\",\"ts\":1000,\"dur\":500}," CALL("1300") "," CALL("995") "," CALL(
			"1100") "," CALL("1200") "," EVENT("1350", "10"));
	const struct kineto_conf conf = { .max_memory = KINETO_MAX_MEMORY, .steps = steps };
	struct xs_builder *b = xs_builder_new();
	struct kineto_counts counts;
	struct err e;

	CHECK_OK(kineto_read(json, sizeof(json) - 1, &conf, b, &counts, &e), e);
	CHECK_EQ(counts.from_unix_ns, 1000000);
	xs_builder_free(b);
	return counts.to_unix_ns / 1000;
}

static void test_recording_ends_with_its_last_step(void)
{
	CHECK_EQ(end_of_recording(0), 1500);
	CHECK_EQ(end_of_recording(1), 1110);
	CHECK_EQ(end_of_recording(2), 1210);
	CHECK_EQ(end_of_recording(3), 1500);
	CHECK_EQ(end_of_recording(4), 1500);
}

static void test_steps(void)
{
	check(FILE_OF("{\"ph\":\"X\",\"name\":\"ProfilerStep#12\",\"pid\":1,\"tid\":2,\"ts\":1,"
		      "\"dur\":0},"
		      "{\"ph\":\"X\",\"name\":\"ProfilerStep#x\",\"pid\":1,\"tid\":2,\"ts\":2,"
		      "\"dur\":0}"),
	      "plane /host:CPU\n"
	      "thread 2 #2: ProfilerStep 0-0 {step_num=12} ProfilerStep#x 0.001-0.001\n");
}

/* Which part of a file needs the memory makes no difference: names, lines, events, flows, texts of args. */
static void test_memory(void)
{
	static const struct {
		const char *before, *after; /* of a number */
	} rows[] = {
		{ "{\"ph\":\"X\",\"name\":\"n", "\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":0}" },
		{ "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"ts\":1,\"dur\":0,\"tid\":", "}" },
		{ "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":", "}" },
		{ "{\"ph\":\"s\",\"name\":\"n\",\"pid\":1,\"tid\":1,\"ts\":1,\"id\":", "}" },
		{ "{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":0,\"args\":{"
		  "\"a\":\"",
		  "\"}}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kineto_conf conf = { .max_memory = 256 << 10 };
		struct buf json = BUF_INIT;

		buf_addf(&json, "{\"traceEvents\":[");
		for (int row = 0; row < 12000; row++) {
			buf_addf(&json, "%s%s%d%s", row ? "," : "", rows[i].before, row,
				 rows[i].after);
		}
		buf_addf(&json, "]}");
		for (int enough = 0; enough < 2; enough++) {
			struct xs_builder *b = xs_builder_new();
			struct kineto_counts counts;
			struct err e = { 0 };
			int rc = kineto_read(json.data, json.len, &conf, b, &counts, &e);

			CHECK_EQ(rc, enough ? 0 : ERR_LIMIT);
			CHECK(enough || strstr(e.msg, "of memory: make the window shorter"));
			xs_builder_free(b);
			conf.max_memory = 32 << 20;
		}
		buf_release(&json);
	}
}

int main(void)
{
	test_kernel();
	test_steps();
	test_recording_ends_with_its_last_step();
	test_memory();
	test_order();
	test_empty();
	test_exact_nanoseconds();
	test_wrong_input();
	test_deep_nesting();
	return 0;
}
