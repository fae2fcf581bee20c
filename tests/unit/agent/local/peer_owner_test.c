/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a caller's socket, from lists as the kernel writes them. */
#include "agent/local/peer_owner.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define PORT  7410
#define PEER  "ipv4:127.0.0.1:40312"
#define PEER6 "ipv6:%5B::1%5D:40312"
#define FMT \
	"   1: %s %s %s 00000000:00000000 00:00000000 00000000 %5u        0 %s 1 0 20 4 30 10 " \
	"-1\n"

static const char *folder;

static void write_line(const char *name, const char *local, const char *remote, const char *state,
		       unsigned int uid, const char *inode)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	CHECK(f);
	fputs("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n",
	      f);
	/* The server's own end comes first. */
	fprintf(f, FMT, remote, local, state, geteuid(), "7");
	fprintf(f, FMT, local, remote, state, uid, inode);
	CHECK(!fclose(f));
}

static int check(const char *peer)
{
	struct err e;

	return peer_owner_check(peer, PORT, folder, &e);
}

static void test_v4(void)
{
	const char *local = "0100007F:9D78", *remote = "0100007F:1CF2";

	CHECK_EQ(check(PEER), ERR_DENIED); /* there is no list */
	write_line("tcp", local, remote, "01", geteuid(), "99");
	CHECK_EQ(check(PEER), 0);
	CHECK_EQ(check("ipv4:127.0.0.1:40313"), ERR_DENIED);
	CHECK_EQ(check("ipv4:127.0.0.2:40312"), ERR_DENIED);
	CHECK_EQ(check("unix:/tmp/x"), ERR_DENIED);
	CHECK_EQ(check(""), ERR_DENIED);
	write_line("tcp", local, remote, "01", 0, "99");
	CHECK_EQ(check(PEER), 0);
	write_line("tcp", local, remote, "01", geteuid() + 4242, "99");
	CHECK_EQ(check(PEER), ERR_DENIED);
	write_line("tcp", local, remote, "08", geteuid(), "99"); /* its other end has closed */
	CHECK_EQ(check(PEER), ERR_DENIED);
	/* Closed by its process: the kernel lists root as the owner. */
	write_line("tcp", local, remote, "04", 0, "0");
	CHECK_EQ(check(PEER), ERR_DENIED);
	write_line("tcp", local, remote, "01", 0, "0");
	CHECK_EQ(check(PEER), ERR_DENIED);
	/* Connected to another port. */
	write_line("tcp", local, "0100007F:1CF3", "01", geteuid(), "99");
	CHECK_EQ(check(PEER), ERR_DENIED);
}

static void test_v6(void)
{
	write_line("tcp6", "00000000000000000000000001000000:9D78",
		   "00000000000000000000000001000000:1CF2", "01", geteuid(), "99");
	CHECK_EQ(check(PEER6), 0);
	CHECK_EQ(check("ipv6:[::1]:40312"), 0);
	CHECK_EQ(check("ipv6:[::2]:40312"), ERR_DENIED);
	/* An IPv6 socket that is used for IPv4. */
	write_line("tcp6", "0000000000000000FFFF00000100007F:9D78",
		   "0000000000000000FFFF00000100007F:1CF2", "01", geteuid(), "99");
	CHECK_EQ(check(PEER), 0);
}

int main(void)
{
	folder = temp_dir();
	test_v4();
	test_v6();
	CHECK(peer_is_loopback(PEER));
	CHECK(peer_is_loopback(PEER6));
	CHECK(!peer_is_loopback("ipv4:10.0.0.1:40312"));
	return 0;
}
