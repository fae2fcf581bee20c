/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/images.h"

#include <string.h>

#include "base/mem.h"

#define BUCKETS 4096

struct entry {
	struct image image;
	bool in_use;
	/* the next image of the bucket; 0 ends the list, since image 0 is in no bucket */
	uint32_t next;
};

struct images {
	struct entry *v;
	size_t n, cap, max, live;
	uint64_t last_serial;
	uint32_t buckets[BUCKETS]; /* files by their key */
};

static uint32_t *bucket_of(struct images *im, const struct image *file)
{
	uint64_t h = file->inode * 0x9e3779b97f4a7c15ULL ^ file->minor;

	for (const char *p = file->path; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3ULL;
	return &im->buckets[(h ^ h >> 32) % BUCKETS];
}

static bool same_file(const struct image *a, const struct image *b)
{
	return a->kind == IMAGE_KIND_FILE && a->inode == b->inode && a->major == b->major &&
	       a->minor == b->minor && !strcmp(a->path, b->path);
}

static uint32_t take_number(struct images *im)
{
	if (im->live < im->n)
		for (size_t i = IMAGE_FIRST; i < im->n; i++)
			if (!im->v[i].in_use)
				return (uint32_t)i;
	if (im->n == im->max)
		return IMAGE_UNKNOWN;
	if (im->n == im->cap) {
		im->cap = im->cap ? 2 * im->cap : 64;
		im->v = xrealloc(im->v, im->cap * sizeof(*im->v));
	}
	return (uint32_t)im->n++;
}

static uint32_t add_image(struct images *im, const struct image *image)
{
	uint32_t i = take_number(im);

	if (i == IMAGE_UNKNOWN && im->n > IMAGE_UNKNOWN + 1)
		return i;
	im->v[i] = (struct entry){ .image = *image, .in_use = true };
	im->v[i].image.serial = ++im->last_serial;
	im->live++;
	return i;
}

struct images *images_new(size_t max)
{
	struct images *im = xcalloc(1, sizeof(*im));

	im->max = max > IMAGE_FIRST ? max : IMAGE_FIRST;
	add_image(im, &(struct image){ .kind = IMAGE_KIND_KERNEL });
	add_image(im, &(struct image){ .kind = IMAGE_KIND_UNKNOWN });
	add_image(im, &(struct image){ .kind = IMAGE_KIND_VDSO });
	return im;
}

void images_free(struct images *im)
{
	if (!im)
		return;
	for (size_t i = 0; i < im->n; i++)
		free(im->v[i].image.path);
	free(im->v);
	free(im);
}

uint32_t images_file(struct images *im, const struct image *file)
{
	uint32_t *bucket = bucket_of(im, file);
	struct image copy = *file;
	uint32_t i;

	for (i = *bucket; i; i = im->v[i].next) {
		if (!same_file(&im->v[i].image, file))
			continue;
		im->v[i].image.pid = file->pid;
		return i;
	}
	copy.kind = IMAGE_KIND_FILE;
	copy.path = NULL;
	i = add_image(im, &copy);
	if (i == IMAGE_UNKNOWN)
		return i;
	im->v[i].image.path = xstrdup(file->path);
	im->v[i].next = *bucket;
	*bucket = i;
	return i;
}

uint32_t images_process(struct images *im, uint32_t pid)
{
	return add_image(im, &(struct image){ .kind = IMAGE_KIND_PROCESS, .pid = pid });
}

size_t images_count(const struct images *im)
{
	return im->n;
}

bool images_full(const struct images *im)
{
	return im->live == im->max;
}

const struct image *images_get(const struct images *im, uint32_t image)
{
	return &im->v[image].image;
}

static void remove_image(struct images *im, uint32_t i)
{
	struct entry *gone = &im->v[i];

	if (gone->image.path) {
		uint32_t *link = bucket_of(im, &gone->image);

		while (*link != i)
			link = &im->v[*link].next;
		*link = gone->next;
	}
	free(gone->image.path);
	*gone = (struct entry){ .in_use = false };
	im->live--;
}

void images_sweep(struct images *im, const bool *used)
{
	for (uint32_t i = IMAGE_FIRST; i < im->n; i++)
		if (im->v[i].in_use && !used[i])
			remove_image(im, i);
}
