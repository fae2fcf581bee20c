/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of other programs, hand-written: what becomes of each kind of event. */
#include "xspace/entries/entries.h"

#include "tests/lib/check.h"
#include "tests/lib/xspace_text.h"

#define MEMORY ((size_t)64 << 20)

/* The XSpace as text, or the error's sentence; the caller frees it. */
static char *text_of(int rc, struct xs_builder *b, const struct err *e)
{
	struct buf out = BUF_INIT;
	char *text;

	if (rc) {
		text = strdup(e->msg);
	} else {
		xs_finish(b, &out);
		text = xspace_text(out.data, out.len);
	}
	buf_release(&out);
	xs_builder_free(b);
	return text;
}

static struct entry_counts check_chrome(const char *json, const char *expected)
{
	struct xs_builder *b = xs_builder_new();
	struct entry_counts counts;
	struct err e = { 0 };
	int rc = chrome_read(json, strlen(json), MEMORY, b, &counts, &e);
	char *text = text_of(rc, b, &e);

	CHECK_STR(text, expected);
	free(text);
	return counts;
}

static void check_neuron(const char *json, const char *instance, const char *expected)
{
	struct xs_builder *b = xs_builder_new();
	struct entry_counts counts;
	struct err e = { 0 };
	int rc = neuron_read(json, strlen(json), instance, MEMORY, b, &counts, &e);
	char *text = text_of(rc, b, &e);

	CHECK_STR(text, expected);
	free(text);
}

#define AT		"\"pid\":1,\"tid\":2,\"ts\":"
#define FILE_OF(events) "{\"traceEvents\":[" events "]}"
#define BEGIN_PLANE	"plane /host:CPU\n process_id=1\n"

/* Begins and ends nest; the end's args are the event's, too; order in the file is of no matter. */
static void test_spans(void)
{
	struct entry_counts n;

	check_chrome(FILE_OF("{\"ph\":\"B\",\"name\":\"outer\"," AT "1000},"
			     "{\"ph\":\"X\",\"name\":\"x\",\"dur\":0.5," AT "1000},"
			     "{\"ph\":\"E\"," AT "3000,\"args\":{\"b\":\"two\"}},"
			     "{\"ph\":\"B\",\"name\":\"inner\",\"args\":{\"a\":1}," AT "2000},"
			     "{\"ph\":\"E\"," AT "2500}"),
		     BEGIN_PLANE
		     "thread 2 #2: outer 0-2 {b=\"two\"} x 0-0.0005 inner 1-1.5 {a=1}\n");
	n = check_chrome(FILE_OF("{\"ph\":\"E\"," AT "1},{\"ph\":\"B\",\"name\":\"open\"," AT "2},"
				 "{\"ph\":\"i\",\"name\":\"last\"," AT "1002},"
				 "{\"ph\":\"N\",\"name\":\"object\"," AT
				 "3},{\"ph\":\"X\",\"name\":\"no time\"}"),
			 BEGIN_PLANE "thread 2 #2: open 0-1 {unfinished=1} last 1-1\n");
	CHECK(n.events == 2 && n.left_out == 3 && n.unfinished == 1);
	CHECK_EQ(n.start_unix_ns, 2000);
}

static void test_names(void)
{
	check_chrome(
		FILE_OF("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":\"ui\",\"args\":{\"name\":"
			"\"Browser\"}},"
			"{\"ph\":\"M\",\"name\":\"thread_name\"," AT
			"0,\"args\":{\"name\":\"main\"}},"
			"{\"ph\":\"i\",\"name\":\"a\\u00e9\",\"cat\":\"c1,c2\"," AT "1e3},"
			"{\"ph\":\"I\",\"name\":\"b\",\"pid\":\"ui\",\"tid\":\"x\",\"ts\":1000}"),
		"plane /host:CPU\n process_name=\"Browser\"\nthread x #1099511627777: b 0-0\n"
		"plane /host:CPU [1]\n process_id=1\nmain #2: a\xc3\xa9 0-0 "
		"{category=\"c1,c2\"}\n");
}

static void test_counters(void)
{
	check_chrome(FILE_OF("{\"ph\":\"C\",\"name\":\"load\",\"args\":{\"value\":1.5}," AT "1},"
			     "{\"ph\":\"C\",\"name\":\"heap\",\"id\":7,\"args\":{\"used\":2,"
			     "\"free\":\"3\",\"x\":null}," AT "2}"),
		     BEGIN_PLANE "_counters_ #1099511627776: load 0-0 {value=1.5f} heap 7 used "
				 "0.001-0.001 {value=2f} "
				 "heap 7 free 0.001-0.001 {value=3f}\n");
}

/* Ends belong to begins of the same category and id, whatever process or thread they come from. */
static void test_async(void)
{
	check_chrome(
		FILE_OF("{\"ph\":\"b\",\"cat\":\"net\",\"id\":\"0x1\",\"name\":\"get\"," AT "1},"
			"{\"ph\":\"b\",\"cat\":\"net\",\"id\":\"0x2\",\"name\":\"put\"," AT "2},"
			"{\"ph\":\"n\",\"cat\":\"net\",\"id\":\"0x1\",\"name\":\"step\"," AT "3},"
			"{\"ph\":\"e\",\"cat\":\"net\",\"id\":\"0x1\",\"name\":\"get\",\"pid\":9,"
			"\"ts\":4},"
			"{\"ph\":\"F\",\"cat\":\"net\",\"id\":\"0x2\",\"name\":\"put\"," AT "5}"),
		BEGIN_PLANE "net #1099511627777: get 0-0.003 {category=\"net\"} put 0.001-0.004 "
			    "{category=\"net\"} "
			    "step 0.002-0.002 {category=\"net\"}\n");
	check_chrome(FILE_OF("{\"ph\":\"b\",\"cat\":\"disk\",\"id\":1,\"name\":\"read\"," AT "1},"
			     "{\"ph\":\"b\",\"cat\":\"net\",\"id\":1,\"name\":\"get\"," AT "2},"
			     "{\"ph\":\"e\",\"cat\":\"disk\",\"id\":1,\"name\":\"read\"," AT "4},"
			     "{\"ph\":\"e\",\"cat\":\"net\",\"id\":1,\"name\":\"get\"," AT "6}"),
		     BEGIN_PLANE "disk #1099511627777: read 0-0.003 {category=\"disk\"}\n"
				 "net #1099511627779: get 0.001-0.005 {category=\"net\"}\n");
}

/* A flow begins in the event around it and ends in the next one, or with "bp" in the one around it. */
static void test_flows(void)
{
	static const char file[] = FILE_OF("{\"ph\":\"X\",\"name\":\"a\",\"dur\":10," AT
					   "0},{\"ph\":\"s\",\"id\":5," AT "5},"
					   "{\"ph\":\"X\",\"name\":\"b\",\"dur\":10," AT
					   "20},{\"ph\":\"f\",\"id\":5," AT "15},"
					   "{\"ph\":\"X\",\"name\":\"c\",\"dur\":10," AT
					   "40},{\"ph\":\"f\",\"bp\":\"e\",\"id\":5," AT "45}");
	struct xs_builder *b = xs_builder_new();
	struct entry_counts counts;
	struct err e = { 0 };
	char *text = text_of(chrome_read(file, strlen(file), MEMORY, b, &counts, &e), b, &e);
	uint64_t out = (uint64_t)text_number(text, "a 0-0.01 {flow=");

	CHECK_EQ((uint64_t)text_number(text, "b 0.02-0.03 {flow="), (out & ~UINT64_C(3)) + 1);
	CHECK_EQ((uint64_t)text_number(text, "c 0.04-0.05 {flow="), (out & ~UINT64_C(3)) + 1);
	CHECK_EQ(out & 3, 2);
	free(text);
}

/* The array alone may break off; a document may not. */
static void test_array(void)
{
	static const char line[] = BEGIN_PLANE "thread 2 #2: a 0-0\n";

	check_chrome("[{\"ph\":\"i\",\"name\":\"a\"," AT "1}]", line);
	check_chrome("[{\"ph\":\"i\",\"name\":\"a\"," AT "1},\n", line);
	check_chrome("[{\"ph\":\"i\",\"name\":\"a\"," AT "1}", line);
	check_chrome("[", "");
	check_chrome("[{\"ph\":\"i\",\"na", "offset 14: the end of a string expected");
	check_chrome("{\"traceEvents\":[{\"ph\":\"i\"}", "offset 26: ',' or ']' expected");
	check_chrome("{\"other\":1}", "a JSON document without \"traceEvents\"");
	check_chrome(FILE_OF("{\"ph\":\"i\",\"ts\":1e30}"), "offset 31: \"1e30\" is no time");
}

static void test_export(void)
{
	struct entry_counts n = check_chrome(
		"{\"otherData\":{\"t0_unix_ns\":\"1700000000000000000\"},\"traceEvents\":[{\"ph\":"
		"\"i\",\"name\":\"a\"," AT "1}]}",
		BEGIN_PLANE "thread 2 #2: a 0-0\n");

	CHECK_EQ(n.start_unix_ns, INT64_C(1700000000000001000));
}

#define RUNTIME \
	"{\"duration\":27094,\"group\":\"nrt-nc-000\",\"id\":1,\"instance_id\":\"i-0f\",\"lnc_" \
	"idx\":\"0\"," \
	"\"name\":\"nrt_tensor_write\",\"process_id\":\"1627711\",\"thread_id\":1627711," \
	"\"timestamp\":1729888371056597613}"
#define MEMORY_SAMPLE \
	"{\"duration\":1,\"instance_id\":\"i-0f\",\"percent_usage\":9.5,\"timestamp\":" \
	"1729888371056597615," \
	"\"usage\":51805806592}"
#define CPU_SAMPLE \
	"{\"cpu_id\":\"47\",\"duration\":1,\"instance_id\":\"i-1f\",\"timestamp\":" \
	"1729888371287337243,\"util\":2.25}"

static void check_runtime(const char *events)
{
	static const char expected[] = "plane /host:CPU\n process_id=1627711\n"
				       "nrt-nc-000 #1099511627776: nrt_tensor_write 0-0.027094 "
				       "{id=1 lnc_idx=\"0\" thread_id=1627711}\n"
				       "plane /host:CPU system\n process_name=\"system\"\n"
				       "_counters_ #1099511627777: mem_usage 0.000002-0.000002 "
				       "{value=51805806592f duration=1 percent_usage=9.5f}\n";
	char json[2000];

	snprintf(json, sizeof(json),
		 "{\"trace_events\":%s,\"mem_usage\":[" MEMORY_SAMPLE "],\"cpu_util\":" CPU_SAMPLE
		 "}",
		 events);
	check_neuron(json, "i-0f", expected);
}

/* Lists are arrays, one event, or events by name. */
static void test_neuron(void)
{
	static const char json[] = "{\"cpu_util\":[" CPU_SAMPLE "],\"trace_events\":[" RUNTIME "]}";
	char **hosts;
	size_t n;
	struct err e;

	check_runtime("[" RUNTIME "]");
	check_runtime(RUNTIME);
	check_runtime("{\"Neuron_Runtime_API_Event\":" RUNTIME "}");
	check_neuron(json, "i-1f",
		     "plane /host:CPU\n process_name=\"system\"\n"
		     "_counters_ #1099511627776: cpu_util 47 0-0 {value=2.25f cpu_id=\"47\" "
		     "duration=1}\n");
	check_neuron("{\"trace_events\":[1]}", "", "offset 17: an event is no object");
	CHECK_OK(neuron_hosts(json, strlen(json), &hosts, &n, &e), e);
	CHECK_EQ(n, 2);
	CHECK_STR(hosts[0], "i-1f");
	CHECK_STR(hosts[1], "i-0f");
	neuron_hosts_free(hosts, n);
}

static void check_format(const char *json, enum entry_format expected)
{
	CHECK_EQ(entry_format_of(json, strlen(json)), expected);
}

static void test_formats(void)
{
	check_format("[", ENTRY_CHROME);
	check_format("{\"traceEvents\":[{\"mem_usage\":1}],\"schemaVersion\":1}", ENTRY_PYTORCH);
	check_format(" {\"displayTimeUnit\":\"ns\",\"traceEvents\":[]}", ENTRY_CHROME);
	check_format("{\"mem_usage\":[", ENTRY_NEURON);
	check_format("{\"traceEvents\":[", ENTRY_CHROME);
}

int main(void)
{
	test_spans();
	test_names();
	test_counters();
	test_async();
	test_flows();
	test_array();
	test_export();
	test_neuron();
	test_formats();
	return 0;
}
