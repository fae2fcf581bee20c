/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include "tests/lib/check.h"

static void test_split(void)
{
	char host[ADDRESS_HOST_BYTES];
	struct err e;
	int port;

	CHECK_OK(address_split("127.0.0.1:7400", host, &port, &e), e);
	CHECK_STR(host, "127.0.0.1");
	CHECK_EQ(port, 7400);
	CHECK_OK(address_split("[::1]:0", host, &port, &e), e);
	CHECK_STR(host, "::1");
	CHECK_EQ(port, 0);
	CHECK_OK(address_split("agg.example:65535", host, &port, &e), e);
	CHECK_STR(host, "agg.example");
	CHECK_EQ(port, 65535);
}

static void test_split_refuses(void)
{
	static const char *const bad[] = {
		"",	   ":",	       ":80",	   "host",     "host:", "host:x", "host:65536",
		"host:-1", "host: 1",  "::1:80",   "[::1]80",  "[::1]", "[]:80",  "[::1:80",
		"::1]:80", "host:1:2", "[::1]x:8", "h:000080", "h:8a",
	};
	char host[ADDRESS_HOST_BYTES];
	char longest[2 * ADDRESS_HOST_BYTES];
	int port;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = { 0 };

		CHECK_EQ(address_split(bad[i], host, &port, &e), ERR_INVALID);
		CHECK(strstr(e.msg, "address"));
	}
	memset(longest, 'a', sizeof(longest));
	memcpy(longest + sizeof(longest) - 4, ":80", 4);
	CHECK_EQ(address_split(longest, host, &port, NULL), ERR_INVALID);
}

static void test_loopback(void)
{
	CHECK(address_is_loopback("127.0.0.1"));
	CHECK(address_is_loopback("127.9.9.9"));
	CHECK(address_is_loopback("::1"));
	CHECK(address_is_loopback("::ffff:127.0.0.1"));
	CHECK(address_is_loopback("localhost"));
	CHECK(!address_is_loopback("128.0.0.1"));
	CHECK(!address_is_loopback("0.0.0.0"));
	CHECK(!address_is_loopback("::"));
	CHECK(!address_is_loopback("::ffff:10.0.0.1"));
	CHECK(!address_is_loopback("127.0.0.1.example"));
	CHECK(!address_is_loopback("localhost.example"));
}

static void test_listener(void)
{
	struct err e = { 0 };

	CHECK_OK(address_check_listener("127.0.0.1:1", false, false, &e), e);
	CHECK_OK(address_check_listener("[::]:1", true, false, &e), e);
	CHECK_OK(address_check_listener("0.0.0.0:1", false, true, &e), e);
	CHECK_EQ(address_check_listener("0.0.0.0:1", false, false, &e), ERR_DENIED);
	CHECK(strstr(e.msg, "--insecure") && strstr(e.msg, "--cert"));
	CHECK_EQ(address_check_listener("nonsense", true, true, &e), ERR_INVALID);
}

/* What goes there unencrypted must not leave the host. */
static void test_url(void)
{
	static const char *const good[] = { "https://example.com", "http://127.0.0.1",
					    "http://127.0.0.1:80/a@b", "http://localhost?q" };
	static const char *const bad[] = { "http://example.com",
					   "http://127.0.0.1@example.com",
					   "http://127.0.0.1:1@example.com/",
					   "http://localhost.example",
					   "http://",
					   "ftp://127.0.0.1",
					   "127.0.0.1" };
	struct err e = { 0 };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_OK(address_check_url(good[i], "server", &e), e);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(address_check_url(bad[i], "server", &e), ERR_INVALID);
		CHECK(strstr(e.msg, "server '"));
	}
}

int main(void)
{
	test_split();
	test_split_refuses();
	test_loopback();
	test_listener();
	test_url();
	return 0;
}
