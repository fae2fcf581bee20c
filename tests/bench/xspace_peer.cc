// SPDX-License-Identifier: Apache-2.0
// The peer of xspace_rebase --memory: C++ protobuf, on an arena: parse, move every line, serialize.
//
//   xspace_peer IN SHIFT_NS            prints seconds and bytes
//   xspace_peer IN SHIFT_NS --same OUT whether OUT is, as a message, what this would have written
#include <chrono>
#include <cstdio>
#include <cstdlib>
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
	const std::string in = ReadFile(argv[1]);
	const long long by = atoll(argv[2]);
	if (argc == 5)
		return Same(in, by, argv[4]);

	const auto start = std::chrono::steady_clock::now();
	std::string out;
	{
		google::protobuf::Arena arena;
		auto *space = google::protobuf::Arena::CreateMessage<XSpace>(&arena);
		if (!space->ParseFromString(in))
			return 1;
		Move(space, by);
		if (!space->SerializeToString(&out))
			return 1;
	}
	const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
	printf("%.6f %zu\n", took.count(), out.size());
	return 0;
}
