/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents that enrol all at once: scale_joins TARGET CA.CRT TOKENS. Each has a key, a connection and a line "HOST TOKEN" of the file
 * TOKENS, and asks for the certificate of HOST. Prints the seconds until the last one has it, and how many have; the keys were
 * made before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/cert.h"
#include "net/rpc.h"
#include "proto/tutti/v1/enrol.pb-c.h"

#define LIMIT_NS (120 * NS_PER_S)

struct joins {
	size_t n, ended, good;
	char why[200]; /* of the last failure */
};

struct host {
	struct joins *joins;
	struct rpc_channel *channel;
	uint8_t *request;
	size_t len;
};

static void prepare(struct host *h, char *name, char *token)
{
	Tutti__V1__EnrolRequest m = TUTTI__V1__ENROL_REQUEST__INIT;
	struct buf key = BUF_INIT, der = BUF_INIT;
	struct err e;

	if (cert_make_key(&key, &e) || cert_make_request(buf_str(&key), name, &der, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	m.host = name;
	m.token = token;
	m.request = (ProtobufCBinaryData){ der.len, der.data };
	h->len = tutti__v1__enrol_request__get_packed_size(&m);
	h->request = xmalloc(h->len);
	tutti__v1__enrol_request__pack(&m, h->request);
	buf_release(&key);
	buf_release(&der);
}

static struct host *read_hosts(const char *path, struct joins *j)
{
	FILE *f = fopen(path, "re");
	char name[128], token[8192];
	struct host *hosts = NULL;

	if (!f) {
		perror(path);
		exit(1);
	}
	while (fscanf(f, "%127s %8191s", name, token) == 2) {
		hosts = xrealloc(hosts, (j->n + 1) * sizeof(*hosts));
		hosts[j->n] = (struct host){ .joins = j };
		prepare(&hosts[j->n++], name, token);
	}
	fclose(f);
	return hosts;
}

static void on_reply(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct joins *j = arg;

	j->ended++;
	if (msg)
		j->good++;
	else
		snprintf(j->why, sizeof(j->why), "%s: %s", rpc_code_name(st->code), st->text);
}

static void ask(struct host *h, struct rpc *rpc, const char *target, const char *ca)
{
	const struct rpc_tls tls = { .ca_file = ca };
	const struct rpc_channel_opts opts = { .target = target, .tls = &tls };
	struct err e;

	if (rpc_channel_new(&h->channel, rpc, &opts, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	rpc_unary(h->channel, "/tutti.v1.Enrol/Enrol", h->request, h->len, now_mono_ns() + LIMIT_NS,
		  on_reply, h->joins);
}

int main(int argc, char **argv)
{
	struct joins joins = { 0 };
	struct host *hosts;
	struct loop *loop;
	struct rpc *rpc;
	struct err e;
	int64_t begin_ns;

	if (argc != 4) {
		fprintf(stderr, "usage: scale_joins TARGET CA.CRT TOKENS\n");
		return 2;
	}
	hosts = read_hosts(argv[3], &joins);
	if (loop_new(&loop, 1, &e) || rpc_new(&rpc, loop, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	begin_ns = now_mono_ns();
	for (size_t i = 0; i < joins.n; i++)
		ask(&hosts[i], rpc, argv[1], argv[2]);
	while (joins.ended < joins.n)
		loop_turn(loop, 20);
	printf("%.3f %zu %s\n", (double)(now_mono_ns() - begin_ns) / 1e9, joins.good, joins.why);
	for (size_t i = 0; i < joins.n; i++) {
		rpc_channel_free(hosts[i].channel);
		free(hosts[i].request);
	}
	rpc_free(rpc);
	loop_free(loop);
	free(hosts);
	return 0;
}
