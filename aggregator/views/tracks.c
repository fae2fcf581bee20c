/* SPDX-License-Identifier: Apache-2.0 */
/* The tracks that a question is about. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/views/view.h"

/* "FILE.TRACK"; `*at` moves behind it. */
static bool next_track(const char **at, uint32_t *file, uint32_t *track)
{
	char *end;
	unsigned long f, t;

	if (**at < '0' || **at > '9')
		return false;
	f = strtoul(*at, &end, 10);
	if (*end != '.' || end[1] < '0' || end[1] > '9')
		return false;
	t = strtoul(end + 1, &end, 10);
	if (f > UINT32_MAX || t > UINT32_MAX || (*end && *end != ','))
		return false;
	*file = (uint32_t)f;
	*track = (uint32_t)t;
	*at = *end ? end + 1 : end;
	return true;
}

static int each_of_all(const struct view *view, view_track_fn fn, void *arg, struct err *e)
{
	struct view_place at = { 0 };
	int rc = 0;

	for (; !rc && at.file < view->n_files; at.file++) {
		const struct tvx_track *tracks;
		size_t n = tvx_tracks(view->files[at.file].x, &tracks);

		for (at.track = 0; !rc && at.track < n; at.track++)
			rc = fn(arg, &at, &tracks[at.track], e);
	}
	return rc;
}

int view_each_track(const struct view *view, const char *tracks, view_track_fn fn, void *arg,
		    struct err *e)
{
	struct view_place at = { 0 }, before = { 0 };
	const struct tvx_track *t;
	const char *p = tracks;
	bool is_first = true;
	int rc = 0;

	if (!strcmp(tracks, "all"))
		return each_of_all(view, fn, arg, e);
	while (!rc && *p) {
		/* in order: so that none is read twice */
		if (!next_track(&p, &at.file, &at.track) ||
		    (!is_first && (at.file < before.file ||
				   (at.file == before.file && at.track <= before.track))))
			return err_set(
				e, ERR_INVALID,
				"tracks '%.40s': use FILE.TRACK,FILE.TRACK in ascending order",
				tracks);
		is_first = false;
		before = at;
		rc = view_check_track(view, at.file, at.track, &t, e);
		if (!rc)
			rc = fn(arg, &at, t, e);
	}
	return rc;
}
