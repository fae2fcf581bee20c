/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/local/profiler_answer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proto/limits.h"

enum { HEAD_BYTES = 64 }; /* largest size of the response before the file's bytes */

struct mapping {
	void *data;
	size_t len;
};

static void mapping_release(void *arg)
{
	struct mapping *m = arg;

	munmap(m->data, m->len);
	free(m);
}

/* The memory stays valid when the file is unlinked. */
static int mapping_open(struct mapping **out, const char *path, size_t len, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *data = MAP_FAILED;
	int rc = 0;

	if (fd >= 0)
		data = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED) {
		rc = err_errno(e, "%s", path);
	} else {
		*out = xmalloc(sizeof(**out));
		**out = (struct mapping){ data, len };
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static void add_tag(struct buf *b, unsigned int field, size_t len)
{
	buf_add_varint(b, field << 3 | 2);
	buf_add_varint(b, len);
}

/* Builds the bytes of the response before the file's. */
static void pack_head(struct buf *head, const struct profiler_answer *a)
{
	static const char name[] = "xplane.pb";
	size_t len = (size_t)a->file_len;

	if (a->empty_trace) {
		buf_add_varint(head, 7 << 3);
		buf_add_varint(head, 1);
	}
	if (a->emit_xspace) {
		add_tag(head, 8, len); /* xspace */
		return;
	}
	/* tool_data, its name, its data */
	add_tag(head, 6, 2 + strlen(name) + 1 + varint_size(len) + len);
	add_tag(head, 1, strlen(name));
	buf_add_str(head, name);
	add_tag(head, 2, len);
}

int profiler_answer_parts(const struct profiler_answer *a,
			  struct rpc_part parts[PROFILER_ANSWER_PARTS], struct err *e)
{
	struct buf head = BUF_INIT;
	struct mapping *m = NULL;
	size_t head_len;
	uint8_t *bytes;
	int rc;

	if (a->file_len > LIMIT_RESPONSE_BYTES - HEAD_BYTES)
		return err_set(e, ERR_LIMIT, "the trace is larger than a response may be (2 GB)");
	rc = mapping_open(&m, a->path, (size_t)a->file_len, e);
	if (rc)
		return rc;
	pack_head(&head, a);
	bytes = buf_detach(&head, &head_len);
	parts[0] = (struct rpc_part){ bytes, head_len, free, bytes };
	parts[1] = (struct rpc_part){ m->data, m->len, mapping_release, m };
	return 0;
}
