/* SPDX-License-Identifier: Apache-2.0 */
/* Where a bucket is and how it is addressed, from a URL and the environment (storage/s3_client.h has the list).
 * Private to storage/. */
#ifndef STORAGE_S3_SETTINGS_H
#define STORAGE_S3_SETTINGS_H

#include <stdbool.h>

#include "base/err.h"

struct s3_settings {
	char *bucket;
	char *prefix; /* "" or ends with '/' */
	char *endpoint; /* "https://host[:port]", no '/' at the end */
	char *region;
	char *ca_file, *profile; /* NULL = not set */
	bool path_style;
};

/* `out` begins zeroed; s3_settings_release() also after an error. */
MUST_CHECK int s3_settings_read(struct s3_settings *out, const char *rest, struct err *e);
void s3_settings_release(struct s3_settings *s);

#endif
