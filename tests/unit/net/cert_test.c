/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of hosts: who gets one, and which are accepted; each refusal names its reason. */
#include "net/cert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/check.h"

#define NOW_S INT64_C(1800000000)
#define DAY_S 86400

struct authority {
	struct buf key, cert;
	struct cert_authority *ca;
};

static struct authority ours, theirs;
static struct buf host_key, request; /* of host-a */

static void make(struct authority *a)
{
	struct err e;

	CHECK_OK(cert_make_authority(NOW_S, &a->key, &a->cert, &e), e);
	CHECK_OK(cert_authority_new(&a->ca, buf_str(&a->key), buf_str(&a->cert), &e), e);
}

static void release(struct authority *a)
{
	cert_authority_free(a->ca);
	buf_release(&a->key);
	buf_release(&a->cert);
}

static struct buf sign(const struct authority *a, int64_t begin_s, int64_t end_s)
{
	const struct cert_host host = {
		.name = "host-a", .epoch = 7, .begin_s = begin_s, .end_s = end_s
	};
	struct buf pem = BUF_INIT;
	struct err e;

	CHECK_OK(cert_sign_host(a->ca, request.data, request.len, &host, &pem, &e), e);
	return pem;
}

static void check_refused(const char *pem, size_t len, const char *words)
{
	struct cert_host host;
	struct err e;

	CHECK_EQ(cert_verify_host(ours.ca, pem, len, NOW_S, &host, &e), ERR_DENIED);
	if (!strstr(e.msg, words))
		fprintf(stderr, "%s\n", e.msg);
	CHECK(strstr(e.msg, words));
}

static void test_good(void)
{
	struct buf pem = sign(&ours, NOW_S - 10, NOW_S + DAY_S);
	struct cert_host host;
	struct err e;

	CHECK_OK(cert_verify_host(ours.ca, buf_str(&pem), pem.len, NOW_S, &host, &e), e);
	CHECK_STR(host.name, "host-a");
	CHECK_EQ(host.epoch, 7);
	CHECK_EQ(host.begin_s, NOW_S - 10);
	CHECK_EQ(host.end_s, NOW_S + DAY_S);
	host = (struct cert_host){ 0 };
	/* as an agent has it: the key before or behind it */
	buf_add(&pem, host_key.data, host_key.len);
	CHECK_OK(cert_read_host(buf_str(&pem), pem.len, &host, &e), e);
	CHECK_STR(host.name, "host-a");
	buf_release(&pem);
}

static void test_refused(void)
{
	struct buf old = sign(&ours, NOW_S - DAY_S, NOW_S - 1);
	struct buf early = sign(&ours, NOW_S + 1, NOW_S + DAY_S);
	struct buf other = sign(&theirs, NOW_S - 10, NOW_S + DAY_S);
	struct buf good = sign(&ours, NOW_S - 10, NOW_S + DAY_S);
	struct buf server = BUF_INIT;
	const char *const names[] = { "localhost", "127.0.0.1" };
	char *changed;
	struct err e;

	CHECK_OK(cert_sign_server(ours.ca, buf_str(&host_key), names, 2, NOW_S, &server, &e), e);
	check_refused(buf_str(&old), old.len, "host 'host-a' has expired at 2027-01-15T07:59:59");
	check_refused(buf_str(&early), early.len,
		      "not valid yet: it begins at 2027-01-15T08:00:01");
	check_refused(buf_str(&other), other.len, "of another authority");
	check_refused(buf_str(&server), server.len, "purpose");
	check_refused(buf_str(&ours.cert), ours.cert.len, "");
	check_refused(buf_str(&host_key), host_key.len, "no certificate");
	check_refused("", 0, "no certificate");
	changed = xcalloc(1, CERT_PEM_BYTES + 1);
	check_refused(changed, CERT_PEM_BYTES + 1, "no certificate");
	free(changed);
	/* a bit of the signature, which ends before the last line */
	changed = xstrdup(buf_str(&good));
	changed[good.len - 60] = changed[good.len - 60] == 'A' ? 'B' : 'A';
	check_refused(changed, good.len, "");
	free(changed);
	buf_release(&old);
	buf_release(&early);
	buf_release(&other);
	buf_release(&good);
	buf_release(&server);
}

/* A certificate stays no longer than its authority, and says when it was given also where that has just begun. */
static void test_life(void)
{
	struct buf pem = sign(&ours, NOW_S - 2 * CERT_EARLY_S, NOW_S + INT64_C(100) * 365 * DAY_S);
	struct cert_host host;
	struct err e;

	CHECK_OK(cert_read_host(buf_str(&pem), pem.len, &host, &e), e);
	CHECK_EQ(host.begin_s, NOW_S - 2 * CERT_EARLY_S);
	CHECK_OK(cert_verify_host(ours.ca, buf_str(&pem), pem.len, NOW_S, &host, &e), e);
	CHECK_EQ(host.end_s, NOW_S + INT64_C(3650) * DAY_S);
	buf_release(&pem);
}

/* What is signed can be read again. */
static void test_epochs(void)
{
	struct cert_host host = { .name = "host-a", .begin_s = NOW_S, .end_s = NOW_S + DAY_S },
			 read;
	struct buf pem = BUF_INIT;
	struct err e;

	host.epoch = CERT_EPOCH_MAX;
	CHECK_OK(cert_sign_host(ours.ca, request.data, request.len, &host, &pem, &e), e);
	CHECK_OK(cert_read_host(buf_str(&pem), pem.len, &read, &e), e);
	CHECK(read.epoch == CERT_EPOCH_MAX);
	buf_reset(&pem);
	host.epoch++;
	CHECK_EQ(cert_sign_host(ours.ca, request.data, request.len, &host, &pem, &e), ERR_LIMIT);
	CHECK_EQ(pem.len, 0);
	buf_release(&pem);
}

/* A certificate that says it is encrypted is refused, without a question for its password. */
static void test_no_question(void)
{
	static const char pem[] = "-----BEGIN CERTIFICATE-----\n"
				  "Proc-Type: 4,ENCRYPTED\n"
				  "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n"
				  "AAAAAAAAAAAAAAAAAAAAAA==\n"
				  "-----END CERTIFICATE-----\n";
	struct cert_host host;
	int input[2], before = dup(STDIN_FILENO);
	char answer[8];
	struct err e;

	(void)setsid(); /* without a terminal the question would be at standard input */
	CHECK(!pipe(input) && write(input[1], "open\n", 5) == 5);
	CHECK(dup2(input[0], STDIN_FILENO) == STDIN_FILENO && !close(input[1]));
	CHECK_EQ(cert_read_host(pem, sizeof(pem) - 1, &host, &e), ERR_INVALID);
	CHECK_EQ(read(input[0], answer, sizeof(answer)), 5);
	if (before >= 0)
		CHECK(dup2(before, STDIN_FILENO) == STDIN_FILENO && !close(before));
	close(input[0]);
}

static void test_requests(void)
{
	uint8_t *copy = xcalloc(1, CERT_REQUEST_BYTES + 1);
	struct err e;

	CHECK_OK(cert_check_request(request.data, request.len, "host-a", &e), e);
	CHECK_EQ(cert_check_request(request.data, request.len, "host-b", &e), ERR_DENIED);
	CHECK(strstr(e.msg, "for the host 'host-a', not for 'host-b'"));
	CHECK_EQ(cert_check_request(request.data, request.len - 1, "host-a", &e), ERR_INVALID);
	CHECK(strstr(e.msg, "no certificate request"));
	CHECK_EQ(cert_check_request(request.data, 0, "host-a", &e), ERR_INVALID);
	CHECK_EQ(cert_check_request(copy, CERT_REQUEST_BYTES + 1, "host-a", &e), ERR_INVALID);
	CHECK(strstr(e.msg, "at most"));
	memcpy(copy, request.data, request.len);
	CHECK_EQ(cert_check_request(copy, request.len + 1, "host-a", &e), ERR_INVALID);
	copy[request.len - 1] ^= 1;
	CHECK_EQ(cert_check_request(copy, request.len, "host-a", &e), ERR_INVALID);
	CHECK(strstr(e.msg, "signature"));
	/* no single changed byte is accepted */
	for (size_t i = 0; i < request.len; i++) {
		memcpy(copy, request.data, request.len);
		copy[i] ^= 0x10;
		CHECK(cert_check_request(copy, request.len, "host-a", &e));
	}
	free(copy);
}

static void test_bad_authority(void)
{
	struct cert_authority *ca = NULL;
	struct buf host = sign(&ours, NOW_S - 10, NOW_S + DAY_S), server = BUF_INIT;
	const char *const odd[] = { "a,DNS:b" };
	struct err e;

	CHECK_EQ(cert_authority_new(&ca, buf_str(&theirs.key), buf_str(&ours.cert), &e),
		 ERR_INVALID);
	CHECK(strstr(e.msg, "not that of its certificate"));
	CHECK_EQ(cert_authority_new(&ca, buf_str(&host_key), buf_str(&host), &e), ERR_INVALID);
	CHECK(strstr(e.msg, "not that of an authority"));
	CHECK_EQ(cert_authority_new(&ca, "", buf_str(&ours.cert), &e), ERR_INVALID);
	CHECK_EQ(cert_sign_server(ours.ca, buf_str(&host_key), odd, 1, NOW_S, &server, &e),
		 ERR_INVALID);
	buf_release(&host);
	buf_release(&server);
}

int main(void)
{
	struct err e;

	make(&ours);
	make(&theirs);
	CHECK_OK(cert_make_key(&host_key, &e), e);
	CHECK_OK(cert_make_request(buf_str(&host_key), "host-a", &request, &e), e);
	test_good();
	test_refused();
	test_life();
	test_epochs();
	test_no_question();
	test_requests();
	test_bad_authority();
	release(&ours);
	release(&theirs);
	buf_release(&host_key);
	buf_release(&request);
	return 0;
}
