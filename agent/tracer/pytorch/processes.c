/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/processes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/living.h"
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
	struct loop_timer retry, look;
	struct pytorch_process *list;
	size_t n, cap;
	pytorch_ask_fn ask;
	void *arg;
	struct buf config, reply;
	int64_t warned_mono_ns;
	int64_t full_mono_ns; /* when one was last left out; 0 = never */
};

/* ---- the list ---- */

static void close_answer(struct pytorch_process *p)
{
	if (p->answer_fd >= 0)
		close(p->answer_fd);
	p->answer_fd = -1;
}

static void drop_gone(struct pytorch_processes *ps)
{
	int64_t since_ns = loop_now_ns(ps->loop) - PYTORCH_GONE_NS;
	size_t kept = 0;

	for (size_t i = 0; i < ps->n; i++) {
		if (ps->list[i].asked_mono_ns >= since_ns &&
		    !proc_has_ended((uint32_t)ps->list[i].pid))
			ps->list[kept++] = ps->list[i];
		else
			close_answer(&ps->list[i]);
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
	**out = (struct pytorch_process){ .pid = from->pid, .uid = from->uid, .answer_fd = -1 };
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
	log_debug("AGENT-PYTORCH", "pid=%" PRId64 " state=asked can_record=%d", p->pid,
		  p->can_record);
	if (p->requests == 1)
		log_info("AGT-PYTORCH", "pid=%" PRId64 " comm=\"%s\" uid=%" PRIu32 " state=known",
			 p->pid, p->comm, p->uid);
}

/* Whether an answer will be taken for the one to this request. */
static bool can_answer(struct pytorch_process *p, const struct datagram_from *from,
		       int64_t sent_mono_ns)
{
	bool is_behind = p->is_behind;

	p->is_behind = false;
	return !is_behind && from->waited_ns <= PYTORCH_ANSWER_IN_NS &&
	       (!p->answered_mono_ns || sent_mono_ns - p->answered_mono_ns > PYTORCH_AT_ONCE_NS);
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
	buf_reset(reply);
	if (m.type == DYNOLOG_REQUEST) {
		int64_t sent_mono_ns = loop_now_ns(ps->loop) - from->waited_ns;

		p = find(ps, from->pid);
		rc = p ? 0 : add(ps, from, &p, e);
		if (rc)
			return rc;
		note(ps, p, &m);
		if (!can_answer(p, from, sent_mono_ns))
			return 0;
		p->answered_mono_ns = sent_mono_ns;
		ps->ask(ps->arg, p, &ps->config);
	} else if (from->waited_ns > PYTORCH_ANSWER_IN_NS) {
		return 0;
	}
	dynolog_reply(m.type, buf_str(&ps->config), reply);
	return 0;
}

/* Which answers were not taken. */
static void look_at_answers(void *arg)
{
	struct pytorch_processes *ps = arg;
	int64_t now_ns = loop_now_ns(ps->loop), next_ns = INT64_MAX;

	for (size_t i = 0; i < ps->n; i++) {
		struct pytorch_process *p = &ps->list[i];
		int64_t due_ns = p->answered_mono_ns + PYTORCH_TAKEN_IN_NS;

		if (p->answer_fd < 0)
			continue;
		if (now_ns < due_ns) {
			next_ns = due_ns < next_ns ? due_ns : next_ns;
			continue;
		}
		p->is_behind = !datagram_is_read(p->answer_fd);
		if (p->is_behind)
			log_debug("AGENT-PYTORCH", "pid=%" PRId64 " state=behind", p->pid);
		close_answer(p);
	}
	if (next_ns < INT64_MAX)
		loop_timer_at(ps->loop, &ps->look, next_ns, look_at_answers, ps);
}

static void answer(struct pytorch_processes *ps, struct socket *s, const struct datagram_from *from)
{
	struct pytorch_process *p = find(ps, from->pid);

	if (!ps->reply.len)
		return;
	if (!p) {
		datagram_reply(s->datagram, from, ps->reply.data, ps->reply.len);
		return;
	}
	close_answer(p);
	p->answer_fd = datagram_answer(s->datagram, from, ps->reply.data, ps->reply.len);
	if (!loop_timer_armed(&ps->look))
		loop_timer_in(ps->loop, &ps->look, PYTORCH_TAKEN_IN_NS, look_at_answers, ps);
}

static void on_datagram(void *arg, const void *data, size_t len, const struct datagram_from *from)
{
	struct socket *s = arg;
	struct pytorch_processes *ps = s->owner;
	int64_t now_ns = loop_now_ns(ps->loop);
	struct err e;

	if (!pytorch_processes_take(ps, data, len, from, &ps->reply, &e)) {
		answer(ps, s, from);
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
	loop_timer_cancel(ps->loop, &ps->look);
	for (size_t i = 0; i < ps->n; i++)
		close_answer(&ps->list[i]);
	for (size_t i = 0; i < ARRAY_SIZE(ps->sockets); i++) {
		datagram_free(ps->sockets[i].datagram);
		free(ps->sockets[i].path);
	}
	free(ps->list);
	buf_release(&ps->config);
	buf_release(&ps->reply);
	free(ps);
}
