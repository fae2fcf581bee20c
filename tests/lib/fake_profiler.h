/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensorflow.ProfilerService with a chosen behaviour, in place of a framework: for unit tests on
 * the test's own loop, and as the program tests/e2e/fake_profiler.
 */
#ifndef TESTS_FAKE_PROFILER_H
#define TESTS_FAKE_PROFILER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/tensorflow/profiler_service.pb-c.h"

struct loop;
struct rpc;
struct fake_profiler;

enum fake_mode {
	FAKE_GOOD, /* sleeps until the start, records, answers with an XSpace; one at a time, as all; the only one that
		    * has continuous profiling */
	FAKE_OLD, /* writes <repository>/<session>/<host>.xplane.pb, answers without */
	FAKE_OLD_PLUGINS, /* the same below <repository>/plugins/profile/ */
	FAKE_OLD_DEAF, /* as FAKE_OLD, and its file is written although the call was cancelled */
	FAKE_OLD_LOST, /* announces data, writes no file */
	FAKE_UNDATED, /* its XSpace has no Task Environment */
	FAKE_EMPTY, /* an XSpace without anything */
	FAKE_BUSY, /* "Another profiling session active." */
	FAKE_BROKEN, /* INTERNAL, another text */
	FAKE_HANGS, /* never answers Profile; Terminate it does */
	FAKE_GARBAGE, /* a message that is no ProfileResponse */
	FAKE_NO_XSPACE, /* a ProfileResponse whose XSpace is none */
	FAKE_HUGE, /* an XSpace of some 20 MB */
	FAKE_OTHER, /* a gRPC server without a profiler */
	FAKE_MODES
};

/* "good", "old", ... as the program's --mode takes them. */
extern const char *const fake_mode_names[FAKE_MODES];

/* The requests it received. */
struct fake_seen {
	int profiles, terminates, cancelled;
	int starts, stops, snapshots; /* of continuous profiling */
	char terminated[128]; /* the last session that Terminate named */
	Tensorflow__ProfileRequest *request; /* the last; borrowed */
};

MUST_CHECK int fake_profiler_new(struct fake_profiler **out, struct loop *loop, struct rpc *rpc,
				 enum fake_mode mode, const char *address, int *port,
				 struct err *e);
/* FAKE_OLD gives this file instead (a link to it: same file system), FAKE_GOOD its bytes, with the date; borrowed. */
void fake_profiler_give(struct fake_profiler *f, const char *path);
/* It answers so long after its window; before its end if negative. */
void fake_profiler_delay(struct fake_profiler *f, int64_t delay_ns);
void fake_profiler_free(struct fake_profiler *f); /* NULL is fine */

const struct fake_seen *fake_profiler_seen(const struct fake_profiler *f);

#endif
