/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/api/events.h"
#include "aggregator/captures/capture.h"
#include "base/mem.h"
#include "base/now.h"

#define MINUTE_NS (60 * NS_PER_S)
#define RETRY_S	  5 /* where nothing says when there is room */

/* The starts that a caller has left: they come back evenly, up to a minute's. */
struct starts {
	char *name;
	double left;
	int64_t at_ns; /* of the last start */
	size_t n_begun; /* that are no captures yet */
};

struct limits {
	struct limits_conf conf;
	const struct captures *captures;
	const struct events *events;
	struct starts *starts;
	size_t n;
};

struct limits *limits_new(const struct limits_conf *conf, const struct captures *captures,
			  const struct events *events)
{
	struct limits *l = xcalloc(1, sizeof(*l));

	*l = (struct limits){ .conf = *conf, .captures = captures, .events = events };
	l->starts = xcalloc(LIMITS_NAMES, sizeof(*l->starts));
	return l;
}

void limits_free(struct limits *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		free(l->starts[i].name);
	free(l->starts);
	free(l);
}

static struct starts *starts_of(struct limits *l, const char *name)
{
	struct starts *oldest = NULL;

	for (size_t i = 0; i < l->n; i++) {
		if (!strcmp(l->starts[i].name, name))
			return &l->starts[i];
		if (!l->starts[i].n_begun && (!oldest || l->starts[i].at_ns < oldest->at_ns))
			oldest = &l->starts[i];
	}
	if (l->n < LIMITS_NAMES)
		oldest = &l->starts[l->n++];
	if (!oldest)
		return NULL;
	free(oldest->name);
	*oldest = (struct starts){ .name = xstrdup(name), .left = l->conf.starts };
	return oldest;
}

static int take_start(struct limits *l, struct starts *s, int *retry_s, struct err *e)
{
	const char *name = s->name;
	int64_t now_ns = now_mono_ns();

	if (s->at_ns)
		s->left += (double)(now_ns - s->at_ns) / (double)MINUTE_NS * l->conf.starts;
	if (s->left > l->conf.starts)
		s->left = l->conf.starts;
	s->at_ns = now_ns;
	if (s->left < 1) {
		*retry_s = 1 + (int)((1 - s->left) * 60 / l->conf.starts);
		return err_set(e, ERR_LIMIT,
			       "%.100s may start %d captures a minute (limit-starts): try again "
			       "in %d s",
			       *name ? name : "a caller", l->conf.starts, *retry_s);
	}
	s->left -= 1;
	return 0;
}

int limits_start(struct limits *l, const char *name, int *retry_s, struct err *e)
{
	const char *who = *name ? name : "callers without a name";
	struct captures_use use = captures_use_of(l->captures, name);
	struct starts *s = starts_of(l, name);
	int rc;

	*retry_s = RETRY_S;
	if (!s)
		return err_set(e, ERR_LIMIT, "%d callers are starting captures: try again",
			       LIMITS_NAMES);
	use.n += s->n_begun;
	if (l->conf.captures && use.n >= (size_t)l->conf.captures)
		return err_set(e, ERR_LIMIT,
			       "%.100s: %zu captures are under way, and the limit of one caller is "
			       "%d (limit-captures)",
			       who, use.n, l->conf.captures);
	if (l->conf.bytes && use.bytes >= l->conf.bytes)
		return err_set(e, ERR_LIMIT,
			       "%.100s: captures of %" PRIu64 " bytes are under way, and the limit "
			       "of one caller is %" PRIu64 " (limit-bytes)",
			       who, use.bytes, l->conf.bytes);
	rc = l->conf.starts ? take_start(l, s, retry_s, e) : 0;
	s->n_begun += !rc;
	return rc;
}

void limits_end_start(struct limits *l, const char *name)
{
	struct starts *s = starts_of(l, name);

	if (s && s->n_begun)
		s->n_begun--;
}

int limits_stream(const struct limits *l, const char *name, int *retry_s, struct err *e)
{
	size_t n = events_streams_of(l->events, name);

	*retry_s = RETRY_S;
	if (!l->conf.streams || n < (size_t)l->conf.streams)
		return 0;
	return err_set(e, ERR_LIMIT,
		       "%.100s: %zu event streams are open, and the limit of one caller is %d "
		       "(limit-streams)",
		       *name ? name : "callers without a name", n, l->conf.streams);
}
