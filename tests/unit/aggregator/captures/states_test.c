/* SPDX-License-Identifier: Apache-2.0 */
/* The table of states is the one that docs/architecture.md prints. */
#include "aggregator/captures/states.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"

#define MAX_ROWS 100

struct row {
	char from[20], event[20], to[20];
};

/* The rows of the table under "| state | event | next |". */
static size_t read_docs(const char *path, struct row rows[MAX_ROWS])
{
	FILE *f = fopen(path, "r");
	char line[400];
	bool inside = false;
	size_t n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		struct row r;

		if (!strcmp(line, "| state | event | next |\n"))
			inside = true;
		else if (inside && *line != '|')
			break;
		else if (inside && strncmp(line, "| ---", 5) && n < MAX_ROWS &&
			 sscanf(line, "| %19[^|] | %19[^|] | %19[^|]", r.from, r.event, r.to) == 3)
			rows[n++] = r;
	}
	fclose(f);
	return n;
}

/* sscanf() leaves the spaces before '|'. */
static bool is(const char *cell, const char *word)
{
	size_t len = strlen(word);

	return !strncmp(cell, word, len) && strspn(cell + len, " ") == strlen(cell + len);
}

static void test_docs(const char *docs)
{
	struct row rows[MAX_ROWS];
	size_t n = read_docs(docs, rows);

	CHECK_EQ(n, capture_n_transitions);
	for (size_t i = 0; i < n; i++) {
		const struct capture_transition *t = &capture_transitions[i];

		CHECK(is(rows[i].from, capture_state_word(t->from)));
		CHECK(is(rows[i].event, capture_event_word(t->event)));
		CHECK(is(rows[i].to, capture_state_word(t->to)));
	}
}

/* An event has one meaning in a state, and none in a state that is an end. */
static void test_table(void)
{
	for (size_t i = 0; i < capture_n_transitions; i++) {
		const struct capture_transition *t = &capture_transitions[i];

		CHECK(t->from < CAP_COMMITTED);
		for (size_t j = 0; j < i; j++)
			CHECK(t->from != capture_transitions[j].from ||
			      t->event != capture_transitions[j].event);
	}
}

static void test_walk(void)
{
	struct capture c = { .state = CAP_QUEUED };

	CHECK(capture_on(&c, EVENT_TURN) && c.state == CAP_PLANNING);
	CHECK(!capture_on(&c, EVENT_T0) && c.state == CAP_PLANNING);
	CHECK(capture_on(&c, EVENT_PLANNED) && capture_on(&c, EVENT_T0));
	CHECK_STR(capture_state_name(c.state), "running");
	CHECK(capture_on(&c, EVENT_HOSTS_ENDED) && !capture_is_open(&c));
	CHECK(capture_on(&c, EVENT_DISCARDED) && capture_has_failed(&c));
	CHECK(!capture_on(&c, EVENT_LOST));
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 2);
	test_docs(argv[1]);
	test_table();
	test_walk();
	return 0;
}
