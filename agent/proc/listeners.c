/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"

enum {
	MAX_LISTENERS = 16384,
	/* The kernel lists listeners first: reading stops after this many lines without one. */
	MAX_QUIET_LINES = 256,
	MESSAGE_BYTES = 32 << 10, /* largest message of the kernel */
};

static void add(struct listener_list *list, const struct proc_listener *l)
{
	if (list->n == MAX_LISTENERS)
		return;
	if (list->n == list->cap) {
		list->cap = list->cap ? 2 * list->cap : 64;
		list->v = xrealloc(list->v, list->cap * sizeof(*list->v));
	}
	list->v[list->n++] = *l;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return !n;
}

static void set_address4(struct proc_listener *l, const uint8_t *a)
{
	l->local = a[0] == 127 || all_zero(a, 4);
	if (all_zero(a, 4))
		snprintf(l->address, sizeof(l->address), "127.0.0.1:%d", l->port);
	else
		snprintf(l->address, sizeof(l->address), "%u.%u.%u.%u:%d", a[0], a[1], a[2], a[3],
			 l->port);
}

static void set_address6(struct proc_listener *l, const uint8_t *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t used = 1;

	if (all_zero(a, 16) || !memcmp(a, mapped, 12)) {
		set_address4(l, a + 12); /* a wildcard IPv6 socket takes IPv4 as well */
		return;
	}
	l->local = all_zero(a, 15) && a[15] == 1;
	l->address[0] = '[';
	for (int i = 0; i < 8; i++)
		used += (size_t)snprintf(l->address + used, sizeof(l->address) - used, "%s%x",
					 i ? ":" : "", a[2 * i] << 8 | a[2 * i + 1]);
	snprintf(l->address + used, sizeof(l->address) - used, "]:%d", l->port);
}

/* ---- net/tcp, net/tcp6 ---- */

/* The kernel prints an address as words of 32 bits in host order. */
static bool parse_hex_words(const char *hex, size_t words, uint8_t *out)
{
	if (strlen(hex) != words * 8)
		return false;
	for (size_t i = 0; i < words; i++) {
		char one[9] = "";
		uint32_t v;

		memcpy(one, hex + i * 8, 8);
		v = (uint32_t)strtoul(one, NULL, 16);
		memcpy(out + i * 4, &v, 4);
	}
	return true;
}

/* False if the line is not that of a listening socket. */
static bool parse_line(const char *line, struct proc_listener *out)
{
	char hex[33];
	uint8_t addr[16];
	unsigned int port, state;
	uint64_t inode;

	if (sscanf(line,
		   " %*d: %32[0-9A-Fa-f]:%4X %*32[0-9A-Fa-f]:%*4X %2X %*X:%*X %*X:%*X %*X %*u %*d "
		   "%" SCNu64,
		   hex, &port, &state, &inode) != 4)
		return false;
	if (state != 0x0a || !inode || !port)
		return false;
	memset(out, 0, sizeof(*out));
	out->inode = inode;
	out->port = (int)port;
	if (parse_hex_words(hex, 1, addr))
		set_address4(out, addr);
	else if (parse_hex_words(hex, 4, addr))
		set_address6(out, addr);
	else
		return false;
	return true;
}

static int read_file(const char *root, const char *file, struct listener_list *out, struct err *e)
{
	char *path = xasprintf("%s/net/%s", root, file);
	FILE *f = fopen(path, "re");
	char line[512];
	int quiet = 0, rc = 0;

	if (!f) {
		rc = err_errno(e, "%s", path);
		goto out;
	}
	while (quiet < MAX_QUIET_LINES && fgets(line, sizeof(line), f)) {
		struct proc_listener l;

		if (!parse_line(line, &l)) {
			quiet++;
			continue;
		}
		add(out, &l);
		quiet = 0;
	}
	fclose(f);
out:
	free(path);
	return rc;
}

int listeners_by_files(const char *root, struct listener_list *out, struct err *e)
{
	bool have = !read_file(root, "tcp", out, e);

	/* One of the two files is enough: a kernel may lack a family. */
	have |= !read_file(root, "tcp6", out, have ? NULL : e);
	return have ? 0 : ERR_IO;
}

/* ---- netlink ---- */

static void add_diag(struct listener_list *out, const struct inet_diag_msg *m)
{
	struct proc_listener l = { .inode = m->idiag_inode, .port = ntohs(m->id.idiag_sport) };
	uint8_t addr[sizeof(m->id.idiag_src)];

	if (!l.inode || !l.port)
		return;
	memcpy(addr, m->id.idiag_src, sizeof(addr));
	if (m->idiag_family == AF_INET)
		set_address4(&l, addr);
	else
		set_address6(&l, addr);
	add(out, &l);
}

/* Sets `*end` at the end of the list. */
static int take_messages(const struct nlmsghdr *h, size_t len, struct listener_list *out, bool *end,
			 struct err *e)
{
	struct nlmsgerr failed;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		if (h->nlmsg_type == NLMSG_DONE) {
			*end = true;
			return 0;
		}
		if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(failed))) {
			memcpy(&failed, NLMSG_DATA(h), sizeof(failed));
			errno = -failed.error;
			return err_errno(e, "sock_diag");
		}
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY &&
		    h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			add_diag(out, NLMSG_DATA(h));
	}
	return 0;
}

static int list_family(int fd, uint8_t family, struct listener_list *out, struct err *e)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} request = {
		.head = { .nlmsg_len = sizeof(request),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .sdiag_family = family,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = 1U << TCP_LISTEN },
	};
	_Alignas(struct nlmsghdr) uint8_t bytes[MESSAGE_BYTES];
	bool end = false;
	int rc = 0;

	if (send(fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request))
		return err_errno(e, "asking sock_diag");
	while (!end && !rc) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n <= 0)
			return err_errno(e, "reading sock_diag");
		rc = take_messages((const struct nlmsghdr *)bytes, (size_t)n, out, &end, e);
	}
	return rc;
}

/* A kernel without IPv6 may refuse its family. */
static bool has_ipv6(void)
{
	return !access("/proc/net/tcp6", F_OK);
}

int listeners_by_netlink(struct listener_list *out, struct err *e)
{
	const struct timeval limit = { .tv_sec = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int rc;

	if (fd < 0)
		return err_errno(e, "opening sock_diag");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		rc = err_errno(e, "setting up sock_diag");
	else
		rc = list_family(fd, AF_INET, out, e);
	if (!rc && has_ipv6())
		rc = list_family(fd, AF_INET6, out, e);
	close(fd);
	return rc;
}

int listeners_read(const char *root, struct listener_list *out, struct err *e)
{
	int rc;

	*out = (struct listener_list){ 0 };
	if (!strcmp(root, "/proc") && !listeners_by_netlink(out, NULL))
		return 0;
	out->n = 0;
	rc = listeners_by_files(root, out, e);
	if (rc)
		free(out->v);
	return rc;
}
