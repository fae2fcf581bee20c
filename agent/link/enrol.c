/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/enrol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "base/secret.h"
#include "net/cert.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/tutti/v1/enrol.pb-c.h"

#define ENROL_PATH     "/tutti.v1.Enrol/Enrol"
#define ENROL_LIMIT_NS (30 * NS_PER_S)
/* pauses after failures, while the present one is valid: each twice the one before */
#define RETRY_FIRST_NS (10 * NS_PER_S)
#define RETRY_MAX_NS   (600 * NS_PER_S)
#define REPLY_BYTES    (CERT_PEM_BYTES + 64)
#define FILE_BYTES     (2 * CERT_PEM_BYTES)
#define REASON_BYTES   sizeof(((struct err *)0)->msg)

struct enrol {
	struct enrol_env env;
	struct rpc_tls tls; /* env.tls with the certificate */
	char *file;
	int64_t begin_mono_ns, end_mono_ns; /* of the certificate; 0 = there is none */

	struct loop_timer due; /* the next request, while there is a link */
	char *renew_at; /* the aggregator that is asked then */
	void (*renewed)(void *arg);
	void *renewed_arg;
	int64_t retry_ns; /* the next pause */

	/* a request */
	struct rpc_channel *channel; /* while it is under way: the aggregator has many agents */
	struct rpc_call *call; /* NULL = none */
	struct buf key; /* the new one */
	bool by_token;
	struct save *save; /* of its result, by a worker; NULL = none */
	char *aggregator;
	char refused
		[2]
		[REASON_BYTES]; /* why the latest was, by certificate and by token; "" = it was not */
	enrol_fn fn;
	void *arg;
};

/* A certificate and its key on their way to the file. */
struct save {
	struct enrol *enrol;
	char *file;
	struct buf text;
	int64_t begin_mono_ns, life_ns;
	int rc;
	struct err error;
};

/* ---- the file ---- */

/* After 45 to 55 percent of its life: agents that began together do not all renew together. */
static int64_t due_part(const struct enrol *en)
{
	int64_t life_ns = en->end_mono_ns - en->begin_mono_ns;

	return life_ns * 2 / 5 + random_pause_ns(life_ns / 10);
}

static void note_life(struct enrol *en, int64_t begin_mono_ns, int64_t life_ns)
{
	en->begin_mono_ns = begin_mono_ns;
	en->end_mono_ns = begin_mono_ns + life_ns;
}

static void load(struct enrol *en)
{
	const int64_t now_s = now_real_ns() / NS_PER_S;
	struct buf text = BUF_INIT;
	struct cert_host host;
	struct err e;

	if (access(en->file, F_OK))
		return;
	if (file_load(en->file, FILE_BYTES, &text, &e) ||
	    cert_read_host(buf_str(&text), text.len > CERT_PEM_BYTES ? CERT_PEM_BYTES : text.len,
			   &host, &e))
		log_warn("AGT-ENROL", "file=%s state=not-used reason=\"%s\"", en->file, e.msg);
	else if (strcmp(host.name, en->env.host) != 0)
		log_warn("AGT-ENROL", "file=%s state=not-used reason=\"it is for host '%s'\"",
			 en->file, host.name);
	else if (now_s < host.end_s)
		note_life(en, now_mono_ns() - (now_s - host.begin_s) * NS_PER_S,
			  (host.end_s - host.begin_s) * NS_PER_S);
	explicit_bzero(text.data, text.len);
	buf_release(&text);
}

static void forget_key(struct enrol *en)
{
	if (en->key.data)
		explicit_bzero(en->key.data, en->key.len);
	buf_release(&en->key);
}

/* ---- a request ---- */

static void save_free(struct save *w)
{
	if (w->text.data)
		explicit_bzero(w->text.data, w->text.len);
	buf_release(&w->text);
	free(w->file);
	free(w);
}

static int check_reply(const struct enrol *en, const Tutti__V1__EnrolReply *m, struct err *e)
{
	struct cert_host host;
	int rc = cert_read_host(m->certificate, strlen(m->certificate), &host, e);

	if (!rc &&
	    (strcmp(host.name, en->env.host) != 0 || m->life_ns <= 0 || m->life_ns > LIMIT_TIME_NS))
		rc = err_set(e, ERR_PEER,
			     "the aggregator gave a certificate of another host, or of "
			     "no life");
	return rc;
}

/* What to save, in one file, so that certificate and key belong together at any time. */
static struct save *save_new(struct enrol *en, const Tutti__V1__EnrolReply *m)
{
	struct save *w = xcalloc(1, sizeof(*w));

	w->enrol = en;
	w->file = xstrdup(en->file);
	w->begin_mono_ns = now_mono_ns();
	w->life_ns = m->life_ns;
	buf_add_str(&w->text, m->certificate);
	buf_reserve_all(&w->text, en->key.len); /* so that no copy of the key is left behind */
	buf_add(&w->text, en->key.data, en->key.len);
	return w;
}

static int read_reply(struct enrol *en, const struct rpc_msg *msg, struct err *e)
{
	Tutti__V1__EnrolReply *m = NULL;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	int rc = message_unpack((ProtobufCMessage **)&m, &tutti__v1__enrol_reply__descriptor,
				REPLY_BYTES, LIMIT_SMALL_FIELDS, data, len, e);

	if (rc)
		return rc;
	rc = check_reply(en, m, e);
	if (!rc)
		en->save = save_new(en, m);
	tutti__v1__enrol_reply__free_unpacked(m, NULL);
	return rc;
}

/* Of the same reason, however often, one line. */
static void log_refused(struct enrol *en, const struct err *why)
{
	char *before = en->refused[en->by_token];

	if (strcmp(before, why->msg) != 0)
		log_warn("AGT-ENROL", "state=refused by=%s reason=\"%s\"",
			 en->by_token ? "token" : "certificate", why->msg);
	snprintf(before, REASON_BYTES, "%s", why->msg);
}

static void end_request(struct enrol *en, const struct err *why)
{
	enrol_fn fn = en->fn;

	forget_key(en);
	free(en->aggregator);
	en->aggregator = NULL;
	en->fn = NULL;
	if (why) {
		log_refused(en, why);
	} else {
		log_info("AGT-ENROL", "state=enrolled by=%s life_s=%" PRId64,
			 en->by_token ? "token" : "certificate",
			 (en->end_mono_ns - now_mono_ns()) / NS_PER_S);
		en->refused[false][0] = en->refused[true][0] = '\0';
	}
	if (fn)
		fn(en->arg, why);
}

static void run_save(void *arg)
{
	struct save *w = arg;

	w->rc = file_replace(w->file, 0600, w->text.data, w->text.len, &w->error);
}

static void on_saved(void *arg)
{
	struct save *w = arg;
	struct enrol *en = w->enrol;

	en->save = NULL;
	if (!w->rc)
		note_life(en, w->begin_mono_ns, w->life_ns);
	if (en->fn)
		end_request(en, w->rc ? &w->error : NULL);
	save_free(w);
}

/* The token is for a certificate that is not accepted: it may have few uses, and other errors pass. */
static bool is_refused(const struct rpc_status *st)
{
	return st->code == RPC_UNAUTHENTICATED || st->code == RPC_PERMISSION_DENIED;
}

static void begin_request(struct enrol *en, bool by_token);

static void on_reply(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct enrol *en = arg;
	struct err why = { 0 };
	char text[200];

	en->call = NULL;
	if (!en->fn)
		return; /* enrol_free() waits for it */
	rpc_channel_free(en->channel);
	en->channel = NULL;
	if (msg && !read_reply(en, msg, &why)) {
		loop_work(en->env.loop, run_save, on_saved, en->save);
		return;
	}
	if (!msg) {
		clean_sentence(text, sizeof(text), st->text, strlen(st->text));
		err_set(&why, is_refused(st) ? ERR_DENIED : ERR_CLOSED, "%s: %s",
			rpc_code_name(st->code), text);
	}
	if (why.code == ERR_DENIED && !en->by_token) {
		log_refused(en, &why);
		begin_request(en, true);
		return;
	}
	end_request(en, &why);
}

static int send_request(struct enrol *en, const char *token, struct err *e)
{
	const struct rpc_channel_opts opts = { .target = en->aggregator,
					       .tls = en->by_token ? en->env.tls : &en->tls,
					       .lane = "enrol",
					       .max_message_bytes = REPLY_BYTES };
	Tutti__V1__EnrolRequest m = TUTTI__V1__ENROL_REQUEST__INIT;
	struct buf der = BUF_INIT;
	uint8_t *bytes = NULL;
	size_t len = 0;
	int rc = cert_make_key(&en->key, e);

	if (!rc)
		rc = cert_make_request(buf_str(&en->key), en->env.host, &der, e);
	if (!rc)
		rc = rpc_channel_new(&en->channel, en->env.rpc, &opts, e);
	if (!rc) {
		m.host = (char *)en->env.host;
		m.token = (char *)token;
		m.request = (ProtobufCBinaryData){ der.len, der.data };
		len = tutti__v1__enrol_request__get_packed_size(&m);
		bytes = xmalloc(len + 1);
		tutti__v1__enrol_request__pack(&m, bytes);
		en->call = rpc_unary(en->channel, ENROL_PATH, bytes, len,
				     now_mono_ns() + ENROL_LIMIT_NS, on_reply, en);
		explicit_bzero(bytes, len);
	}
	free(bytes);
	buf_release(&der);
	return rc;
}

static void begin_request(struct enrol *en, bool by_token)
{
	char *token = NULL;
	struct err why;
	int rc = 0;

	forget_key(en);
	en->by_token = by_token;
	if (by_token)
		rc = secret_load(&token, en->env.token_file, &why);
	if (!rc)
		rc = send_request(en, token ? token : "", &why);
	secret_free(token);
	if (rc)
		end_request(en, &why);
}

void enrol_ask(struct enrol *en, const char *aggregator, enrol_fn fn, void *arg)
{
	en->fn = fn;
	en->arg = arg;
	if (en->aggregator)
		return; /* one is under way, for a link that has ended meanwhile */
	en->aggregator = xstrdup(aggregator);
	begin_request(en, !enrol_has_certificate(en));
}

/* ---- renewing ---- */

static void on_renewed(void *arg, const struct err *why);

static void on_due(void *arg)
{
	struct enrol *en = arg;

	enrol_ask(en, en->renew_at, on_renewed, en);
}

static void on_renewed(void *arg, const struct err *why)
{
	struct enrol *en = arg;

	if (!en->renew_at)
		return;
	if (why) {
		loop_timer_in(en->env.loop, &en->due, random_pause_ns(en->retry_ns), on_due, en);
		en->retry_ns = 2 * en->retry_ns < RETRY_MAX_NS ? 2 * en->retry_ns : RETRY_MAX_NS;
		return;
	}
	en->retry_ns = RETRY_FIRST_NS;
	loop_timer_at(en->env.loop, &en->due, en->begin_mono_ns + due_part(en), on_due, en);
	en->renewed(en->renewed_arg);
}

void enrol_renew(struct enrol *en, const char *aggregator, void (*renewed)(void *arg), void *arg)
{
	enrol_stop_renewing(en);
	en->renew_at = xstrdup(aggregator);
	en->renewed = renewed;
	en->renewed_arg = arg;
	loop_timer_at(en->env.loop, &en->due, en->begin_mono_ns + due_part(en), on_due, en);
}

void enrol_stop_renewing(struct enrol *en)
{
	loop_timer_cancel(en->env.loop, &en->due);
	free(en->renew_at);
	en->renew_at = NULL;
}

/* ---- the certificate ---- */

const struct rpc_tls *enrol_tls(const struct enrol *en)
{
	return &en->tls;
}

bool enrol_has_certificate(const struct enrol *en)
{
	return en->end_mono_ns > now_mono_ns();
}

int64_t enrol_last_mono_ns(const struct enrol *en)
{
	return en->begin_mono_ns + (en->end_mono_ns - en->begin_mono_ns) / 4 * 3;
}

void enrol_forget(struct enrol *en)
{
	en->begin_mono_ns = en->end_mono_ns = 0;
}

/* ---- life ---- */

int enrol_new(struct enrol **out, const struct enrol_env *env, struct err *e)
{
	struct enrol *en = xcalloc(1, sizeof(*en));
	int rc = file_make_folders(env->folder, 0755, 0700, e);

	en->env = *env;
	en->retry_ns = RETRY_FIRST_NS;
	en->file = xasprintf("%s/agent.pem", env->folder);
	en->tls = *env->tls;
	en->tls.cert_file = en->tls.key_file = en->file;
	if (rc) {
		enrol_free(en);
		return rc;
	}
	load(en);
	*out = en;
	return 0;
}

void enrol_free(struct enrol *en)
{
	if (!en)
		return;
	enrol_stop_renewing(en); /* before the loop is turned */
	en->fn = NULL;
	if (en->call)
		rpc_cancel(en->call);
	while (en->call || en->save)
		loop_turn(en->env.loop, 20);
	rpc_channel_free(en->channel);
	forget_key(en);
	free(en->aggregator);
	free(en->file);
	free(en);
}
