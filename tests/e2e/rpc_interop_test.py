# SPDX-License-Identifier: Apache-2.0
"""Stock Python gRPC against net/rpc.h: the four shapes, health, reflection, and all that goes wrong."""
import os
import socket
import subprocess
import sys
import time

from lib.cluster import BIN, SANITIZER_WORDS, SLOW
from lib.leftovers import die_with_parent
from lib.waits import read_line

try:
    import grpc
    from google.protobuf import descriptor_pool
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
except ImportError:
    print("grpcio, grpcio-health-checking and grpcio-reflection are not installed: skipped")
    sys.exit(77)

BIG = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = 0, 1, 2, 3


class Server:
    def __enter__(self):
        self.p = subprocess.Popen([BIN / "rpc_echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.address = "127.0.0.1:" + self.line().split()[1]
        return self

    def line(self, seconds=30):
        return read_line(self.p.stdout, seconds)

    def wait_open(self):
        assert self.line() == "message\n"

    def serving(self, yes):
        self.p.stdin.write(f"serving {int(yes)}\n")
        self.p.stdin.flush()

    def __exit__(self, *exc):
        _, log = self.p.communicate(timeout=30 * SLOW)
        assert self.p.returncode == 0, log
        assert not any(w in log for w in SANITIZER_WORDS), log


def fails(code, call, *args, **kw):
    """The call fails with `code`, long before its deadline; returns the status text."""
    start = time.monotonic()
    try:
        call(*args, timeout=kw.pop("timeout", 60), **kw)
    except grpc.RpcError as e:
        assert e.code() == code, e
        assert time.monotonic() - start < 20 * SLOW
        return e.details()
    raise AssertionError(f"no error, expected {code}")


def test_shapes(s, ch):
    assert ch.unary_unary("/tensorflow.ProfilerService/Monitor")(b"hello", timeout=60) == b"hello"
    assert list(ch.unary_stream("/test.Test/Three")(b"x", timeout=60)) == [b"x"] * 3
    assert ch.stream_unary("/test.Test/Count")(iter([b"12345"] * 100), timeout=60) == b"500"
    assert ch.stream_unary("/test.Test/Count")(iter([]), timeout=60) == b"0"
    sent = [str(i).encode() for i in range(100)]
    assert list(ch.stream_stream("/tutti.v1.Control/Connect")(iter(sent), timeout=60)) == sent


def test_big_unary(s, ch):
    big = os.urandom(1 << 20) * 16  # a server's quota is 24 MiB: core may end what exceeds it
    assert ch.unary_unary("/tensorflow.ProfilerService/Monitor")(big, timeout=120) == big


def test_too_big(s, ch):
    too_big = bytes((65 << 20) + 1)
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, ch.unary_unary("/tensorflow.ProfilerService/Monitor"), too_big)
    text = fails(grpc.StatusCode.RESOURCE_EXHAUSTED, ch.unary_unary("/test.Test/Small"), bytes(1001))
    assert text == "message of 1001 bytes, limit 1000", text
    assert ch.unary_unary("/test.Test/Small")(bytes(1000), timeout=60) == bytes(1000)


def test_errors(s, ch):
    text = fails(grpc.StatusCode.FAILED_PRECONDITION, ch.unary_unary("/test.Test/Fail"), b"")
    assert text == "kein Schnee \u2603 heute, 100%", text
    text = fails(grpc.StatusCode.UNIMPLEMENTED, ch.unary_unary("/no.such.Service/Method"), b"")
    assert text == "no such method: /no.such.Service/Method", text
    fails(grpc.StatusCode.UNIMPLEMENTED, ch.stream_unary("/test.Test/Nothing"), iter([b"x"] * 3))


def test_compressed(s, ch):
    """A small compressed message may be a huge one: none is taken."""
    with grpc.insecure_channel(s.address, compression=grpc.Compression.Gzip) as gz:
        fails(grpc.StatusCode.UNIMPLEMENTED, gz.unary_unary("/test.Test/Small"), bytes(900))


def lines_of_deadline(seconds):
    """What a new server says of a call that its client gives up after so long; None if that was too short for it to see the whole call."""
    with Server() as s, grpc.insecure_channel(s.address) as ch:
        fails(grpc.StatusCode.DEADLINE_EXCEEDED, ch.unary_unary("/test.Test/Hang"), b"", timeout=seconds)
        try:
            said = s.line(5)
            return (said, s.line(5)) if said == "half-closed\n" else None
        except AssertionError:
            return None


def test_deadline(s, ch):
    said = next(filter(None, map(lines_of_deadline, (0.2, 2, 10))), None)
    assert said == ("half-closed\n", "closed cancelled\n"), said


def test_client_leaves(s, ch):
    """A stream that was lost ends as cancelled, and not half-closed first: that would be a stream that was complete."""
    script = f"""if True:
        import grpc, threading
        def forever():
            yield b"x"
            print("up", flush=True)
            threading.Event().wait()
        list(grpc.insecure_channel("{s.address}").stream_stream("/test.Test/Hang")(forever()))
        """
    for _ in range(3):
        p = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        assert read_line(p.stdout) == "up\n"
        s.wait_open()
        p.kill()
        p.communicate(timeout=20)
        assert s.line() == "closed cancelled\n"


def test_health(s, ch):
    health = health_pb2_grpc.HealthStub(ch)
    for name in ("", "tensorflow.ProfilerService", "grpc.health.v1.Health"):
        assert health.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status == SERVING
    fails(grpc.StatusCode.NOT_FOUND, health.Check, health_pb2.HealthCheckRequest(service="tensorflow.Profiler"))
    fails(grpc.StatusCode.INVALID_ARGUMENT, ch.unary_unary("/grpc.health.v1.Health/Check"), b"\xff\xff\xff")
    watch = health.Watch(health_pb2.HealthCheckRequest(service=""), timeout=60)
    strange = health.Watch(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=60)
    assert next(watch).status == SERVING and next(strange).status == SERVICE_UNKNOWN
    s.serving(False)
    assert next(watch).status == NOT_SERVING
    assert health.Check(health_pb2.HealthCheckRequest(service=""), timeout=60).status == NOT_SERVING
    s.serving(True)
    assert next(watch).status == SERVING
    watch.cancel()
    strange.cancel()


def test_reflection(s, ch):
    db = ProtoReflectionDescriptorDatabase(ch)
    names = set(db.get_services())
    assert names == {"tensorflow.ProfilerService", "tutti.v1.Control", "test.Test", "grpc.health.v1.Health",
                     "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}, names
    pool = descriptor_pool.DescriptorPool(db)
    service = pool.FindServiceByName("tensorflow.ProfilerService")
    assert {"Profile", "Monitor", "Terminate"} <= set(service.methods_by_name)
    request = service.methods_by_name["Profile"].input_type
    assert request.fields_by_name["emit_xspace"].number == 9
    assert pool.FindServiceByName("tutti.v1.Control").methods_by_name["Connect"]
    assert pool.FindServiceByName("grpc.reflection.v1.ServerReflection").methods_by_name["ServerReflectionInfo"]
    assert pool.FindMessageTypeByName("grpc.health.v1.HealthCheckResponse")
    assert pool.FindEnumTypeByName("grpc.health.v1.HealthCheckResponse.ServingStatus")


def test_reflection_by_hand(s, ch):
    def ask(path, **kw):
        call = ch.stream_stream(path, request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
                                response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
        (answer,) = call(iter([reflection_pb2.ServerReflectionRequest(host="h", **kw)]), timeout=60)
        return answer

    for version in ("v1", "v1alpha"):
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        assert len(ask(path, list_services="*").list_services_response.service) == 6
        answer = ask(path, file_by_filename="tensorflow/profiler_service.proto")
        assert answer.valid_host == "h" and answer.original_request.file_by_filename
        assert len(answer.file_descriptor_response.file_descriptor_proto) >= 3  # with what it imports
        for symbol in ("tensorflow.ProfilerService.Profile", "tensorflow.ProfileRequest", "tutti.v1.AgentMessage.hello"):
            assert ask(path, file_containing_symbol=symbol).file_descriptor_response.file_descriptor_proto, symbol
        for symbol in ("tensorflow.Profil", "tensorflow", "", "tensorflow.ProfileRequest.", "tensorflow..ProfileRequest"):
            assert ask(path, file_containing_symbol=symbol).error_response.error_code == 5, symbol
        assert ask(path, file_by_filename="/etc/passwd").error_response.error_code == 5
        assert ask(path, all_extension_numbers_of_type="x").error_response.error_code == 5
        fails(grpc.StatusCode.INVALID_ARGUMENT, lambda data, timeout: list(ch.stream_stream(path)(data, timeout=timeout)),
              iter([b"\xff\xff"]))


def test_garbage(s, ch):
    host, port = s.address.split(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for data in (b"", b"\x00", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), preface, preface + os.urandom(4096),
                 preface + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(100)):
        with socket.create_connection((host, int(port)), 20 * SLOW) as c:
            try:
                c.sendall(data)
                c.shutdown(socket.SHUT_WR)
                while c.recv(4096):
                    pass
            except OSError:
                pass
    assert ch.unary_unary("/tensorflow.ProfilerService/Monitor")(b"still", timeout=60) == b"still"


def main():
    tests = [t for name, t in globals().items() if name.startswith("test_")]
    for t in tests:
        with Server() as s, grpc.insecure_channel(s.address, options=BIG) as ch:
            t(s, ch)
        print("ok", t.__name__)


if __name__ == "__main__":
    main()
