/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/marks.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/sessions.h"
#include "base/hash.h"
#include "base/mem.h"
#include "json/json_text.h"

#define PLACES 4096 /* a session has one place; another one may take it */

struct place {
	char session[SESSION_NAME_BYTES]; /* "" = free */
	char *owner;
	struct spaces spaces;
	struct session_marks marks; /* of the two above */
};

struct marks_cache {
	struct place places[PLACES];
};

struct marks_cache *marks_new(void)
{
	return xcalloc(1, sizeof(struct marks_cache));
}

static void clear(struct place *p)
{
	free(p->owner);
	spaces_release(&p->spaces);
	*p = (struct place){ 0 };
}

void marks_free(struct marks_cache *m)
{
	for (size_t i = 0; m && i < PLACES; i++)
		clear(&m->places[i]);
	free(m);
}

static struct place *place_of(const struct marks_cache *m, const char *session)
{
	return (struct place *)&m->places[hash_text(session) % PLACES];
}

const struct session_marks *marks_find(const struct marks_cache *m, const char *session)
{
	const struct place *p = place_of(m, session);

	return strcmp(p->session, session) ? NULL : &p->marks;
}

const struct session_marks *marks_put(struct marks_cache *m, const char *session,
				      const json_t *marks)
{
	struct place *p = place_of(m, session);

	clear(p);
	strncpy(p->session, session, sizeof(p->session) - 1);
	p->owner = xstrdup(json_get_text(marks, "owner"));
	spaces_read(&p->spaces, json_object_get(marks, "namespaces"));
	p->marks = (struct session_marks){ .owner = p->owner, .spaces = &p->spaces };
	return &p->marks;
}

void marks_forget(struct marks_cache *m, const char *session)
{
	struct place *p = place_of(m, session);

	if (!strcmp(p->session, session))
		clear(p);
}
