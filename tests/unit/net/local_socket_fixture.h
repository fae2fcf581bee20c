/* SPDX-License-Identifier: Apache-2.0 */
/* A socket on this test's loop, and clients in the loop's workers. */
#ifndef TESTS_UNIT_NET_LOCAL_SOCKET_FIXTURE_H
#define TESTS_UNIT_NET_LOCAL_SOCKET_FIXTURE_H

#include <stdbool.h>

#include "base/loop.h"
#include "net/local_socket.h"

#define MAX_HELD 4

struct state {
	struct loop *loop;
	struct local_socket *socket;
	char folder[64], path[96], url[112];
	struct local_request *held[MAX_HELD];
	int n_held;
};

struct ask {
	const char *url;
	const char *text;
	size_t len;
	char *reply;
	size_t reply_len;
	int rc;
	struct err e;
	bool done;
};

/* A folder, an address in it and a loop; the socket is the test's to open. */
void local_fix_start(struct state *s);
void local_fix_stop(struct state *s);

/* Keeps a request "hold" in s->held; sends back anything else. */
void local_fix_handle(struct local_request *req, const void *data, size_t len, void *arg);

/* One client's question, in a worker; and its end, whatever it is. a->reply is the test's. */
void local_fix_ask(struct state *s, struct ask *a, const char *text, size_t len);
void local_fix_finish(struct state *s, struct ask *a);

/* Turns the loop until *done (may be NULL) or n_held requests are held; 30 s at most. */
void local_fix_wait(struct state *s, const bool *done, int n_held);

void local_fix_echo(struct state *s, const char *text, size_t len);

/* A bare socket, bound to the path or connected to it. */
int local_fix_socket(const char *path, bool serve);

#endif
