/* SPDX-License-Identifier: Apache-2.0 */
/* TLS and mTLS of net/rpc.h: who is let in, who is not, and under which name. */
#include <stdbool.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/certs.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"

#define BOUND_NS (20 * NS_PER_S)

static const char *dir;

struct file {
	char path[64];
};

static struct file path_of(const char *name)
{
	struct file f;

	snprintf(f.path, sizeof(f.path), "%s/%s", dir, name);
	return f;
}

/* ---- a server that answers with the caller's name ---- */

static bool say_identity(struct rpc_call *call, const struct rpc_msg *msg)
{
	const char *name = rpc_identity(call);

	(void)msg;
	rpc_send(call, name, strlen(name));
	rpc_finish(call, RPC_OK, NULL);
	return true;
}

static const struct rpc_events events = { .message = say_identity };
static const struct rpc_method methods[] = {
	{ .path = "/t.T/Who", .events = &events },
	{ .path = "/t.T/Open", .events = &events },
};

struct fixture {
	struct loop *loop;
	struct rpc *rpc;
	struct rpc_server *server;
	char target[40];
};

static void start(struct fixture *f, const struct rpc_tls *tls)
{
	static const char *const open_methods[] = { "/t.T/Open", NULL };
	struct rpc_server_opts opts = { .address = "127.0.0.1:0",
					.tls = tls,
					.open_methods = open_methods };
	struct err e;
	int port;

	CHECK_OK(loop_new(&f->loop, 1, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	CHECK_OK(rpc_server_new(&f->server, f->rpc, &opts, methods, ARRAY_SIZE(methods), &port, &e),
		 e);
	snprintf(f->target, sizeof(f->target), "127.0.0.1:%d", port);
}

static void stop(struct fixture *f)
{
	rpc_server_free(f->server);
	rpc_free(f->rpc);
	loop_free(f->loop);
}

struct answer {
	bool done;
	enum rpc_code code;
	char text[64], why[200];
};

static void on_answer(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct answer *a = arg;
	const uint8_t *data;
	size_t len;

	a->done = true;
	a->code = st->code;
	snprintf(a->why, sizeof(a->why), "%s", st->text);
	if (!msg)
		return;
	data = rpc_msg_data(msg, &len);
	snprintf(a->text, sizeof(a->text), "%.*s", (int)len, (const char *)data);
}

static struct answer ask_at(struct fixture *f, const struct rpc_tls *tls, const char *path)
{
	struct rpc_channel_opts opts = { .target = f->target, .tls = tls };
	int64_t end_ns = now_mono_ns() + BOUND_NS;
	struct answer a = { 0 };
	struct rpc_channel *ch;
	struct err e;

	CHECK_OK(rpc_channel_new(&ch, f->rpc, &opts, &e), e);
	rpc_unary(ch, path, "", 0, end_ns, on_answer, &a);
	RUN_UNTIL(f->loop, a.done);
	rpc_channel_free(ch);
	return a;
}

static struct answer ask(struct fixture *f, const struct rpc_tls *tls)
{
	return ask_at(f, tls, "/t.T/Who");
}

static void test_tls(void)
{
	struct file crt = path_of("server.crt"), key = path_of("server.key"),
		    ca = path_of("ca.crt");
	struct file evil = path_of("evil.crt");
	struct rpc_tls server = { .cert_file = crt.path, .key_file = key.path };
	struct rpc_tls good = { .ca_file = ca.path }, bad = { .ca_file = evil.path };
	struct rpc_tls other_name = { .ca_file = ca.path, .server_name = "elsewhere" };
	struct rpc_tls known_name = { .ca_file = ca.path, .server_name = "localhost" };
	struct fixture f;
	struct answer a;

	start(&f, &server);
	a = ask(&f, &good);
	CHECK_EQ(a.code, RPC_OK);
	CHECK_STR(a.text, "");
	CHECK_EQ(ask(&f, &known_name).code, RPC_OK);
	CHECK_EQ(ask(&f, &other_name).code, RPC_UNAVAILABLE);
	CHECK_EQ(ask(&f, &bad).code, RPC_UNAVAILABLE);
	CHECK_EQ(ask(&f, NULL).code, RPC_UNAVAILABLE);
	stop(&f);
}

static void test_mtls(void)
{
	struct file crt = path_of("server.crt"), key = path_of("server.key"),
		    ca = path_of("ca.crt");
	struct file host_crt = path_of("host-a.crt"), host_key = path_of("host-a.key");
	struct file evil_crt = path_of("host-x.crt"), evil_key = path_of("host-x.key");
	struct rpc_tls server = { crt.path, key.path, ca.path, NULL, NULL };
	struct rpc_tls host = { host_crt.path, host_key.path, ca.path, NULL, NULL };
	struct rpc_tls evil = { evil_crt.path, evil_key.path, ca.path, NULL, NULL };
	struct rpc_tls anonymous = { .ca_file = ca.path };
	struct rpc_tls mixed_up = { host_crt.path, key.path, ca.path, NULL, NULL };
	struct fixture f;
	struct answer a;

	start(&f, &server);
	a = ask(&f, &host);
	CHECK_EQ(a.code, RPC_OK);
	CHECK_STR(a.text, "host-a");
	CHECK_EQ(ask(&f, &evil).code, RPC_UNAVAILABLE);
	CHECK_EQ(ask(&f, &anonymous).code, RPC_UNAVAILABLE);
	CHECK_EQ(ask(&f, &mixed_up).code, RPC_UNAVAILABLE);
	CHECK_EQ(ask(&f, NULL).code, RPC_UNAVAILABLE);
	a = ask(&f, &host);
	CHECK_EQ(a.code, RPC_OK);
	stop(&f);
}

/* Admits what is shown while it is told to; the name is the same for all. */
static int verify(void *arg, const char *pem, size_t len, char name[RPC_IDENTITY_BYTES],
		  int64_t *end_real_ns, struct err *e)
{
	const bool *admits = arg;

	CHECK(!strncmp(pem, "-----BEGIN CERTIFICATE-----", 27) && pem[len] == '\0');
	if (!*admits)
		return err_set(e, ERR_DENIED, "not this one");
	snprintf(name, RPC_IDENTITY_BYTES, "verified");
	*end_real_ns = 5;
	return 0;
}

/* A server with a verifier: who is refused is told why, and reaches open methods only, without a name. */
static void test_verifier(void)
{
	struct file crt = path_of("server.crt"), key = path_of("server.key"),
		    ca = path_of("ca.crt");
	struct file evil_crt = path_of("host-x.crt"), evil_key = path_of("host-x.key");
	bool admits = true;
	const struct rpc_verifier verifier = { .verify = verify, .arg = &admits };
	struct rpc_tls server = { .cert_file = crt.path,
				  .key_file = key.path,
				  .verifier = &verifier };
	struct rpc_tls host = { evil_crt.path, evil_key.path, ca.path, NULL, NULL };
	struct rpc_tls anonymous = { .ca_file = ca.path };
	struct rpc_tls mixed_up = { evil_crt.path, key.path, ca.path, NULL, NULL };
	struct fixture f;
	struct answer a;

	start(&f, &server);
	a = ask(&f, &host);
	CHECK_EQ(a.code, RPC_OK);
	CHECK_STR(a.text, "verified");
	a = ask(&f, &anonymous);
	CHECK_EQ(a.code, RPC_UNAUTHENTICATED);
	CHECK_STR(a.why, "no certificate was shown");
	a = ask_at(&f, &anonymous, "/t.T/Open");
	CHECK_EQ(a.code, RPC_OK);
	CHECK_STR(a.text, "");
	CHECK_EQ(ask_at(&f, &anonymous, "/grpc.health.v1.Health/Check").code, RPC_OK);
	CHECK_EQ(ask(&f, &mixed_up).code, RPC_UNAVAILABLE);
	admits = false;
	a = ask(&f, &host);
	CHECK_EQ(a.code, RPC_UNAUTHENTICATED);
	CHECK_STR(a.why, "not this one");
	a = ask_at(&f, &host, "/t.T/Open");
	CHECK_EQ(a.code, RPC_OK);
	CHECK_STR(a.text, "");
	stop(&f);
}

static void refused(struct fixture *f, const char *cert, const char *key, const char *ca, int want,
		    const char *word)
{
	struct rpc_tls tls = { .cert_file = cert, .key_file = key, .ca_file = ca };
	struct rpc_server_opts opts = { .address = "127.0.0.1:0", .tls = &tls };
	struct rpc_server *s;
	struct err e;

	CHECK_EQ(rpc_server_new(&s, f->rpc, &opts, methods, 1, NULL, &e), want);
	if (!strstr(e.msg, word))
		fprintf(stderr, "%s\n", e.msg);
	CHECK(strstr(e.msg, word));
}

/* What cannot work says so at the start, and names the file. */
static void test_bad_files(void)
{
	struct file crt = path_of("server.crt"), key = path_of("server.key"),
		    ca = path_of("ca.crt");
	struct file none = path_of("none.crt"), text = path_of("text.crt");
	struct rpc_tls bad_ca = { .ca_file = text.path };
	struct rpc_channel_opts opts = { .target = "127.0.0.1:1", .tls = &bad_ca };
	FILE *out = fopen(text.path, "we");
	struct rpc_channel *ch;
	struct fixture f;
	struct err e;

	CHECK(out && fputs("not a certificate\n", out) >= 0 && !fclose(out));
	start(&f, NULL);
	refused(&f, NULL, NULL, ca.path, ERR_INVALID, "certificate");
	refused(&f, crt.path, NULL, NULL, ERR_INVALID, "key");
	refused(&f, none.path, key.path, NULL, ERR_NOT_FOUND, "none.crt");
	refused(&f, text.path, key.path, NULL, ERR_INVALID, "text.crt");
	refused(&f, ca.path, key.path, NULL, ERR_IO, "key");
	CHECK_EQ(rpc_channel_new(&ch, f.rpc, &opts, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "text.crt"));
	CHECK(!unlink(text.path));
	stop(&f);
}

int main(void)
{
	static const char *const names[] = { "ca", "evil", "server", "host-a", "host-x" };
	struct cert *c[ARRAY_SIZE(names)] = { 0 };

	dir = temp_dir();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		c[i] = cert_make(dir, names[i], i < 2 ? NULL : i == 4 ? c[1] : c[0]);
	test_tls();
	test_mtls();
	test_verifier();
	test_bad_files();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cert_free(c[i]);
	return 0;
}
