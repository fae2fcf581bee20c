/* SPDX-License-Identifier: Apache-2.0 */
/* A session as one file in the format of another viewer. */
#ifndef CLI_EXPORT_TRACE_H
#define CLI_EXPORT_TRACE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/api.h"

struct export_conf {
	int64_t from_ns, to_ns, min_duration_ns;
	struct conf_list track;
	bool ignore_device, ignore_system, merge;
	char *primary_group, *secondary_group;
};

#define EXPORT_MERGED "merged" /* the format of xspace with --merge */

#define EXPORT_FIELDS(T, m) \
	EXPORT_FIELD(T, m, merge, CONF_BOOL, NULL, \
		     "xspace: one file of all hosts, whose planes have the host in their names"), \
		EXPORT_FIELD(T, m, from_ns, CONF_TIME, "0", \
			     "not xspace: events from this time on, since T0"), \
		EXPORT_FIELD(T, m, to_ns, CONF_TIME, "0", \
			     "not xspace: events up to this time since T0; 0 = to the end"), \
		EXPORT_FIELD(T, m, min_duration_ns, CONF_TIME, "0", \
			     "not xspace: only events that last so long, like 10us"), \
		EXPORT_FIELD(T, m, track, CONF_LIST, NULL, \
			     "not xspace: only tracks whose PLANE/LINE this pattern matches, " \
			     "with * and ?; " \
			     "may be repeated"), \
		EXPORT_FIELD(T, m, ignore_device, CONF_BOOL, NULL, \
			     "not xspace: without planes of devices"), \
		EXPORT_FIELD(T, m, ignore_system, CONF_BOOL, NULL, \
			     "not xspace: without planes of the host's programs"), \
		EXPORT_FIELD(T, m, primary_group, CONF_STR, NULL, \
			     "pftrace: what tracks are grouped by: host, process, device, plane, " \
			     "line, with commas " \
			     "(also instance_id, process_id, lnc_idx, thread_id)"), \
		EXPORT_FIELD(T, m, secondary_group, CONF_STR, NULL, \
			     "pftrace: what a row in a group is named by, and lines of one name " \
			     "share a row")

/* The flag is named by the member alone. */
#define EXPORT_FIELD(T, m, member, kind, value, help) \
	{ \
#member, kind, offsetof(T, m.member), value, help, true, 0, 0 \
	}

struct export_job {
	const struct api_conf *api;
	const struct export_conf *conf;
	const char *format;
	const json_t *manifest;
	const struct conf_list *hosts; /* empty = all */
	const char *output; /* the folder */
};

bool export_is_trace(const char *format); /* one file of the session: not xspace */
bool export_wants_host(const struct conf_list *hosts, const char *host);

/* ERR_INVALID for a format that there is not, and for a setting that is wrong or not of this format. */
MUST_CHECK int export_check(const struct export_conf *conf, const char *format, struct err *e);

/* Writes OUTPUT/SESSION and the format's suffix: .pftrace, .trace.json, .system_profile.json, .pb.gz, .summary.txt; .xplane.pb of EXPORT_MERGED.
 * Prints what is in the file; of a summary the file itself. */
MUST_CHECK int export_trace(const struct export_job *job, struct err *e);

#endif
