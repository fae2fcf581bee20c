/* SPDX-License-Identifier: Apache-2.0 */
/* The spool entry of a finished file, written by a worker. The request may end meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "agent/capture/spool.h"
#include "agent/capture/spool_entry.h"
#include "agent/link/env.h"
#include "agent/link/requests_impl.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

struct entry_write {
	struct request *request; /* NULL = it has ended */
	bool remove; /* remove the folder afterwards */
	char *dir;
	Tutti__V1__SpoolEntry entry; /* owns its strings */
	int rc;
	struct err error;
};

struct capture_file *request_read_files(const Tutti__V1__SpoolEntry *entry)
{
	struct capture_file *files = xcalloc(entry->n_files + 1, sizeof(*files));

	for (size_t i = 0; i < entry->n_files; i++) {
		files[i].bytes = entry->files[i];
		if (entry->n_crc32c == entry->n_files)
			files[i].crc32c = entry->crc32c[i];
	}
	return files;
}

static void put_files(Tutti__V1__SpoolEntry *entry, const struct request *rq)
{
	entry->files = xcalloc(rq->n_files + 1, sizeof(*entry->files));
	entry->crc32c = xcalloc(rq->n_files + 1, sizeof(*entry->crc32c));
	entry->n_files = rq->n_files;
	entry->n_crc32c = rq->files_summed ? rq->n_files : 0;
	for (size_t i = 0; i < rq->n_files; i++) {
		entry->files[i] = rq->files[i].bytes;
		entry->crc32c[i] = rq->files[i].crc32c;
	}
}

void entry_write_end_request(struct entry_write *w)
{
	w->request = NULL;
}

void entry_write_remove_folder(struct entry_write *w)
{
	w->remove = true;
}

static void run_entry_write(void *arg)
{
	struct entry_write *w = arg;

	w->rc = spool_entry_write(w->dir, &w->entry, &w->error);
}

static void on_entry_written(void *arg)
{
	struct entry_write *w = arg;

	if (w->rc && w->request)
		log_warn("AGT-SPOOL", "reason=\"%s\"", w->error.msg);
	if (w->request)
		w->request->entry_write = NULL;
	if (w->remove)
		spool_remove(w->dir);
	free(w->entry.session);
	free(w->entry.file);
	free(w->entry.result.data);
	free(w->entry.files);
	free(w->entry.crc32c);
	free(w->dir);
	free(w);
}

void request_write_entry(struct request *rq)
{
	struct entry_write *w = xcalloc(1, sizeof(*w));
	Tutti__V1__SpoolEntry *entry = &w->entry;

	w->request = rq;
	w->dir = xstrdup(rq->dir);
	tutti__v1__spool_entry__init(entry);
	entry->session = xstrdup(rq->session);
	entry->instance = rq->instance;
	entry->bytes = rq->bytes;
	entry->crc32 = rq->crc32;
	entry->deadline_ns = rq->deadline_ns;
	entry->lease_end_real_ns = now_real_ns() + rq->lease_end_mono_ns - now_mono_ns();
	entry->file = xstrdup(strrchr(rq->path, '/') + 1);
	put_files(entry, rq);
	entry->result.len = rq->result_len;
	entry->result.data = xmalloc(rq->result_len + 1);
	memcpy(entry->result.data, rq->result, rq->result_len);
	rq->entry_write = w;
	loop_work(rq->requests->env->loop, run_entry_write, on_entry_written, w);
}
