/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/processes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/pytorch/dynolog.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/datagram.h"

struct socket {
	struct pytorch_processes *owner;
	char *path; /* NULL = not wanted */
	struct datagram *datagram; /* NULL = not listening */
	struct err error;
};

struct pytorch_processes {
	struct loop *loop;
	struct socket sockets[2];
	struct loop_timer retry;
	struct pytorch_process *list;
	size_t n, cap;
	pytorch_ask_fn ask;
	void *arg;
	struct buf config, reply;
	int64_t warned_mono_ns;
	int64_t full_mono_ns; /* when one was last left out; 0 = never */
};

/* ---- the list ---- */

static void drop_gone(struct pytorch_processes *ps)
{
	int64_t since_ns = loop_now_ns(ps->loop) - PYTORCH_GONE_NS;
	size_t kept = 0;

	for (size_t i = 0; i < ps->n; i++) {
		if (ps->list[i].asked_mono_ns >= since_ns)
			ps->list[kept++] = ps->list[i];
	}
	ps->n = kept;
}

const struct pytorch_process *pytorch_processes_list(struct pytorch_processes *ps, size_t *n)
{
	drop_gone(ps);
	*n = ps->n;
	return ps->list;
}

bool pytorch_processes_left_out(const struct pytorch_processes *ps)
{
	return ps->full_mono_ns && ps->full_mono_ns >= loop_now_ns(ps->loop) - PYTORCH_GONE_NS;
}

static struct pytorch_process *find(struct pytorch_processes *ps, int64_t pid)
{
	for (size_t i = 0; i < ps->n; i++) {
		if (ps->list[i].pid == pid)
			return &ps->list[i];
	}
	return NULL;
}

static int check_room(struct pytorch_processes *ps, uint32_t uid, struct err *e)
{
	size_t of_user = 0;

	drop_gone(ps);
	for (size_t i = 0; i < ps->n; i++)
		of_user += ps->list[i].uid == uid;
	if (ps->n >= PYTORCH_PROCESSES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d processes", PYTORCH_PROCESSES_MAX);
	if (of_user >= PYTORCH_PER_USER_MAX)
		return err_set(e, ERR_LIMIT, "more than %d processes of user %" PRIu32,
			       PYTORCH_PER_USER_MAX, uid);
	return 0;
}

static int add(struct pytorch_processes *ps, const struct datagram_from *from,
	       struct pytorch_process **out, struct err *e)
{
	char path[64];
	int rc = check_room(ps, from->uid, e);

	if (rc) {
		ps->full_mono_ns = loop_now_ns(ps->loop);
		return rc;
	}
	if (ps->n == ps->cap) {
		ps->cap = ps->cap ? 2 * ps->cap : 16;
		ps->list = xrealloc(ps->list, ps->cap * sizeof(*ps->list));
	}
	*out = &ps->list[ps->n++];
	**out = (struct pytorch_process){ .pid = from->pid, .uid = from->uid };
	snprintf(path, sizeof(path), "/proc/%" PRId64 "/comm", from->pid);
	if (!file_first_line(path, (*out)->comm, sizeof((*out)->comm)))
		snprintf((*out)->comm, sizeof((*out)->comm), "process");
	return 0;
}

/* ---- datagrams ---- */

static void note(struct pytorch_processes *ps, struct pytorch_process *p,
		 const struct dynolog_message *m)
{
	p->asked_mono_ns = loop_now_ns(ps->loop);
	p->inner_pid = m->pid;
	p->job = m->job;
	p->can_record = m->can_record;
	p->requests++;
	if (p->requests == 1)
		log_info("AGT-PYTORCH", "pid=%" PRId64 " comm=\"%s\" uid=%" PRIu32 " state=known",
			 p->pid, p->comm, p->uid);
}

int pytorch_processes_take(struct pytorch_processes *ps, const void *data, size_t len,
			   const struct datagram_from *from, struct buf *reply, struct err *e)
{
	struct dynolog_message m;
	struct pytorch_process *p = NULL;
	int rc = dynolog_parse(data, len, &m, e);

	if (rc)
		return rc;
	if (from->pid <= 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "its process is not visible from here: the agent needs the host's "
			       "PID namespace");
	buf_reset(&ps->config);
	if (m.type == DYNOLOG_REQUEST) {
		p = find(ps, from->pid);
		rc = p ? 0 : add(ps, from, &p, e);
		if (rc)
			return rc;
		note(ps, p, &m);
	}
	if (from->waited_ns > PYTORCH_ANSWER_IN_NS) {
		buf_reset(reply);
		return 0;
	}
	if (m.type == DYNOLOG_REQUEST) {
		ps->ask(ps->arg, p, &ps->config);
	}
	dynolog_reply(m.type, buf_str(&ps->config), reply);
	return 0;
}

static void on_datagram(void *arg, const void *data, size_t len, const struct datagram_from *from)
{
	struct socket *s = arg;
	struct pytorch_processes *ps = s->owner;
	int64_t now_ns = loop_now_ns(ps->loop);
	struct err e;

	if (!pytorch_processes_take(ps, data, len, from, &ps->reply, &e)) {
		if (ps->reply.len)
			datagram_reply(s->datagram, from->addr, from->addr_len, ps->reply.data,
				       ps->reply.len);
	} else if (!ps->warned_mono_ns || now_ns - ps->warned_mono_ns >= 60 * NS_PER_S) {
		ps->warned_mono_ns = now_ns; /* any process may send: one line a minute */
		log_warn("AGT-PYTORCH", "pid=%" PRId64 " uid=%" PRIu32 " reason=\"%s\"", from->pid,
			 from->uid, e.msg);
	}
}

/* ---- sockets ---- */

static void listen_all(void *arg)
{
	struct pytorch_processes *ps = arg;
	bool again = false;

	for (size_t i = 0; i < ARRAY_SIZE(ps->sockets); i++) {
		struct socket *s = &ps->sockets[i];

		if (!s->path || s->datagram)
			continue;
		s->error = (struct err){ 0 };
		again |= datagram_listen(&s->datagram, ps->loop, s->path, on_datagram, s,
					 &s->error) != 0;
	}
	if (again)
		loop_timer_in(ps->loop, &ps->retry, PYTORCH_RETRY_LISTEN_NS, listen_all, ps);
}

int pytorch_processes_error(const struct pytorch_processes *ps, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(ps->sockets); i++) {
		const struct socket *s = &ps->sockets[i];

		if (s->path && !s->datagram)
			return err_set(e, s->error.code, "%s", s->error.msg);
	}
	return 0;
}

struct pytorch_processes *pytorch_processes_new(struct loop *loop, const char *abstract,
						const char *directory, pytorch_ask_fn ask,
						void *arg)
{
	struct pytorch_processes *ps = xcalloc(1, sizeof(*ps));

	ps->loop = loop;
	ps->ask = ask;
	ps->arg = arg;
	ps->sockets[0].owner = ps->sockets[1].owner = ps;
	if (abstract && *abstract)
		ps->sockets[0].path = xasprintf("@%s", abstract);
	if (directory && *directory)
		ps->sockets[1].path = xasprintf("%s/dynolog", directory);
	listen_all(ps);
	return ps;
}

void pytorch_processes_free(struct pytorch_processes *ps)
{
	if (!ps)
		return;
	loop_timer_cancel(ps->loop, &ps->retry);
	for (size_t i = 0; i < ARRAY_SIZE(ps->sockets); i++) {
		datagram_free(ps->sockets[i].datagram);
		free(ps->sockets[i].path);
	}
	free(ps->list);
	buf_release(&ps->config);
	buf_release(&ps->reply);
	free(ps);
}
