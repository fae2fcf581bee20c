/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/profiler_series.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void profiler_series_init(struct profiler_series_list *list)
{
	TAILQ_INIT(&list->all);
	list->n = 0;
}

static void series_free(struct profiler_series_list *list, struct profiler_series *s)
{
	TAILQ_REMOVE(&list->all, s, entry);
	list->n--;
	free(s->client);
	free(s->session);
	free(s);
}

void profiler_series_free_all(struct profiler_series_list *list)
{
	while (!TAILQ_EMPTY(&list->all))
		series_free(list, TAILQ_FIRST(&list->all));
}

struct profiler_series *profiler_series_find(struct profiler_series_list *list, const char *client)
{
	struct profiler_series *s;

	TAILQ_FOREACH (s, &list->all, entry) {
		if (!strcmp(s->client, client))
			return s;
	}
	return NULL;
}

void profiler_series_begin(struct profiler_series_list *list, const char *client, bool emit_xspace)
{
	struct profiler_series *s;

	profiler_series_end(list, client);
	if (list->n == PROFILER_SERIES_MAX)
		series_free(list, TAILQ_FIRST(&list->all));
	s = xcalloc(1, sizeof(*s));
	s->client = xstrdup(client);
	s->emit_xspace = emit_xspace;
	TAILQ_INSERT_TAIL(&list->all, s, entry);
	list->n++;
}

void profiler_series_end(struct profiler_series_list *list, const char *client)
{
	struct profiler_series *s = profiler_series_find(list, client);

	if (s)
		series_free(list, s);
}

void profiler_series_window(const struct profiler_series *s, int64_t now_ns, int64_t *t0_ns,
			    int64_t *t1_ns)
{
	*t1_ns = now_ns;
	if (!s || !s->t1_ns) {
		*t0_ns = now_ns - PROFILER_SNAPSHOT_NS;
	} else if (s->t1_ns > s->t0_ns && now_ns - s->t1_ns < PROFILER_SAME_INSTANT_NS) {
		*t0_ns = s->t0_ns;
		*t1_ns = s->t1_ns;
	} else {
		*t0_ns = s->t1_ns;
		if (*t0_ns < now_ns - PROFILER_SNAPSHOT_MAX_NS)
			*t0_ns = now_ns - PROFILER_SNAPSHOT_MAX_NS;
	}
}

void profiler_series_add(struct profiler_series *s, const char *session, int64_t t0_ns,
			 int64_t t1_ns)
{
	free(s->session);
	s->session = xstrdup(session);
	s->t0_ns = t0_ns;
	s->t1_ns = t1_ns;
}

void profiler_series_lose(struct profiler_series_list *list, const char *session)
{
	struct profiler_series *s;

	TAILQ_FOREACH (s, &list->all, entry) {
		if (s->session && !strcmp(s->session, session))
			s->t1_ns = s->t0_ns;
	}
}
