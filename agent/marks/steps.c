/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/marks/steps.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/marks/marks.h"
#include "base/mem.h"
#include "base/now.h"

#define STEPS_KEPT 16 /* the average is over this many newest steps */
#define STEP_KEY   "step_num="
#define STEP_MAX   INT64_C(1000000000000000)
/* steps that are longer than this many medians have a checkpoint or an evaluation in them */
#define OUTLIER_MEDIANS 4
/* a process is silent if its last step began longer ago than this time and than SILENCE_PERIODS periods */
#define SILENCE_NS	(2 * NS_PER_S)
#define SILENCE_PERIODS 4

struct step_begin {
	int64_t step, raw_ns;
};

struct steps {
	int32_t pid; /* the process that is followed */
	bool counted; /* the process counted `last` itself */
	struct step_begin kept[STEPS_KEPT]; /* oldest first; each step above the one before */
	size_t n;
	void (*watch)(void *arg);
	void *arg;
};

/* ---- marks ---- */

/* "name#key=value,key=value#": the first '#', NULL if there is no metadata. */
static const char *metadata_of(const char *text)
{
	size_t len = strlen(text);
	const char *at;

	if (len < 2 || text[len - 1] != '#')
		return NULL;
	at = memrchr(text, '#', len - 1);
	return at;
}

static bool parse_number(const char *text, int64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return !errno && *out <= STEP_MAX && (*end == ',' || *end == '#');
}

bool step_of_mark(const char *text, int64_t *step, size_t *name_len)
{
	const char *at = metadata_of(text);

	if (!at)
		return false;
	*name_len = (size_t)(at - text);
	while (at[1]) {
		at++;
		if (!strncmp(at, STEP_KEY, strlen(STEP_KEY)))
			return parse_number(at + strlen(STEP_KEY), step);
		at += strcspn(at, ",#");
	}
	return false;
}

/* ---- periods ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Collects the periods without outliers; returns how many. */
static size_t list_periods(const struct steps *s, double out[STEPS_KEPT])
{
	double sorted[STEPS_KEPT];
	size_t n = s->n - 1, kept = 0;

	for (size_t i = 0; i < n; i++)
		out[i] = (double)(s->kept[i + 1].raw_ns - s->kept[i].raw_ns) /
			 (double)(s->kept[i + 1].step - s->kept[i].step);
	memcpy(sorted, out, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_doubles);
	for (size_t i = 0; i < n; i++) {
		if (out[i] <= OUTLIER_MEDIANS * sorted[n / 2])
			out[kept++] = out[i];
	}
	return kept;
}

static void set_period(const struct steps *s, struct step_state *out)
{
	double took[STEPS_KEPT], sum = 0, squares = 0;
	size_t n = list_periods(s, took);

	for (size_t i = 0; i < n; i++)
		sum += took[i];
	for (size_t i = 0; i < n; i++)
		squares += (took[i] - sum / (double)n) * (took[i] - sum / (double)n);
	out->period_ns = (int64_t)(sum / (double)n);
	out->jitter_ns = (int64_t)sqrt(squares / (double)n);
}

struct step_state steps_state(const struct steps *s)
{
	struct step_state out = { 0 };

	if (!s->n)
		return out;
	out.known = true;
	out.step = s->kept[s->n - 1].step;
	out.raw_ns = s->kept[s->n - 1].raw_ns;
	out.counted = s->counted;
	if (s->n > 1)
		set_period(s, &out);
	return out;
}

/* ---- the process that is followed ---- */

static bool is_silent(const struct steps *s, int64_t raw_ns)
{
	struct step_state now = steps_state(s);
	int64_t silent_ns = SILENCE_PERIODS * now.period_ns;

	return raw_ns - now.raw_ns > (silent_ns > SILENCE_NS ? silent_ns : SILENCE_NS);
}

/* False if the number or the stamp goes back: the process was restarted, and a new series begins. */
static bool is_next_step(const struct steps *s, int64_t step, int64_t raw_ns)
{
	const struct step_begin *last = &s->kept[s->n - 1];

	return step > last->step && raw_ns > last->raw_ns;
}

static void append_step(struct steps *s, int64_t step, int64_t raw_ns)
{
	if (s->n == STEPS_KEPT)
		memmove(s->kept, s->kept + 1, --s->n * sizeof(*s->kept));
	s->kept[s->n++] = (struct step_begin){ step, raw_ns };
}

void steps_add(struct steps *s, const struct step_mark *begin)
{
	if (begin->step < 0 || begin->step > STEP_MAX)
		return;
	if (s->counted) {
		s->counted = false;
		s->n = 0;
	}
	if (s->n && s->pid != begin->pid) {
		if (!is_silent(s, begin->raw_ns))
			return;
		s->n = 0;
	}
	if (s->n && begin->step == s->kept[s->n - 1].step)
		return;
	if (s->n && !is_next_step(s, begin->step, begin->raw_ns))
		s->n = 0;
	s->pid = begin->pid;
	append_step(s, begin->step, begin->raw_ns);
	if (s->watch)
		s->watch(s->arg);
}

void steps_set_counted(struct steps *s, int32_t pid, int64_t first, int64_t n, int64_t from_raw_ns,
		       int64_t to_raw_ns)
{
	if (s->n && !s->counted && !is_silent(s, to_raw_ns))
		return;
	s->n = 0;
	s->pid = pid;
	s->counted = true;
	append_step(s, first, from_raw_ns);
	append_step(s, first + n, to_raw_ns);
	if (s->watch)
		s->watch(s->arg);
}

void steps_watch(struct steps *s, void (*fn)(void *arg), void *arg)
{
	s->watch = fn;
	s->arg = arg;
}

struct steps *steps_new(void)
{
	return xcalloc(1, sizeof(struct steps));
}

void steps_free(struct steps *s)
{
	free(s);
}
