/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's two lists of listening sockets say the same about this test's own. */
#include "agent/proc/listeners.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/check.h"

struct own_socket {
	int fd, port;
	uint64_t inode;
};

static int port_of(int fd, struct sockaddr_storage *address)
{
	socklen_t len = sizeof(*address);

	CHECK(!getsockname(fd, (struct sockaddr *)address, &len));
	return ntohs(address->ss_family == AF_INET6 ? ((struct sockaddr_in6 *)address)->sin6_port
						    : ((struct sockaddr_in *)address)->sin_port);
}

/* False if this machine has no such address. */
static bool listen_at(struct own_socket *s, const void *address, socklen_t len)
{
	struct sockaddr_storage bound;
	struct stat st;

	s->fd = socket(((const struct sockaddr *)address)->sa_family, SOCK_STREAM | SOCK_CLOEXEC,
		       0);
	if (s->fd < 0 || bind(s->fd, address, len) || listen(s->fd, 1)) {
		close(s->fd);
		return false;
	}
	CHECK(!fstat(s->fd, &st));
	s->inode = st.st_ino;
	s->port = port_of(s->fd, &bound);
	return true;
}

static const struct proc_listener *find(const struct listener_list *list, uint64_t inode)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i].inode == inode)
			return &list->v[i];
	return NULL;
}

static void check_both(const void *address, socklen_t len, const char *host, bool local)
{
	struct listener_list lists[2] = { 0 };
	struct own_socket s;
	char want[64];
	struct err e;
	int rc;

	if (!listen_at(&s, address, len)) {
		printf("no %s here\n", host);
		return;
	}
	CHECK_OK(listeners_by_files("/proc", &lists[0], &e), e);
	rc = listeners_by_netlink(&lists[1], &e);
	if (rc)
		printf("no netlink here: %s\n", e.msg);
	snprintf(want, sizeof(want), "%s:%d", host, s.port);
	for (int i = 0; i < (rc ? 1 : 2); i++) {
		const struct proc_listener *l = find(&lists[i], s.inode);

		CHECK(l);
		CHECK_STR(l->address, want);
		CHECK_EQ(l->port, s.port);
		CHECK_EQ(l->local, local);
	}
	close(s.fd);
	free(lists[0].v);
	free(lists[1].v);
}

int main(void)
{
	const struct sockaddr_in loopback = { .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in any = { .sin_family = AF_INET };
	const struct sockaddr_in6 loopback6 = { .sin6_family = AF_INET6,
						.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	struct listener_list list;
	struct err e;

	check_both(&loopback, sizeof(loopback), "127.0.0.1", true);
	check_both(&any, sizeof(any), "127.0.0.1", true);
	check_both(&loopback6, sizeof(loopback6), "[0:0:0:0:0:0:0:1]", true);
	check_both(&any6, sizeof(any6), "127.0.0.1", true);
	CHECK_OK(listeners_read("/proc", &list, &e), e);
	free(list.v);
	CHECK_EQ(listeners_read("/nowhere", &list, &e), ERR_IO);
	return 0;
}
