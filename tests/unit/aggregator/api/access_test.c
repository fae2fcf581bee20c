/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the HTTP API of a whole aggregator. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/unit/aggregator/fleet.h"

/* A request as bytes, sent by a worker, and all of the answer. */
struct raw {
	int port;
	char *text;
	struct buf answer;
	bool done;
};

static void run_raw(void *arg)
{
	struct raw *r = arg;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)r->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char piece[4096];
	ssize_t n;

	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
	CHECK_EQ(send(fd, r->text, strlen(r->text), MSG_NOSIGNAL), strlen(r->text));
	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
		buf_add(&r->answer, piece, (size_t)n);
	close(fd);
}

static void end_raw(void *arg)
{
	((struct raw *)arg)->done = true;
}

/* The status; `*answer` (may be NULL) gets the whole answer, which the caller frees. */
static int send_raw(struct fleet *f, char **answer, const char *fmt, ...) PRINTF_LIKE(3, 4);

static int send_raw(struct fleet *f, char **answer, const char *fmt, ...)
{
	struct raw r = { .port = f->agg.http_port };
	va_list ap;
	int status = 0;
	size_t len;

	va_start(ap, fmt);
	CHECK(vasprintf(&r.text, fmt, ap) > 0);
	va_end(ap);
	loop_work(f->loop, run_raw, end_raw, &r);
	WAIT(f, r.done);
	CHECK_EQ(sscanf(buf_str(&r.answer), "HTTP/1.1 %d ", &status), 1);
	if (answer)
		*answer = (char *)buf_detach(&r.answer, &len);
	buf_release(&r.answer);
	free(r.text);
	return status;
}

#define END "Connection: close\r\n\r\n"

/* The browser of a user inside runs a page of evil.example, whose name now resolves to this machine. */
static void test_dns_rebinding(struct fleet *f)
{
	static const char *const paths[] = { "/", "/api/v1/hosts", "/api/v1/sessions", "/metrics" };
	struct fake a = { .auto_deliver = true };
	char *answer;

	fake_connect(&a, f, "host-a");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		CHECK_EQ(send_raw(f, &answer, "GET %s HTTP/1.1\r\nHost: evil.example:7400\r\n" END,
				  paths[i]),
			 421);
		CHECK(strstr(answer, "--http-host"));
		CHECK(!strstr(answer, "host-a"));
		free(answer);
		CHECK_EQ(send_raw(f, NULL, "GET %s HTTP/1.1\r\nHost: localhost:7400\r\n" END,
				  paths[i]),
			 200);
	}
	CHECK_EQ(send_raw(f, NULL,
			  "POST /api/v1/captures HTTP/1.1\r\nHost: evil.example:7400\r\n"
			  "Origin: http://evil.example:7400\r\nContent-Length: 2\r\n" END "{}"),
		 421);
	CHECK_EQ(send_raw(f, NULL,
			  "DELETE /api/v1/sessions/2026_01_01_00_00_00_aaaaaa HTTP/1.1\r\n"
			  "Host: evil.example:7400\r\n" END),
		 421);
	CHECK_EQ(a.arms, 0);
	fake_hang_up(&a);
}

/* The page lets its own script run, by a word that no attacker knows, and may not be framed. */
static void test_page_policy(struct fleet *f)
{
	char *first, *second, *nonce, *tag;

	CHECK_EQ(send_raw(f, &first, "GET / HTTP/1.1\r\nHost: localhost\r\n" END), 200);
	CHECK_EQ(send_raw(f, &second, "GET / HTTP/1.1\r\nHost: localhost\r\n" END), 200);
	CHECK(strstr(first, "frame-ancestors 'none'"));
	CHECK(strstr(first, "X-Frame-Options: DENY\r\n"));
	CHECK(strstr(first, "X-Content-Type-Options: nosniff\r\n"));
	CHECK(strstr(first, "Referrer-Policy: same-origin\r\n"));
	CHECK(strstr(first, "default-src 'none'"));
	CHECK(!strstr(first, "unsafe-"));
	nonce = strstr(first, "script-src 'nonce-");
	CHECK(nonce);
	nonce = xstrndup(nonce + strlen("script-src 'nonce-"), 32);
	tag = xasprintf("<script nonce=\"%s\">", nonce);
	CHECK(strstr(first, tag));
	CHECK(!strstr(second, nonce));
	CHECK(strstr(first, "</html>"));
	free(tag);
	free(nonce);
	free(second);
	free(first);
}

#define TOKEN "correct-horse-battery"

static void make_token(char path[32])
{
	int fd;

	snprintf(path, 32, "/tmp/tutti_token_XXXXXX");
	fd = mkstemp(path);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, TOKEN "\n", strlen(TOKEN) + 1), strlen(TOKEN) + 1);
	close(fd);
}

static void on_refused(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	CHECK(!msg);
	*(int *)arg = st->code;
}

static void check_unauthenticated(struct fleet *f, const char *path)
{
	static const char request[] = { 0x08, 0x64 }; /* duration_ms: 100 */
	int code = -1;

	rpc_unary(f->channel, path, request, sizeof(request), INT64_MAX, on_refused, &code);
	WAIT(f, code >= 0);
	CHECK_EQ(code, RPC_UNAUTHENTICATED);
}

/* With a token, no other way than HTTP leads to captures of the fleet without it. */
static void test_token_guards_grpc(void)
{
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	char path[32];
	struct fleet f;

	make_token(path);
	fleet_token_file = path;
	fleet_start(&f, 0, 0);
	fleet_token_file = NULL;
	CHECK(!unlink(path));
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	CHECK_EQ(send_raw(&f, NULL,
			  "POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\n"
			  "Content-Length: 2\r\n" END "{}"),
		 401);
	check_unauthenticated(&f, "/tensorflow.ProfilerService/Profile");
	check_unauthenticated(&f, "/tensorflow.ProfilerService/Terminate");
	fake_ask(&a, "start", "", "all");
	WAIT(&f, a.answers == 1);
	CHECK(!a.answer_ok);
	CHECK(strstr(a.answer_detail, "token"));
	fake_ask(&a, "start", "", "b");
	WAIT(&f, a.answers == 2);
	CHECK(!a.answer_ok);
	CHECK_EQ(a.arms + b.arms, 0);
	fake_ask(&a, "start", "", "");
	WAIT(&f, a.answers == 3);
	CHECK(a.answer_ok);
	WAIT(&f, a.arms == 1);
	CHECK_EQ(b.arms, 0);
	fake_ask(&a, "stop", a.answer_session, "");
	WAIT(&f, a.answers == 4);
	CHECK(a.answer_ok);
	/* Taking part in a capture gives no right to end it. */
	fake_ask_with(&a, "start", "", "all", TOKEN);
	WAIT(&f, a.answers == 5 && b.arms == 1);
	CHECK(a.answer_ok);
	fake_ask(&b, "stop", a.answer_session, "");
	WAIT(&f, b.answers == 1);
	CHECK(!b.answer_ok && strstr(b.answer_detail, "--token-file"));
	fake_ask_with(&b, "stop", a.answer_session, "", TOKEN);
	WAIT(&f, b.answers == 2);
	CHECK(b.answer_ok);
	fake_hang_up(&a);
	fake_hang_up(&b);
	fleet_stop(&f);
}

int main(void)
{
	struct fleet f;

	fleet_start(&f, 0, 0);
	test_dns_rebinding(&f);
	test_page_policy(&f);
	fleet_stop(&f);
	test_token_guards_grpc();
	return 0;
}
