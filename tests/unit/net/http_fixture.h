/* SPDX-License-Identifier: Apache-2.0 */
/* A server on this test's loop, and clients in the loop's workers. */
#ifndef TESTS_HTTP_FIXTURE_H
#define TESTS_HTTP_FIXTURE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"
#include "net/http_client.h"
#include "net/http_server.h"

struct fixture {
	struct loop *loop;
	struct http_server *server;
	int port;
};

void fixture_start(struct fixture *f, const struct http_server_opts *opts, http_handler handler,
		   void *arg);
void fixture_stop(struct fixture *f);

/* Turns the loop until *flag; ends the test if that takes 30 s. */
void fixture_wait(struct fixture *f, const bool *flag);

/* One client's call, in a worker. */
struct job {
	struct http_call call;
	char url[512];
	int rc, status;
	struct buf answer;
	struct err e;
	bool done;
};

/* `method` and the strings of `call` live as long as the job. */
void job_start(struct fixture *f, struct job *j, const char *method, const char *path);
void job_end(struct job *j);

/* Starts it, waits for it, checks that an answer came; returns the status. */
int job_run(struct fixture *f, struct job *j, const char *method, const char *path);

/* Connects to the server with a bare socket, sends the text; reads time out after 10 s. */
int raw_open(const struct fixture *f, const char *text);

/* Reads until `until` was seen (NULL = to the end), closes nothing. False if the end came first. */
bool raw_read(int fd, const char *until, struct buf *out);

#endif
