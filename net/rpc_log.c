/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core writes the cause of a failed handshake or bind to its own log only. Here its lines go to the
 * daemon's log, at most LINES_PER_WINDOW of them per window: a peer must not be able to fill a disk.
 */
#include <grpc/support/log.h>
#include <string.h>

#include "base/log.h"
#include "base/now.h"
#include "net/rpc_impl.h"

#define WINDOW_NS	 (10 * NS_PER_S)
#define LINES_PER_WINDOW 10

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t window_start_ns;
static unsigned int lines, dropped;
/* Receives the first warning of this thread instead of the log. */
static _Thread_local struct rpc_warning *kept;

/* Returns how many lines were dropped before this one, or -1 if this one is dropped, too. */
static int count_line(void)
{
	int64_t now = now_mono_ns();
	int before = -1;

	pthread_mutex_lock(&lock);
	if (!window_start_ns || now - window_start_ns > WINDOW_NS) {
		window_start_ns = now;
		lines = 0;
	}
	if (lines < LINES_PER_WINDOW) {
		lines++;
		before = (int)dropped;
		dropped = 0;
	} else {
		dropped++;
	}
	pthread_mutex_unlock(&lock);
	return before;
}

/*
 * Core's errors are trees: what failed, { where and when, children: [cause, {...}] }. The root's text
 * and the system's error are enough.
 */
static void shorten(const char *message, char *out, size_t size)
{
	static const char os_error[] = "os_error:\"";
	const char *why = strstr(message, os_error);
	int root = (int)strcspn(message, "{");

	while (root && message[root - 1] == ' ')
		root--;
	if (why)
		why += strlen(os_error);
	snprintf(out, size, "%.*s%s%.*s", root, message, why ? ": " : "",
		 why ? (int)strcspn(why, "\"") : 0, why ? why : "");
}

static void on_core_log(gpr_log_func_args *a)
{
	const char *slash = strrchr(a->file, '/');
	const char *file = slash ? slash + 1 : a->file;
	char text[RPC_WARNING_BYTES];
	int before;

	if (a->severity != GPR_LOG_SEVERITY_ERROR) {
		rpc_unidentified_note(a->message);
		return;
	}
	shorten(a->message, text, sizeof(text));
	if (kept) {
		if (!kept->text[0])
			snprintf(kept->text, sizeof(kept->text), "%s", text);
		return;
	}
	before = count_line();
	if (before >= 0)
		log_warn("NET-GRPC", "at=%s:%d dropped=%d text=\"%s\"", file, a->line, before,
			 text);
}

void rpc_log_hook(void)
{
	gpr_set_log_function(on_core_log);
}

void rpc_log_keep_first(struct rpc_warning *w)
{
	kept = w;
	if (w)
		w->text[0] = 0;
}
