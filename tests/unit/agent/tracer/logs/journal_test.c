/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's reader with a journalctl of the test's own: one that writes, one that complains, one that is missing. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/tracer/logs/journal.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define PATIENCE_NS (60 * NS_PER_S)

static void install(const char *dir, const char *script)
{
	char *path = xasprintf("%s/journalctl", dir);
	FILE *f = fopen(path, "w");

	CHECK(f && fprintf(f, "#!/bin/sh\n%s\n", script) > 0 && !fclose(f));
	CHECK(!chmod(path, 0700));
	free(path);
}

/* Reads until there is an entry or a problem. */
static void read_some(struct journal *j, struct reading *r, int64_t later_ns)
{
	int64_t end_ns = now_mono_ns() + PATIENCE_NS;

	do {
		reading_begin(r, 1000);
		r->mono_ns += later_ns;
		journal_read(j, r);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		CHECK(now_mono_ns() < end_ns);
	} while (!r->rows.len && !*journal_problem(j));
}

static void on_row(void *arg, int64_t raw_ns, const void *data, size_t len)
{
	struct log_record record = record_unpack(data);

	(void)raw_ns;
	(void)len;
	snprintf(arg, 64, "%s: %s %s", record.name, severity_name(record.severity), record.text);
}

static void entries_are_read(const char *dir, struct reading *r)
{
	struct journal *j;
	char seen[64] = "";

	install(dir,
		"echo '{\"MESSAGE\":\"up\",\"PRIORITY\":\"4\",\"_COMM\":\"sh\"}'; exec sleep 60");
	j = journal_new();
	read_some(j, r, 0);
	record_row_each(&r->rows, on_row, seen);
	CHECK_STR(seen, "sh: WARNING up");
	CHECK_STR(journal_problem(j), "");
	journal_free(j); /* ends it */
}

static void a_complaint_is_the_problem(const char *dir, struct reading *r)
{
	struct journal *j;

	install(dir, "echo 'No journal files were opened due to insufficient permissions.' >&2");
	j = journal_new();
	read_some(j, r, 0);
	CHECK(strstr(journal_problem(j), "insufficient permissions"));
	CHECK(strstr(journal_problem(j), "group systemd-journal"));
	journal_free(j);
}

/* It is started again, and heals. */
static void one_that_ends_is_started_again(const char *dir, struct reading *r)
{
	int64_t end_ns = now_mono_ns() + PATIENCE_NS;
	struct journal *j;

	install(dir, ":");
	j = journal_new();
	read_some(j, r, 0);
	CHECK(strstr(journal_problem(j), "has ended"));
	install(dir, "echo '{\"MESSAGE\":\"up\"}'; exec sleep 60");
	do { /* the problem stays until it has run for a while */
		read_some(j, r, 20 * NS_PER_S);
		CHECK(now_mono_ns() < end_ns);
	} while (!r->rows.len);
	journal_free(j);
}

static void one_that_is_missing_is_named(const char *dir)
{
	struct journal *j;
	char *path = xasprintf("%s/journalctl", dir);

	CHECK(!remove(path));
	free(path);
	j = journal_new();
	CHECK(strstr(journal_problem(j), "cannot be started"));
	journal_free(j);
}

int main(void)
{
	const char *dir = temp_dir();
	struct reading r = { 0 };
	char *path = xasprintf("%s:/usr/bin:/bin", dir);

	CHECK(!setenv("PATH", path, 1));
	entries_are_read(dir, &r);
	a_complaint_is_the_problem(dir, &r);
	one_that_ends_is_started_again(dir, &r);
	CHECK(!setenv("PATH", dir, 1)); /* the system's own is not found */
	one_that_is_missing_is_named(dir);
	reading_release(&r);
	free(path);
	return 0;
}
