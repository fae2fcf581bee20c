/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/decode.h"

#include "agent/perf/tracepoint.h"
#include "base/buf.h"
#include "tests/lib/check.h"
#include "tests/lib/perf_bytes.h"

static struct perf_record only(const struct buf *b)
{
	struct reader r = reader_of(b->data, b->len);
	struct perf_record rec, more;

	CHECK(perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec));
	CHECK_EQ(reader_left(&r), 0);
	CHECK(!perf_decode(&r, PERF_LAYOUT_WITH_IDS, &more));
	return rec;
}

static void sample_has_thread_time_and_chain(void)
{
	const uint64_t ips[] = { (uint64_t)PERF_CONTEXT_USER, 0x1000, 0x2000 };
	struct buf b = BUF_INIT;
	struct perf_record rec;

	perf_sample(&b, 99, 10, 11, ips, 3);
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_SAMPLE);
	CHECK_EQ(rec.time_ns, 99);
	CHECK_EQ(rec.pid, 10);
	CHECK_EQ(rec.tid, 11);
	CHECK_EQ(rec.n_ips, 3);
	CHECK_EQ(perf_record_ip(&rec, 2), 0x2000);
	buf_release(&b);
}

static void tracepoints_have_raw_bytes(void)
{
	struct buf b = BUF_INIT;
	struct perf_record rec;

	perf_raw_sample(&b, 99, 24, 4711);
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_SAMPLE);
	CHECK_EQ(rec.time_ns, 99);
	CHECK_EQ(rec.n_ips, 0);
	CHECK_EQ(rec.raw_len, 28);
	CHECK(!memcmp(rec.raw + 24, &(uint32_t){ 4711 }, 4));
	buf_release(&b);
}

/* As of Linux 6.18, shortened. */
static void tracepoints_are_described(void)
{
	static const char text[] = "name: sched_wakeup\nID: 374\nformat:\n"
				   "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
				   "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
				   "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\n"
				   "print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid\n";
	struct tracepoint tp;

	CHECK(tracepoint_parse(&tp, text, "pid"));
	CHECK_EQ(tp.id, 374);
	CHECK_EQ(tp.at, 24);
	CHECK(tracepoint_parse(&tp, text, "common_pid"));
	CHECK_EQ(tp.at, 4);
	CHECK(!tracepoint_parse(&tp, text, "comm[16]")); /* no four bytes */
	CHECK(!tracepoint_parse(&tp, text, "prio"));
	CHECK(!tracepoint_parse(&tp, text + sizeof("name: sched_wakeup\nID: 374"), "pid"));
	CHECK(!tracepoint_parse(&tp, "", "pid"));
	CHECK(!tracepoint_parse(&tp, "ID: 1\n\tfield:pid_t pid;", "pid"));
}

static void news_have_their_time_at_the_end(void)
{
	struct buf b = BUF_INIT;
	struct perf_record rec;

	perf_mmap(&b, 5, 10, 0x7000, 0x1000, 0x200, "/lib/libx.so");
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_MAP);
	CHECK_EQ(rec.time_ns, 5);
	CHECK_EQ(rec.address, 0x7000);
	CHECK_EQ(rec.length, 0x1000);
	CHECK_EQ(rec.offset, 0x200);
	CHECK_EQ(rec.inode, 4711);
	CHECK_STR(rec.text, "/lib/libx.so");

	buf_reset(&b);
	perf_comm(&b, 6, 10, 12, "worker", true);
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_COMM);
	CHECK(rec.exec);
	CHECK_EQ(rec.tid, 12);
	CHECK_STR(rec.text, "worker");
	buf_reset(&b);
	perf_comm(&b, 6, 10, 12, "renamed", false);
	rec = only(&b);
	CHECK(rec.kind == PERF_KIND_COMM && !rec.exec);

	buf_reset(&b);
	perf_task(&b, PERF_RECORD_FORK, 7, 20, 10, 20, 12);
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_FORK);
	CHECK_EQ(rec.ppid, 10);
	CHECK_EQ(rec.ptid, 12);

	buf_reset(&b);
	perf_lost(&b, 8, 1234);
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_LOST);
	CHECK_EQ(rec.count, 1234);
	CHECK_EQ(rec.time_ns, 8);
	buf_release(&b);
}

static void switches_have_both_threads(void)
{
	struct buf b = BUF_INIT;
	struct perf_record rec;

	perf_switch(&b, 7, PERF_RECORD_MISC_SWITCH_OUT, true, 11, 12);
	rec = only(&b);
	CHECK_EQ(rec.kind, PERF_KIND_SWITCH);
	CHECK_EQ(rec.time_ns, 7);
	CHECK_EQ(rec.tid, 11);
	CHECK_EQ(rec.ptid, 12);
	CHECK(rec.out && !rec.preempted);
	buf_release(&b);
}

/* Whatever is cut off, nothing beyond the end is read (the sanitizer looks on) and nothing is made up. */
static void short_records_have_the_time_alone(void)
{
	struct buf b = BUF_INIT;
	struct perf_record rec;
	struct reader r;

	perf_switch(&b, 7, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT | PERF_RECORD_MISC_SWITCH_OUT, false,
		    0, 12);
	perf_lost_short(&b, 9, 5);
	r = reader_of(b.data, b.len);
	CHECK(perf_decode(&r, PERF_LAYOUT_SHORT, &rec));
	CHECK_EQ(rec.kind, PERF_KIND_SWITCH);
	CHECK_EQ(rec.time_ns, 7);
	CHECK_EQ(rec.ptid, 12);
	CHECK(rec.out && rec.preempted && !rec.tid);
	CHECK(perf_decode(&r, PERF_LAYOUT_SHORT, &rec));
	CHECK_EQ(rec.kind, PERF_KIND_LOST);
	CHECK_EQ(rec.time_ns, 9);
	CHECK_EQ(rec.count, 5);
	CHECK(!perf_decode(&r, PERF_LAYOUT_SHORT, &rec));
	buf_release(&b);
}

static void cut_records_are_refused(void)
{
	const uint64_t ips[] = { 1, 2, 3, 4 };
	struct buf b = BUF_INIT;

	perf_sample(&b, 99, 10, 11, ips, 4);
	perf_mmap(&b, 5, 10, 0x7000, 0x1000, 0, "/lib/libx.so");
	perf_comm(&b, 6, 10, 12, "worker", true);
	for (size_t len = 0; len < b.len; len++) {
		uint8_t *copy = malloc(len + 1);
		struct perf_record rec;
		struct reader r;
		int n = 0;

		memcpy(copy, b.data, len);
		r = reader_of(copy, len);
		while (perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec))
			n++;
		CHECK(n < 3);
		free(copy);
	}
	buf_release(&b);
}

static void lying_sizes_are_refused(void)
{
	struct buf b = BUF_INIT;
	struct perf_record rec;
	struct reader r;
	size_t at = perf_begin(&b, PERF_RECORD_SAMPLE, 0);

	put64(&b, 0);
	put64(&b, 0);
	put64(&b, UINT64_MAX / 8 + 2); /* a chain whose byte count wraps */
	perf_end(&b, at, 0, false);
	r = reader_of(b.data, b.len);
	CHECK(!perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec));

	memset(b.data, 0, b.len); /* a record of size 0 would never end */
	r = reader_of(b.data, b.len);
	CHECK(!perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec));

	buf_reset(&b);
	at = perf_begin(&b, PERF_RECORD_COMM, 0);
	put64(&b, 0);
	buf_add(&b, "no end..", 8); /* a text without its NUL */
	perf_end(&b, at, 0, true);
	r = reader_of(b.data, b.len);
	CHECK(!perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec));
	buf_release(&b);
}

int main(void)
{
	sample_has_thread_time_and_chain();
	tracepoints_have_raw_bytes();
	tracepoints_are_described();
	news_have_their_time_at_the_end();
	switches_have_both_threads();
	short_records_have_the_time_alone();
	cut_records_are_refused();
	lying_sizes_are_refused();
	return 0;
}
