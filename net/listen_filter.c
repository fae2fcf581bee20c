/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listen_filter.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define OP(code, value) ((struct sock_filter)BPF_STMT(code, value))
#define JUMP_UNLESS(value, distance) \
	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, distance))
#define LOAD_NET(offset) OP(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_NET_OFF + (offset)))
#define DROP		 OP(BPF_RET | BPF_K, 0)
#define KEEP		 OP(BPF_RET | BPF_K, UINT32_MAX)

#define V4_OPS	 2 /* for each address */
#define V6_OPS	 5
#define MORE_OPS 8

static uint32_t word(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_v4(const uint8_t key[PEER_KEY_BYTES])
{
	struct in6_addr a;

	memcpy(&a, key, sizeof(a));
	return IN6_IS_ADDR_V4MAPPED(&a);
}

static size_t add_v4(struct sock_filter *op, const uint8_t (*keys)[PEER_KEY_BYTES], size_t n)
{
	size_t at = 0;

	op[at++] = LOAD_NET(12);
	for (size_t i = 0; i < n; i++) {
		if (!is_v4(keys[i]))
			continue;
		op[at++] = JUMP_UNLESS(word(keys[i] + 12), 1);
		op[at++] = DROP;
	}
	op[at++] = KEEP;
	return at;
}

static size_t add_v6(struct sock_filter *op, const uint8_t (*keys)[PEER_KEY_BYTES], size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_v4(keys[i]))
			continue;
		op[at++] = LOAD_NET(8);
		op[at++] = JUMP_UNLESS(word(keys[i]), 3);
		op[at++] = LOAD_NET(12);
		op[at++] = JUMP_UNLESS(word(keys[i] + 4), 1);
		op[at++] = DROP;
	}
	op[at++] = KEEP;
	return at;
}

void listen_filter_set(int fd, const uint8_t (*keys)[PEER_KEY_BYTES], size_t n)
{
	struct sock_filter ops[LISTEN_FILTER_MAX * V6_OPS + MORE_OPS],
		v4[LISTEN_FILTER_MAX * V4_OPS + MORE_OPS];
	struct sock_fprog program = { .filter = ops };
	size_t at = 0, n_v4;
	int none = 0;

	if (!n) {
		(void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
		return;
	}
	n = n < LISTEN_FILTER_MAX ? n : LISTEN_FILTER_MAX;
	n_v4 = add_v4(v4, keys, n);
	ops[at++] = OP(BPF_LD | BPF_B | BPF_ABS,
		       (uint32_t)SKF_NET_OFF); /* the IP version is its first half */
	ops[at++] = OP(BPF_ALU | BPF_RSH | BPF_K, 4);
	ops[at++] = JUMP_UNLESS(4, (uint8_t)n_v4);
	memcpy(ops + at, v4, n_v4 * sizeof(*ops));
	at += n_v4;
	at += add_v6(ops + at, keys, n);
	program.len = (unsigned short)at;
	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}
