/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core says why a handshake or a bind failed only in its own log. Here its lines become ours, at
 * most LINES_PER_WINDOW of them per window: a peer must not be able to fill a disk.
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
/* Where the first complaint of this thread goes instead of the log. */
static _Thread_local struct rpc_complaint *listener;

/* How many lines were dropped before this one; -1 if this one is dropped too. */
static int admit(void)
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
 * Core's errors are trees: what failed, { where and when, children: [why, {...}] }. What a person
 * needs is the root's words and the system's.
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
	char text[RPC_COMPLAINT_BYTES];
	int before;

	if (a->severity != GPR_LOG_SEVERITY_ERROR) {
		rpc_strangers_hear(a->message);
		return;
	}
	shorten(a->message, text, sizeof(text));
	if (listener) {
		if (!listener->text[0])
			snprintf(listener->text, sizeof(listener->text), "%s", text);
		return;
	}
	before = admit();
	if (before >= 0)
		log_warn("NET-GRPC", "at=%s:%d dropped=%d text=\"%s\"", file, a->line, before,
			 text);
}

void rpc_log_hook(void)
{
	gpr_set_log_function(on_core_log);
}

void rpc_log_listen(struct rpc_complaint *c)
{
	listener = c;
	if (c)
		c->text[0] = 0;
}
