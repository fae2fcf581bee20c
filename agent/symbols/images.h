/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images hold code: files, the kernel, processes (code that is in no file). Each has a small number; a file
 * is one image, however many processes map it.
 */
#ifndef AGENT_SYMBOLS_IMAGES_H
#define AGENT_SYMBOLS_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_kind {
	IMAGE_KIND_KERNEL, /* offset: the address */
	IMAGE_KIND_UNKNOWN, /* offset 0 */
	IMAGE_KIND_VDSO, /* offset into the kernel's code in every process */
	IMAGE_KIND_FILE, /* offset into the file */
	IMAGE_KIND_PROCESS, /* offset: the address in that process */
};

/* Numbers of the images that always exist. */
enum { IMAGE_KERNEL, IMAGE_UNKNOWN, IMAGE_VDSO, IMAGE_FIRST };

struct image {
	enum image_kind kind;
	uint32_t pid; /* the process; of a file: the last one that mapped it */
	uint32_t major, minor;
	uint64_t inode;
	uint64_t serial; /* never used twice: distinguishes instances of a pid */
	char *path; /* as the process sees it; NULL if not a file */
};

struct images;

struct images *images_new(size_t max);
void images_free(struct images *im);

/* The file's number; IMAGE_UNKNOWN when all are taken. `pid` maps it now. */
uint32_t images_file(struct images *im, const struct image *file);

/* A new image for a process instance; IMAGE_UNKNOWN when all are taken. */
uint32_t images_process(struct images *im, uint32_t pid);

size_t images_count(const struct images *im); /* numbers are below this */
bool images_full(const struct images *im);
const struct image *images_get(const struct images *im, uint32_t image);

/* Removes all images with !used[number]; their numbers are used again. */
void images_sweep(struct images *im, const bool *used);

#endif
