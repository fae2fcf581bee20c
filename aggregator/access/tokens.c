/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/tokens.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#define WORDS	   4
#define WORD_BYTES 4096
#define BLANKS	   " \t\r"

/* ---- lines ---- */

/* One line, cut into words; '#' begins a comment. */
struct line {
	char text[WORD_BYTES];
	char *words[WORDS];
	size_t n;
};

static int cut_line(struct line *l, const char *text, size_t len, struct err *e)
{
	char *at, *rest = NULL;

	if (len >= sizeof(l->text))
		return err_set(e, ERR_LIMIT, "a line of %zu bytes: use less than %zu", len,
			       sizeof(l->text));
	memcpy(l->text, text, len);
	l->text[len] = '\0';
	l->text[strcspn(l->text, "#")] = '\0';
	l->n = 0;
	for (at = strtok_r(l->text, BLANKS, &rest); at; at = strtok_r(NULL, BLANKS, &rest)) {
		if (l->n == WORDS)
			return err_set(e, ERR_INVALID, "more than %d words", WORDS);
		l->words[l->n++] = at;
	}
	return 0;
}

static struct token *find_token(const struct tokens *t, const char *digest)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->items[i].digest, digest))
			return &t->items[i];
	return NULL;
}

static struct token *add_token(struct tokens *t, const char *digest, const char *name)
{
	struct token *token;

	if (!(t->n & (t->n + 1))) /* 0, 1, 3, 7, ...: all places are taken */
		t->items = xrealloc(t->items, (2 * t->n + 1) * sizeof(*t->items));
	token = &t->items[t->n++];
	memcpy(token->digest, digest, DIGEST_HEX_BYTES);
	token->principal = principal_new(name, "token");
	return token;
}

/* `index` finds the digests that were read so far. */
static int add_grant(struct tokens *t, const struct line *l, struct err *e)
{
	static const char digits[] = "0123456789abcdef";
	const char *name = l->words[0], *digest = l->words[2];
	struct spaces where = { .all = true };
	struct token *token;
	enum role role;
	int rc;

	if (strlen(digest) != DIGEST_HEX_BYTES - 1 || digest[strspn(digest, digits)])
		return err_set(e, ERR_INVALID,
			       "the third word is no SHA-256 of a token: use 64 digits from 0 to "
			       "f, as of: printf %%s TOKEN | sha256sum");
	rc = role_parse(&role, l->words[1], e);
	if (rc)
		return rc;
	if (l->n == WORDS)
		rc = spaces_parse(&where, l->words[3], e);
	token = rc ? NULL : find_token(t, digest);
	if (token && strcmp(token->principal->name, name))
		rc = err_set(e, ERR_INVALID, "%.60s and %.60s have the same token",
			     token->principal->name, name);
	if (!rc && t->n == TOKENS_MOST)
		rc = err_set(e, ERR_LIMIT, "more than %d tokens", TOKENS_MOST);
	if (!rc)
		principal_grant((token ? token : add_token(t, digest, name))->principal, role,
				&where);
	spaces_release(&where);
	return rc;
}

static int compare_tokens(const void *a, const void *b)
{
	return strcmp(((const struct token *)a)->digest, ((const struct token *)b)->digest);
}

static void free_items(struct tokens *t)
{
	for (size_t i = 0; i < t->n; i++) {
		t->items[i].principal->is_revoked = true;
		principal_unref(t->items[i].principal);
	}
	free(t->items);
	t->items = NULL;
	t->n = 0;
}

int tokens_read(struct tokens *t, const char *path, const char *text, size_t len, struct err *e)
{
	const char *end = text + len;
	int rc = 0;

	for (unsigned int n = 1; text < end && !rc; n++) {
		size_t line_len = strcspn(text, "\n");
		struct line l;

		rc = cut_line(&l, text, line_len, e);
		if (!rc && l.n && l.n < 3)
			rc = err_set(e, ERR_INVALID,
				     "use NAME ROLE SHA256-OF-TOKEN [NAMESPACE,...]");
		if (!rc && l.n)
			rc = add_grant(t, &l, e);
		if (rc)
			rc = err_prefix(e, "%s: line %u", path, n);
		text += line_len + 1;
	}
	if (rc)
		free_items(t);
	else if (t->n)
		qsort(t->items, t->n, sizeof(*t->items), compare_tokens);
	return rc;
}

/* ---- the file ---- */

/* Who can write the file can make himself an admin; who can read it learns no token. */
static int check_mode(const struct stat *st, const char *path, struct err *e)
{
	if (S_ISREG(st->st_mode) && st->st_mode & (S_IRWXO | S_IWGRP))
		return err_set(e, ERR_DENIED,
			       "%s says who may do what, and others can open or change it: chmod "
			       "o=,g-w %s",
			       path, path);
	return 0;
}

static int read_file(struct tokens *t, struct err *e)
{
	struct tokens fresh = { .path = t->path };
	struct buf text = BUF_INIT;
	int rc = stat(t->path, &fresh.read) ? err_errno(e, "%s", t->path) : 0;

	if (!rc)
		rc = check_mode(&fresh.read, t->path, e);
	if (!rc)
		rc = file_load(t->path, TOKENS_BYTES, &text, e);
	if (!rc && text.len && memchr(text.data, '\0', text.len))
		rc = err_set(e, ERR_INVALID, "%s: a NUL is no text", t->path);
	if (!rc)
		rc = tokens_read(&fresh, t->path, buf_str(&text), text.len, e);
	t->read = fresh.read; /* a wrong file is told once */
	if (!rc) {
		free_items(t);
		*t = fresh;
	}
	buf_release(&text);
	return rc;
}

int tokens_load(struct tokens *t, const char *path, struct err *e)
{
	int rc;

	*t = (struct tokens){ .path = xstrdup(path) };
	rc = read_file(t, e);
	if (rc)
		tokens_release(t);
	return rc;
}

void tokens_release(struct tokens *t)
{
	free_items(t);
	free(t->path);
	*t = (struct tokens){ 0 };
}

int tokens_reload(struct tokens *t, struct err *e)
{
	struct stat now;

	if (!stat(t->path, &now) && now.st_ino == t->read.st_ino && now.st_dev == t->read.st_dev &&
	    now.st_size == t->read.st_size && now.st_mode == t->read.st_mode &&
	    now.st_ctim.tv_sec == t->read.st_ctim.tv_sec &&
	    now.st_ctim.tv_nsec == t->read.st_ctim.tv_nsec)
		return 0;
	return read_file(t, e);
}

/* Not in constant time: what a caller could learn of a digest by the time of the answer is of no use without its
 * preimage. */
struct principal *tokens_find(const struct tokens *t, const char *digest)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(t->items[middle].digest, digest);

		if (!order)
			return t->items[middle].principal;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}
