/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/sampler.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pods/pod_view.h"
#include "agent/proc/file_keeper.h"
#include "agent/proc/progress.h"
#include "agent/proc/status.h"
#include "agent/python/hung.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/memory.h"
#include "base/now.h"
#include "base/reader.h"

/* Rounds take a quarter of a second: sooner it is not looked at whether they hang. */
#define FIRST_LOOK_MS 400
#define PIDS_MAX      65536
#define REPORT_MAX    (256U << 20) /* bytes: far beyond what rounds of 512 processes bring */
#define RATE_NS \
	(NS_PER_S / 2) /* a report of rounds that were ended early may have no sample at all */

struct python_sampler {
	struct python_functions *functions;
	const struct file_keeper *keeper; /* NULL: `rounds` are here */
	struct python_rounds *rounds;
	struct python_board *board, own_board;
	struct python_hung *hung;
	atomic_bool stopped;
	int fd; /* to the process that makes rounds; -1 = none */
	struct buf order, report;
	struct python_brought brought;
	size_t cap_sampled, cap_samples, cap_frames;
	uint32_t *numbers; /* the functions as that process numbers them; -> in `functions` */
	size_t n_numbers, cap_numbers;
	uint32_t last_serial;
	/* The last reports, for what is lost when there is none. */
	int64_t reported_raw_ns, rate_raw_ns;
	size_t rate_samples; /* since rate_raw_ns */
	double samples_per_ns;
	/* processes that are left alone */
	size_t n_alone;
	uint32_t one_alone;
};

/* ---- the process that makes rounds ---- */

static bool receive_all(int fd, void *out, size_t len)
{
	ssize_t n = 1;

	for (size_t done = 0; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
		do
			n = recv(fd, (uint8_t *)out + done, len - done, 0);
		while (n < 0 && errno == EINTR);
	return n > 0;
}

static bool send_all(int fd, const void *bytes, size_t len)
{
	ssize_t n = 1;

	for (size_t done = 0; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
		do
			n = send(fd, (const uint8_t *)bytes + done, len - done, MSG_NOSIGNAL);
		while (n < 0 && errno == EINTR);
	return n > 0;
}

/* Its length, and the message. */
static bool send_message(int fd, const struct buf *message)
{
	const uint64_t len = message->len;

	return send_all(fd, &len, sizeof(len)) && send_all(fd, message->data, message->len);
}

static void serve_order(int fd, struct python_rounds *r, struct python_board *board,
			struct buf *order)
{
	int64_t cpu_ns = now_process_cpu_ns();
	struct buf report = BUF_INIT;

	python_rounds_make(r, order->data, order->len, &report);
	atomic_fetch_add(&board->cpu_ns, now_process_cpu_ns() - cpu_ns);
	if (((const struct python_order *)(const void *)order->data)->must_scan)
		atomic_store(&board->resident_bytes, memory_resident_bytes());
	if (!send_message(fd, &report))
		_exit(0);
	buf_release(&report);
}

/* It reads files, which may hang, too, through readers of its own. */
static void serve(int fd, void *shared)
{
	struct python_board *board = shared;
	struct file_keeper *keeper = NULL;
	struct buf order = BUF_INIT;
	struct python_rounds *r;
	uint64_t len;

	atomic_store(&board->maker, (uint32_t)getpid());
	if (file_keeper_start(&keeper, NULL, NULL))
		_exit(1);
	r = python_rounds_new(keeper, board);
	while (receive_all(fd, &len, sizeof(len))) {
		buf_reset(&order);
		buf_reserve(&order, len);
		if (!receive_all(fd, order.data, len))
			break;
		order.len = len;
		serve_order(fd, r, board, &order);
	}
	_exit(0);
}

const struct file_helper python_helper = { .name = "tutti-python",
					   .serve = serve,
					   .shared_bytes = sizeof(struct python_board) };

struct python_usage python_helper_usage(const struct file_keeper *keeper)
{
	struct python_board *board = file_keeper_shared(keeper);

	return (struct python_usage){ atomic_load(&board->cpu_ns),
				      atomic_load(&board->resident_bytes) };
}

/* ---- the agent's side ---- */

static void number_anew(struct python_sampler *s)
{
	for (s->n_numbers = 0; s->n_numbers <= PYTHON_FUNCTION_CUT; s->n_numbers++)
		s->numbers[s->n_numbers] = (uint32_t)s->n_numbers;
}

struct python_sampler *python_sampler_new(struct python_functions *functions,
					  const struct file_keeper *keeper)
{
	struct python_sampler *s = xcalloc(1, sizeof(*s));

	s->functions = functions;
	s->keeper = keeper;
	s->board = keeper ? file_keeper_shared(keeper) : &s->own_board;
	if (!keeper)
		s->rounds = python_rounds_new(NULL, s->board);
	s->hung = python_hung_new();
	s->fd = -1;
	s->cap_numbers = 256;
	s->numbers = xcalloc(s->cap_numbers, sizeof(*s->numbers));
	number_anew(s);
	s->reported_raw_ns = s->rate_raw_ns = now_raw_ns();
	return s;
}

void python_sampler_free(struct python_sampler *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd); /* it ends */
	python_rounds_free(s->rounds);
	python_hung_free(s->hung);
	buf_release(&s->order);
	buf_release(&s->report);
	free(s->brought.sampled);
	free(s->brought.samples);
	free(s->brought.frames);
	free(s->numbers);
	free(s);
}

void python_sampler_begin(struct python_sampler *s)
{
	atomic_store_explicit(&s->board->end, false, memory_order_relaxed);
}

void python_sampler_end_rounds(struct python_sampler *s)
{
	atomic_store_explicit(&s->board->end, true, memory_order_relaxed);
}

void python_sampler_stop(struct python_sampler *s)
{
	atomic_store(&s->stopped, true);
	python_sampler_end_rounds(s);
	if (s->rounds)
		python_rounds_stop(s->rounds);
}

/* ---- orders ---- */

static void add_pid(struct python_sampler *s, struct python_order *o, uint32_t pid)
{
	if (python_hung_has(s->hung, pid)) {
		s->n_alone++;
		s->one_alone = pid;
	} else if (o->n_pids < PIDS_MAX) {
		o->n_pids++;
		buf_add(&s->order, &pid, sizeof(pid));
	}
}

static void list_pids(struct python_sampler *s, struct python_order *o, const struct pod_view *pods)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	uint32_t pid;

	s->n_alone = 0;
	while (dir && (entry = readdir(dir))) {
		pid = (uint32_t)strtoul(entry->d_name, NULL, 10);
		if (pid && !pod_view_hides(pods, pid))
			add_pid(s, o, pid);
	}
	if (dir)
		closedir(dir);
}

/* What the one before sampled, for a new process. */
static void list_expected(struct python_sampler *s, struct python_order *o)
{
	for (size_t i = 0; i < s->brought.head.n_sampled; i++) {
		const struct python_sampled *p = &s->brought.sampled[i];
		const struct python_expected e = { p->pid, p->serial };

		if (p->has_ended || python_hung_has(s->hung, p->pid))
			continue;
		o->n_expected++;
		buf_add(&s->order, &e, sizeof(e));
	}
}

static void write_order(struct python_sampler *s, struct python_order *o, bool is_first,
			const struct pod_view *pods)
{
	o->last_serial = s->last_serial;
	o->n_pids = o->n_expected = 0;
	buf_reset(&s->order);
	buf_add(&s->order, o, sizeof(*o));
	if (o->must_scan)
		list_pids(s, o, pods);
	if (is_first)
		list_expected(s, o);
	memcpy(s->order.data, o, sizeof(*o));
}

/* ---- the exchange ---- */

/* Waits until there is something to receive. ERR_TIMEOUT: the process hangs. */
static int await(struct python_sampler *s, int first_ms, struct err *e)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	struct proc_progress progress = { 0 };
	int wait_ms = first_ms;

	while (!atomic_load(&s->stopped)) {
		uint32_t pid = atomic_load(&s->board->maker);

		if (poll(&p, 1, wait_ms) > 0)
			return 0;
		wait_ms = SAMPLER_LOOK_MS;
		if (pid && proc_progress_look(&progress, pid) >= SAMPLER_HANG_LOOKS)
			return err_set(e, ERR_TIMEOUT, "it waits for a file system");
	}
	return err_set(e, ERR_CANCELLED, "the agent ends");
}

static int receive(struct python_sampler *s, void *out, size_t len, int first_ms, struct err *e)
{
	ssize_t n;
	int rc;

	for (size_t done = 0; done < len; done += (size_t)n) {
		rc = await(s, first_ms, e);
		if (rc)
			return rc;
		n = recv(s->fd, (uint8_t *)out + done, len - done, 0);
		if (n <= 0)
			return err_set(e, ERR_CLOSED, "it has ended");
	}
	return 0;
}

static int exchange(struct python_sampler *s, struct err *e)
{
	uint64_t len = 0;
	int rc;

	buf_reset(&s->report);
	if (!send_message(s->fd, &s->order))
		return err_set(e, ERR_CLOSED, "it has ended");
	rc = receive(s, &len, sizeof(len), FIRST_LOOK_MS, e);
	if (rc)
		return rc;
	if (len < sizeof(struct python_report) || len > REPORT_MAX)
		return err_set(e, ERR_CLOSED, "it reports %llu bytes", (unsigned long long)len);
	buf_reserve(&s->report, len);
	rc = receive(s, s->report.data, len, SAMPLER_LOOK_MS, e);
	s->report.len = rc ? 0 : len;
	return rc;
}

/* ---- what comes of it ---- */

/* Copies the next n things, or says that there are none. */
static void take_list(struct reader *in, size_t *n, size_t size, void *list, size_t *cap)
{
	const uint8_t *bytes;
	void **v = list;

	if (*n > SIZE_MAX / size || !reader_take(in, *n * size, &bytes))
		*n = 0;
	if (*n > *cap) {
		*cap = *n + *n / 2;
		*v = xrealloc(*v, *cap * size);
	}
	if (*n)
		memcpy(*v, bytes, *n * size);
}

/* Functions have their own numbers here. */
static void take_functions(struct python_sampler *s, struct reader *in, size_t n)
{
	struct handed_function f;
	const uint8_t *head, *name, *file;

	for (size_t i = 0; i < n && reader_take(in, sizeof(f), &head); i++) {
		char *text[2];

		memcpy(&f, head, sizeof(f));
		if (!reader_take(in, f.name_len, &name) || !reader_take(in, f.file_len, &file))
			return;
		if (s->n_numbers == s->cap_numbers) {
			s->cap_numbers *= 2;
			s->numbers = xrealloc(s->numbers, s->cap_numbers * sizeof(*s->numbers));
		}
		text[0] = xstrndup((const char *)name, f.name_len);
		text[1] = xstrndup((const char *)file, f.file_len);
		s->numbers[s->n_numbers++] = python_functions_add(s->functions, text[0], text[1],
								  f.first_line);
		free(text[0]);
		free(text[1]);
	}
}

static uint32_t number_of(const struct python_sampler *s, uint32_t theirs)
{
	return theirs < s->n_numbers ? s->numbers[theirs] : PYTHON_FUNCTION_MANY;
}

static void begin_rate(struct python_sampler *s, int64_t raw_ns)
{
	s->rate_raw_ns = raw_ns;
	s->rate_samples = 0;
}

static void note_rate(struct python_sampler *s)
{
	int64_t raw_ns = now_raw_ns();

	s->reported_raw_ns = raw_ns;
	s->rate_samples += s->brought.head.n_samples;
	if (raw_ns - s->rate_raw_ns < RATE_NS)
		return;
	s->samples_per_ns = (double)s->rate_samples / (double)(raw_ns - s->rate_raw_ns);
	begin_rate(s, raw_ns);
}

static void explain_alone(struct python_sampler *s)
{
	struct python_unread *u = &s->brought.head.unread;

	if (!s->n_alone)
		return;
	u->unsupported += s->n_alone;
	if (s->one_alone)
		snprintf(u->unsupported_why, sizeof(u->unsupported_why),
			 "pid %u: a file that it has mapped, or one of its user's, does not answer",
			 s->one_alone);
	else
		snprintf(u->unsupported_why, sizeof(u->unsupported_why),
			 "the process that reads their memory (tutti-python) hung, or was killed");
}

/* All texts end. */
static void end_texts(struct python_brought *b)
{
	struct python_unread *u = &b->head.unread;

	u->denied_why[sizeof(u->denied_why) - 1] = '\0';
	u->unsupported_why[sizeof(u->unsupported_why) - 1] = '\0';
	for (size_t i = 0; i < b->head.n_sampled; i++)
		b->sampled[i].command[sizeof(b->sampled[i].command) - 1] = '\0';
	for (size_t i = 0; i < b->head.n_samples; i++)
		b->samples[i].name[sizeof(b->samples[i].name) - 1] = '\0';
}

/* What a hostile program made of that process is not trusted. */
static void take_report(struct python_sampler *s)
{
	struct reader in = reader_of(s->report.data, s->report.len);
	struct python_brought *b = &s->brought;
	const uint8_t *head;

	if (!reader_take(&in, sizeof(b->head), &head))
		return;
	memcpy(&b->head, head, sizeof(b->head));
	if (b->head.is_anew)
		number_anew(s);
	take_list(&in, &b->head.n_sampled, sizeof(*b->sampled), &b->sampled, &s->cap_sampled);
	take_list(&in, &b->head.n_samples, sizeof(*b->samples), &b->samples, &s->cap_samples);
	take_list(&in, &b->head.n_frames, sizeof(*b->frames), &b->frames, &s->cap_frames);
	take_functions(s, &in, b->head.n_functions);
	if (b->head.n_sampled > PYTHON_TARGETS_MAX)
		b->head.n_sampled = PYTHON_TARGETS_MAX;
	end_texts(b);
	for (size_t i = 0; i < b->head.n_frames; i++)
		b->frames[i].function = number_of(s, b->frames[i].function);
	for (size_t i = 0; i < b->head.n_samples; i++)
		if (b->samples[i].first > b->head.n_frames ||
		    b->samples[i].n > b->head.n_frames - b->samples[i].first)
			b->samples[i].result = PYTHON_RESULT_TORN;
	for (size_t i = 0; i < b->head.n_sampled; i++)
		if (b->sampled[i].serial > s->last_serial)
			s->last_serial = b->sampled[i].serial;
	b->is_lost = false;
	note_rate(s);
	explain_alone(s);
}

/* ---- losing rounds ---- */

/* None were made, and none will be before that time. */
static void lose_rounds(struct python_sampler *s, int64_t next_mono_ns)
{
	struct python_report *head = &s->brought.head;
	int64_t raw_ns = now_raw_ns();

	s->brought.is_lost = true;
	head->stop = (struct python_stop){
		.from_raw_ns = s->reported_raw_ns,
		.to_raw_ns = raw_ns,
		.samples = (uint64_t)((double)(raw_ns - s->reported_raw_ns) * s->samples_per_ns)
	};
	s->reported_raw_ns = raw_ns;
	begin_rate(s, raw_ns);
	head->next_mono_ns = next_mono_ns;
	head->has_scanned = false;
	head->cpu_ns = 0;
	head->left_out = 0;
	head->n_samples = head->n_frames = head->n_functions = 0;
}

/* There may be more that is not known: never is it said that nothing is missing. */
static void explain_none(struct python_sampler *s, const char *why)
{
	struct python_unread *u = &s->brought.head.unread;

	u->unsupported = s->brought.head.n_sampled + s->n_alone;
	if (!u->unsupported)
		u->unsupported = 1;
	snprintf(u->unsupported_why, sizeof(u->unsupported_why), "%.190s", why);
}

/* The maker hangs, or has ended, in the memory of a process, which is left alone. One that hangs is killed when the kernel lets it
 * go, and never uses the board again. */
static void give_up(struct python_sampler *s, const struct err *e)
{
	uint32_t pid = atomic_exchange(&s->board->reading, 0);
	uint32_t maker = atomic_exchange(&s->board->maker, 0);
	bool hangs = e->code == ERR_TIMEOUT;
	struct proc_status status;

	log_warn("AGENT-PYTHON", "pid=%u state=left-alone reason=\"the reader of its memory: %s\"",
		 pid, e->msg);
	if (!proc_status_of(pid, &status))
		status.uid = UINT32_MAX;
	if (hangs)
		kill((pid_t)maker, SIGKILL);
	else
		close(s->fd);
	python_hung_add(s->hung, pid, status.uid, hangs ? s->fd : -1, now_mono_ns());
	s->fd = -1;
	s->brought.head.unread.unsupported = 0;
	s->n_alone = 1;
	s->one_alone = pid;
	explain_alone(s);
	lose_rounds(s, now_mono_ns());
}

/* ---- running ---- */

/* A new process, if there is none. False: there can be none now. */
static bool has_maker(struct python_sampler *s)
{
	struct err e;

	if (!s->keeper || s->fd >= 0)
		return true;
	if (python_hung_is_full(s->hung)) {
		explain_none(s, "too many readers of memory wait for file systems");
		return false;
	}
	s->fd = file_keeper_helper(s->keeper, &e);
	number_anew(s);
	if (s->fd < 0)
		explain_none(s, e.msg);
	return s->fd >= 0;
}

const struct python_brought *python_sampler_run(struct python_sampler *s,
						const struct python_order *order,
						const struct pod_view *pods)
{
	bool is_first = s->keeper && s->fd < 0;
	struct python_order o = *order;
	struct err e = { 0 };
	int rc = 0;

	python_hung_look(s->hung, now_mono_ns());
	if (!has_maker(s)) {
		lose_rounds(s, now_mono_ns() + PYTHON_REST_NS);
		return &s->brought;
	}
	o.must_scan |= is_first;
	write_order(s, &o, is_first, pods);
	if (s->keeper) {
		rc = exchange(s, &e);
	} else {
		buf_reset(&s->report);
		python_rounds_make(s->rounds, s->order.data, s->order.len, &s->report);
	}
	if (!rc)
		take_report(s);
	else if (rc == ERR_CANCELLED)
		lose_rounds(s, now_mono_ns());
	else
		give_up(s, &e);
	return &s->brought;
}
