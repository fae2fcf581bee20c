/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The typed reasons of failures of hosts and tracers, as in the manifest, the API and the control
 * stream, beside a detail for people. All code takes the words from here; docs/wire.md has the same
 * table. A reason is sent as text: the aggregator replaces a word that this table lacks by "other".
 *
 *   reason_find("lost")->by == REASON_BY_AGGREGATOR
 *   capture_host_failed(h, REASON_LOST, "the agent's connection ended");
 */
#ifndef PROTO_REASONS_H
#define PROTO_REASONS_H

/* Which side sets it. */
enum { REASON_BY_AGENT = 1, REASON_BY_AGGREGATOR = 2, REASON_BY_BOTH = 3 };

/* The states of a host with this reason. */
enum { REASON_PARTIAL = 1, REASON_FAILED = 2, REASON_PARTIAL_OR_FAILED = 3 };

/* Further properties. */
enum {
	REASON_REFUSES = 1, /* an agent may answer Arm with it */
	REASON_DELIVERABLE = 2, /* the agent may still have the file: a retry may fetch it */
};

/* clang-format off */
/* X(constant, word, states, by, flags, meaning) */
#define REASONS(X) \
	X(UNREACHABLE, "unreachable", FAILED, AGGREGATOR, 0, \
	  "the host was not connected when the capture began") \
	X(UNRESPONSIVE, "unresponsive", FAILED, AGGREGATOR, 0, \
	  "no answer to `Arm` by T0 + 1 s (T0 + lead if longer), nor within 1 s after another " \
	  "host's") \
	X(LOST, "lost", FAILED, AGGREGATOR, REASON_DELIVERABLE, \
	  "the link broke for more than 3 s, or the agent came back without this capture: " \
	  "killed, or host gone") \
	X(REFUSED, "refused", FAILED, BOTH, REASON_REFUSES, \
	  "the agent cannot take part: detail has the cause") \
	X(DISK_FULL, "disk-full", PARTIAL_OR_FAILED, AGENT, REASON_REFUSES, \
	  "the agent's spool is full: `--spool-limit` or the disk. Partial: data is left out, see " \
	  "below") \
	X(BUSY, "busy", FAILED, AGENT, REASON_REFUSES, \
	  "the agent already runs this session") \
	X(LATE, "late", FAILED, AGENT, REASON_REFUSES, \
	  "`Arm` came after the file's deadline; between T0 and then a host records, with " \
	  "`armed_late_ns` and a warning") \
	X(UNCALIBRATED, "uncalibrated", PARTIAL, BOTH, REASON_REFUSES, \
	  "the clock was never measured: times in its file are the host's own. Goes before " \
	  "any other reason") \
	X(TIMEOUT, "timeout", FAILED, BOTH, REASON_DELIVERABLE, \
	  "there was no file by the deadline") \
	X(STALLED, "stalled", FAILED, BOTH, REASON_DELIVERABLE, \
	  "there was a file, and it was not stored by the deadline: detail has how much had " \
	  "arrived") \
	X(UPLOAD, "upload", FAILED, BOTH, REASON_DELIVERABLE, \
	  "the bytes did not arrive intact: detail has the last error (a full spool, a " \
	  "broken link, ...)") \
	X(TOO_LARGE, "too-large", PARTIAL_OR_FAILED, AGENT, 0, \
	  "a plane or the whole host is too large for files, see below") \
	X(ASSEMBLE, "assemble", FAILED, AGENT, 0, \
	  "the parts could not be merged") \
	X(CANCELLED, "cancelled", FAILED, AGGREGATOR, 0, \
	  "the capture was cancelled") \
	X(STEP, "step", FAILED, AGGREGATOR, 0, \
	  "the training step could not be recorded: detail has the cause; no host was armed") \
	X(QUEUED, "queued", FAILED, AGGREGATOR, 0, \
	  "the capture waited in the queue for as long as it was allowed to; no host was " \
	  "armed") \
	X(STORE, "store", FAILED, AGGREGATOR, 0, \
	  "the aggregator's store did not take the plan: no host was armed") \
	X(PROFILER_UNREACHABLE, "profiler-unreachable", PARTIAL, AGENT, 0, \
	  "nothing listens at the address of a framework profiler") \
	X(PROFILER_BUSY, "profiler-busy", PARTIAL, AGENT, 0, \
	  "another profiling session is active in that process") \
	X(PROFILER_OLD, "profiler-old", PARTIAL, AGENT, 0, \
	  "the process has no ProfilerService that the agent supports") \
	X(PROFILER_TIMEOUT, "profiler-timeout", PARTIAL, AGENT, 0, \
	  "the profiler did not answer in time") \
	X(PROFILER_LOST, "profiler-lost", PARTIAL, AGENT, 0, \
	  "the process, or its recording, ended before the window did") \
	X(PROFILER_FAILED, "profiler-failed", PARTIAL, AGENT, 0, \
	  "the profiler answered with another error") \
	X(NO_FRAMEWORK, "no-framework", PARTIAL, AGENT, 0, \
	  "the capture asks for a framework's own events, and no framework's profiler was found") \
	X(NO_POLL, "no-poll", PARTIAL, AGENT, 0, \
	  "a PyTorch process did not ask for its configuration, as it does every five seconds") \
	X(REFUSED_LATE, "refused-late", PARTIAL, AGENT, 0, \
	  "a PyTorch process was asked too late to record: it needs its warm-up and two seconds") \
	X(EMPTY, "empty", PARTIAL, AGENT, 0, \
	  "a framework recorded, and its trace has no event") \
	X(NO_PERMISSION, "no-permission", PARTIAL, AGENT, 0, \
	  "a tracer lacks a right: detail names it") \
	X(UNSUPPORTED, "unsupported", PARTIAL, AGENT, 0, \
	  "the host's kernel, devices or programs do not support what the tracer needs") \
	X(WINDOW_CUT, "window-cut", PARTIAL, AGENT, 0, \
	  "a part of the window is missing, see below") \
	X(BUDGET, "budget", PARTIAL, AGENT, 0, \
	  "a tracer recorded less, to keep the agent below `--max-cpu`") \
	X(TRACER_FAILED, "tracer-failed", PARTIAL, AGENT, 0, \
	  "any other failure of a tracer") \
	X(OTHER, "other", PARTIAL_OR_FAILED, AGGREGATOR, 0, \
	  "the agent sent a reason that this table lacks, or that is not an agent's: detail " \
	  "begins with it")
/* clang-format on */

/* REASON_LOST is "lost", and so on. */
#define REASON_CONSTANT(constant, word, states, by, flags, meaning) \
	extern const char REASON_##constant[sizeof(word)];
REASONS(REASON_CONSTANT)
#undef REASON_CONSTANT

struct reason {
	const char *word;
	unsigned int states, by, flags;
	const char *meaning; /* Markdown, one line */
};

extern const struct reason reasons[]; /* ends with an all-zero row */

/* NULL for a word that the table lacks. */
const struct reason *reason_find(const char *word);

#endif
