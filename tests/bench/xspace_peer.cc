// SPDX-License-Identifier: Apache-2.0
// The peer of xspace_rebase: C++ protobuf, on an arena: parse, move every line, serialize.
//
//   xspace_peer IN SHIFT_NS            in memory; prints CPU seconds and bytes
//   xspace_peer IN SHIFT_NS --to OUT   file to file, reading and writing included
//   xspace_peer IN SHIFT_NS --same OUT whether OUT is, as a message, what this would have written
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "tensorflow/xplane.pb.h"

using tensorflow::profiler::XSpace;

static std::string ReadFile(const char *path)
{
	std::ifstream f(path, std::ios::binary);
	return std::string(std::istreambuf_iterator<char>(f), {});
}

static double CpuSeconds()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

// As fast as a program can: one call each.
static bool ReadWhole(const char *path, std::string *out)
{
	FILE *f = fopen(path, "rb");
	bool ok = f && !fseek(f, 0, SEEK_END);
	if (ok) {
		out->resize(size_t(ftell(f)));
		rewind(f);
		ok = fread(&(*out)[0], 1, out->size(), f) == out->size();
	}
	if (f)
		fclose(f);
	return ok;
}

static bool WriteWhole(const char *path, const std::string &bytes)
{
	FILE *f = fopen(path, "wb");
	bool ok = f && fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
	return f && !fclose(f) && ok;
}

static void Move(XSpace *space, long long by)
{
	for (auto &plane : *space->mutable_planes())
		for (auto &line : *plane.mutable_lines())
			line.set_timestamp_ns(line.timestamp_ns() + by);
}

// Map entries in order of their keys, so that equal messages have equal bytes.
static std::string Deterministic(const XSpace &space)
{
	std::string out;
	google::protobuf::io::StringOutputStream stream(&out);
	google::protobuf::io::CodedOutputStream coded(&stream);
	coded.SetSerializationDeterministic(true);
	space.SerializeToCodedStream(&coded);
	coded.Trim();
	return out;
}

static int Same(const std::string &in, long long by, const char *path)
{
	XSpace want, got;
	if (!want.ParseFromString(in) || !got.ParseFromString(ReadFile(path)))
		return 1;
	Move(&want, by);
	return Deterministic(want) == Deterministic(got) ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 5)
		return 2;
	const long long by = atoll(argv[2]);
	const char *to = argc == 5 && !strcmp(argv[3], "--to") ? argv[4] : nullptr;
	if (argc == 5 && !to)
		return Same(ReadFile(argv[1]), by, argv[4]);

	std::string in, out;
	if (!to && !ReadWhole(argv[1], &in))
		return 1;
	const double start = CpuSeconds();
	if (to && !ReadWhole(argv[1], &in))
		return 1;
	{
		google::protobuf::Arena arena;
		auto *space = google::protobuf::Arena::CreateMessage<XSpace>(&arena);
		if (!space->ParseFromString(in))
			return 1;
		Move(space, by);
		if (!space->SerializeToString(&out))
			return 1;
	}
	if (to && !WriteWhole(to, out))
		return 1;
	printf("%.6f %zu\n", CpuSeconds() - start, out.size());
	return 0;
}
