/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"

/* A copy of the words that ends with NUL whatever was read. */
struct words {
	char *text;
	const char *end;
};

/* The word after this one; NULL after the last. */
static const char *next_word(const struct words *w, const char *word)
{
	word += strlen(word) + 1;
	return word < w->end ? word : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Writes what Python runs, after a blank: " train.py", " -m trainer"; "" for code on the command line. */
static char *python_script(const struct words *w, const char *word)
{
	while (word && *word == '-' && strcmp(word, "-m") && strcmp(word, "-c"))
		word = next_word(w, word);
	if (!word || !*word || !strcmp(word, "-c"))
		return xstrdup("");
	if (strcmp(word, "-m"))
		return xasprintf(" %s", base_name(word));
	word = next_word(w, word);
	return xasprintf(" -m %s", word ? word : "");
}

bool proc_command(const char *cmdline, size_t len, char *out, size_t size)
{
	struct words w = { .text = xmalloc(len + 1) };
	const char *program;
	char *script, *command;

	memcpy(w.text, cmdline, len);
	w.text[len] = '\0';
	w.end = w.text + len;
	program = base_name(w.text);
	script = strncmp(program, "python", 6) ? xstrdup("")
					       : python_script(&w, next_word(&w, w.text));
	command = xasprintf("%s%s", program, script);
	clean_text(out, size, command, strlen(command));
	free(command);
	free(script);
	free(w.text);
	return *out != '\0';
}
