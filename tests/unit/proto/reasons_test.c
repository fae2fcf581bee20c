/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/reasons.h"

#include <ctype.h>

#include "base/buf.h"
#include "base/file.h"
#include "tests/lib/check.h"

#define PAGE_BYTES (1 << 20)

static void test_find(void)
{
	const struct reason *r = reason_find("lost");

	CHECK(r && r->word == REASON_LOST && r->by == REASON_BY_AGGREGATOR);
	CHECK(r->states == REASON_FAILED && r->flags == REASON_DELIVERABLE);
	CHECK(!reason_find("") && !reason_find("los") && !reason_find("lost "));
}

static void test_rows(void)
{
	for (const struct reason *r = reasons; r->word; r++) {
		CHECK(strlen(r->word) > 0 && strlen(r->word) < 32); /* the size of their fields */
		for (const char *p = r->word; *p; p++)
			CHECK(islower((unsigned char)*p) || *p == '-');
		CHECK(reason_find(r->word) == r); /* no word twice */
		CHECK(r->states && r->by && *r->meaning);
		if (r->flags & REASON_REFUSES)
			CHECK(r->by & REASON_BY_AGENT);
	}
}

/* The table of docs/wire.md, as it must be. */
static void add_table(struct buf *out)
{
	static const char *const states[] = { "", "partial", "failed", "partial, failed" };
	static const char *const by[] = { "", "agent", "aggregator", "both" };

	buf_add_str(out, "| reason | state | set by | meaning |\n| --- | --- | --- | --- |\n");
	for (const struct reason *r = reasons; r->word; r++)
		buf_addf(out, "| `%s` | %s | %s | %s |\n", r->word, states[r->states], by[r->by],
			 r->meaning);
	buf_add_str(out, "\n");
}

static void test_docs(const char *page)
{
	struct buf table = BUF_INIT, text = BUF_INIT;
	struct err e;

	add_table(&table);
	CHECK_OK(file_load(page, PAGE_BYTES, &text, &e), e);
	if (!strstr(buf_str(&text), buf_str(&table))) {
		fprintf(stderr, "%s lacks the table of reasons, or a row differs; expected:\n\n%s",
			page, buf_str(&table));
		exit(1);
	}
	buf_release(&text);
	buf_release(&table);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	test_find();
	test_rows();
	test_docs(argv[1]);
	return 0;
}
