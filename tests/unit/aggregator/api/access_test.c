/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the HTTP API of a whole aggregator. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aggregator/api/api_impl.h"
#include "aggregator/api/events.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/lib/temp_dir.h"
#include "tests/unit/aggregator/people.h"

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

/* ---- people ---- */

#define BEARER(who) "Host: localhost\r\nAuthorization: Bearer " who "\r\n"
#define NO_HOST	    "Content-Length: 24\r\n" END "{\"hosts\": \"no-such-one\"}"

static char *audit_file;

static void set_limits(struct aggregator_conf *c)
{
	c->limit_captures = 1;
	c->limit_streams = 1;
	c->audit = xstrdup(audit_file);
	c->audit_size = 1 << 20;
}

/* A start that comes to nothing gives its room back, whatever it was. */
static void test_room_comes_back(struct fleet *f)
{
	static const struct {
		const char *path, *body;
		int status;
	} starts[] = {
		{ "captures", "{\"hosts\": \"no-such-one\"}", 404 },
		{ "captures", "[", 400 },
		{ "snapshots", "{\"hosts\": \"no-such-one\"}", 404 },
		{ "sessions/2026_01_01_00_00_00_aaaaaa/retry", "", 404 },
		{ "sessions/2026_01_01_00_00_00_aaaaaa/retry", "[", 400 },
		{ "captures", "{\"hosts\": \"no-such-one\"}", 404 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		CHECK_EQ(send_raw(f, NULL,
				  "POST /api/v1/%s HTTP/1.1\r\n" BEARER(
					  "operator-all") "Content-Length: %zu\r\n" END "%s",
				  starts[i].path, strlen(starts[i].body), starts[i].body),
			 starts[i].status);
}

/* A stream that stays open; the socket. */
static int open_stream(struct fleet *f, const char *who)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)f->agg.http_port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char *text = xasprintf("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n"
			       "Authorization: Bearer %s\r\n\r\n",
			       who);

	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
	CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	WAIT(f, events_streams_of(f->agg.api->events, who) == 1);
	free(text);
	return fd;
}

static void test_streams(struct fleet *f)
{
	int fd = open_stream(f, "viewer-red"), other = open_stream(f, "viewer-all");
	int64_t end_ns = now_mono_ns() + RUN_LIMIT_NS;
	char *answer;

	CHECK_EQ(send_raw(f, &answer, "GET /api/v1/events HTTP/1.1\r\n" BEARER("viewer-red") END),
		 429);
	CHECK(strstr(answer, "limit-streams") && strstr(answer, "Retry-After: "));
	free(answer);
	close(fd);
	while (events_streams_of(f->agg.api->events,
				 "viewer-red")) { /* sending to it shows that it is gone */
		struct fake a = { 0 };

		CHECK(now_mono_ns() < end_ns);
		fake_connect(&a, f, "host-a");
		fake_hang_up(&a);
		run_for(f->loop, 20 * NS_PER_MS);
	}
	close(open_stream(f, "viewer-red"));
	close(other);
}

/* Of several, a proxy might take the one and this server the other. */
static void test_two_of_a_header(struct fleet *f)
{
	CHECK_EQ(send_raw(f, NULL,
			  "GET /api/v1/hosts HTTP/1.1\r\n" BEARER(
				  "admin-all") "Authorization: Bearer viewer-red\r\n" END),
		 400);
	CHECK_EQ(send_raw(f, NULL,
			  "GET /api/v1/hosts HTTP/1.1\r\n" BEARER(
				  "admin-all") "Cookie: a=1\r\nCookie: b=2\r\n" END),
		 400);
}

/* A page of another site in a browser that is signed in, or that has a token. */
static void test_other_site(struct fleet *f)
{
	static const char *const origins[] = { "http://evil.example", "null",
					       "http://localhost.evil.example", "https://" };

	for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
		CHECK_EQ(send_raw(f, NULL,
				  "POST /api/v1/captures HTTP/1.1\r\n" BEARER(
					  "admin-all") "Origin: %s\r\n" NO_HOST,
				  origins[i]),
			 403);
		CHECK_EQ(send_raw(f, NULL,
				  "DELETE /api/v1/login HTTP/1.1\r\n" BEARER(
					  "admin-all") "Origin: %s\r\n" END,
				  origins[i]),
			 403);
		CHECK_EQ(send_raw(f, NULL,
				  "GET /api/v1/hosts HTTP/1.1\r\n" BEARER(
					  "admin-all") "Origin: %s\r\n" END,
				  origins[i]),
			 200);
	}
	CHECK_EQ(send_raw(f, NULL,
			  "POST /api/v1/captures HTTP/1.1\r\n" BEARER(
				  "admin-all") "Origin: http://localhost\r\n" NO_HOST),
		 404);
}

/* The value between two texts of an answer; yours. */
static char *between(const char *answer, const char *begin, const char *end)
{
	const char *at = strstr(answer, begin), *to = at ? strstr(at + strlen(begin), end) : NULL;

	CHECK(to);
	at += strlen(begin);
	return xstrndup(at, (size_t)(to - at));
}

static int change_as(struct fleet *f, const char *cookie, const char *csrf)
{
	return send_raw(f, NULL,
			"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\n"
			"Cookie: %s\r\n%s%s%s" NO_HOST,
			cookie, csrf ? LOGIN_CSRF_HEADER ": " : "", csrf ? csrf : "",
			csrf ? "\r\n" : "");
}

static int read_as(struct fleet *f, const char *cookie)
{
	return send_raw(f, NULL,
			"GET /api/v1/hosts HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\n" END,
			cookie);
}

/* Reading needs the cookie, a change the second secret of the same browser, and nothing works after a logout. */
static void test_browsers(struct fleet *f)
{
	static const char login[] = "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\n"
				    "Content-Length: 25\r\n" END "{\"token\": \"operator-all\"}";
	char *answer[2], *cookie[2], *csrf[2];

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(send_raw(f, &answer[i], "%s", login), 200);
		CHECK(strstr(answer[i], "; HttpOnly") && strstr(answer[i], "; SameSite=Strict"));
		cookie[i] = between(answer[i], "Set-Cookie: ", ";");
		csrf[i] = between(answer[i], "\"csrf\":\"", "\"");
	}
	CHECK(strcmp(cookie[0], cookie[1]) && strcmp(csrf[0], csrf[1]));
	CHECK_EQ(read_as(f, cookie[0]), 200);
	CHECK_EQ(read_as(f, "none=1"), 401);
	CHECK_EQ(change_as(f, cookie[0], NULL), 403);
	CHECK_EQ(change_as(f, cookie[0], ""), 403);
	CHECK_EQ(change_as(f, cookie[0], csrf[1]), 403);
	CHECK_EQ(change_as(f, cookie[0], csrf[0]), 404); /* there is no such host */
	CHECK_EQ(change_as(f, "none=1", csrf[0]), 401);
	CHECK_EQ(send_raw(f, NULL,
			  "DELETE /api/v1/login HTTP/1.1\r\nHost: localhost\r\n"
			  "Cookie: %s\r\n" END,
			  cookie[0]),
		 200);
	CHECK_EQ(read_as(f, cookie[0]), 401);
	CHECK_EQ(change_as(f, cookie[0], csrf[0]), 401);
	CHECK_EQ(read_as(f, cookie[1]), 200);
	for (int i = 0; i < 2; i++) {
		free(answer[i]);
		free(cookie[i]);
		free(csrf[i]);
	}
}

/* Each change and each refusal of the tests above is a line: who, what and how it ended; no line has a token. */
static void check_audit(void)
{
	int granted = 0, refused = 0;
	struct buf text = BUF_INIT;
	char *line, *rest;
	struct err e;

	CHECK_OK(file_load(audit_file, 1 << 20, &text, &e), e);
	CHECK(!strstr(buf_str(&text), "Bearer"));
	for (line = strtok_r((char *)buf_str(&text), "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		granted += strstr(line, "\"outcome\":\"granted\"") &&
			   strstr(line, "\"who\":\"operator-all\"") &&
			   strstr(line, "\"request\":{\"hosts\":\"no-such-one\"}");
		refused += strstr(line, "\"outcome\":\"refused\"") != NULL;
	}
	CHECK_EQ(granted, 3 + 1); /* test_room_comes_back(), test_browsers() */
	CHECK(refused >= 1 + 2 + 4 * 2); /* a stream, two of a header, other sites */
	buf_release(&text);
}

static void test_people(void)
{
	const char *dir = temp_dir();
	struct fleet f;

	audit_file = xasprintf("%s/audit", dir);
	people_start(&f, set_limits);
	test_room_comes_back(&f);
	test_streams(&f);
	test_two_of_a_header(&f);
	test_other_site(&f);
	test_browsers(&f);
	check_audit();
	people_stop(&f);
	free(audit_file);
	temp_dir_remove(dir);
}

int main(void)
{
	struct fleet f;

	fleet_start(&f, 0, 0);
	test_dns_rebinding(&f);
	test_page_policy(&f);
	fleet_stop(&f);
	test_token_guards_grpc();
	test_people();
	return 0;
}
