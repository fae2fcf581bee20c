/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The temporary folder of one `tutti inspect`: sockets, spools, logs; only its user can enter. A process that is killed
 * leaves its folder. So each holds a lock, and the next one removes the folders of this user whose lock no process holds.
 */
#ifndef CLI_INSPECT_FOLDER_H
#define CLI_INSPECT_FOLDER_H

#include "base/err.h"

struct inspect_folder {
	char *path; /* NULL: there is none */
	int lock_fd;
};

MUST_CHECK int inspect_folder_make(struct inspect_folder *f, struct err *e);
void inspect_folder_remove(struct inspect_folder *f);
void inspect_folder_keep(struct inspect_folder *f); /* it stays until its user removes it */

#endif
