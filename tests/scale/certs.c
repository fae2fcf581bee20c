/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for logical agents: scale_certs DIR COUNT PREFIX... makes an authority "ca", "aggregator", and
 * PREFIX-00000 to PREFIX-<COUNT - 1>, each for one agent: with mTLS a certificate names its host. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tests/lib/certs.h"

static void make_for(const char *dir, const char *prefix, size_t count, const struct cert *ca)
{
	for (size_t i = 0; i < count; i++) {
		char *name = xasprintf("%s-%05zu", prefix, i);

		cert_free(cert_make(dir, name, ca));
		free(name);
	}
}

int main(int argc, char **argv)
{
	struct cert *ca;

	if (argc < 4) {
		fprintf(stderr, "usage: scale_certs DIR COUNT PREFIX...\n");
		return 2;
	}
	ca = cert_make(argv[1], "ca", NULL);
	cert_free(cert_make(argv[1], "aggregator", ca));
	for (int i = 3; i < argc; i++)
		make_for(argv[1], argv[i], strtoul(argv[2], NULL, 10), ca);
	cert_free(ca);
	return 0;
}
