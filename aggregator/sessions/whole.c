/* SPDX-License-Identifier: Apache-2.0 */
/* A session that comes as a whole. */
#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "json/json_text.h"

/* A record with the end; the first one's is the session's removal, which is what a crash leaves to be done. */
static json_t *record_of(const struct session_whole *w, const char *end, json_t *document)
{
	json_t *o = json_object(), *owner = json_object(), *e = json_object();

	json_put_int(owner, "epoch", 1);
	json_put_text(owner, "nonce", w->nonce);
	json_put_text(e, "state", end);
	if (document)
		json_put(e, "document", json_incref(document));
	json_put_int(o, "version", LEDGER_VERSION);
	json_put_text(o, "session", json_get_text(w->manifest, "session"));
	json_put_text(o, "run", json_get_text(w->manifest, "run"));
	json_put(o, "owner", owner);
	json_put(o, "end", e);
	return o;
}

/* The files are not to stay. What cannot be removed now is removed by whoever finds the record. */
static void withdraw(struct store *s, const json_t *record, unsigned int n)
{
	struct err e;

	if (ledger_carry_out(s, record, n, &e))
		log_warn("AGG-STORE", "session=%s action=withdraw reason=\"%s\"",
			 json_get_text(record, "session"), e.msg);
}

int session_put_whole(struct store *s, const struct session_whole *w, bool *begun, struct err *e)
{
	const char *session = json_get_text(w->manifest, "session");
	json_t *removal = record_of(w, "deleted", NULL);
	json_t *commit = record_of(w, "committed", w->manifest);
	unsigned int n = 0;
	int rc;

	*begun = true;
	rc = ledger_put(s, session, removal, &n, e);
	if (rc)
		goto out;
	rc = w->put_files(w->arg, e);
	if (rc) {
		withdraw(s, removal, n);
		goto out;
	}
	rc = ledger_put_end(s, commit, &n, e);
	if (!rc)
		rc = ledger_carry_out(s, commit, n, e);
out:
	json_decref(removal);
	json_decref(commit);
	return rc;
}
