# SPDX-License-Identifier: Apache-2.0
"""A stock Python gRPC client sees health, reflection, Monitor, and UNIMPLEMENTED at once, on both daemons."""
import os
import signal
import socket
import threading
import time

from lib import xspace
from lib.cluster import SLOW, Cluster, SkipTest, free_port, main, wait_until
from lib.waits import join, read_line, wait4

try:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
except ImportError:
    grpc = None


def check_server(address, service):
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        assert health.Check(health_pb2.HealthCheckRequest(service=""), timeout=10).status == 1
        assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status == 1
        names = ProtoReflectionDescriptorDatabase(channel).get_services()
        assert {service, "grpc.health.v1.Health"} <= set(names), names
        try:
            channel.unary_unary("/no.such.Service/Method")(b"", timeout=30)
            raise AssertionError("an unregistered method was answered")
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.UNIMPLEMENTED, e
        return names


def profile(address, **opts):
    request = xspace.message_class("tensorflow/profiler_service.proto", "tensorflow.ProfileRequest")()
    request.session_id = opts.pop("session", "by-hand")
    request.emit_xspace = opts.pop("emit_xspace", False)
    request.duration_ms = opts.pop("request_duration_ms", 0)
    for key, value in {"host_tracer_level": 2, **opts}.items():  # as stock clients have it
        setattr(request.opts, key, value)
    response = xspace.message_class("tensorflow/profiler_service.proto", "tensorflow.ProfileResponse")()
    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        call = channel.unary_unary("/tensorflow.ProfilerService/Profile")
        response.ParseFromString(call(request.SerializeToString(), timeout=60))
    return response


def test_token():
    """With a token, Profile needs it in its metadata."""
    if not grpc:
        raise SkipTest("grpcio is not installed")
    with Cluster() as c:
        (c.dir / "token").write_text("correct-horse-battery\n")
        (c.dir / "token").chmod(0o600)
        c.aggregator("--token-file", c.dir / "token")
        c.agent("host-a")
        c.wait_hosts(1)
        request = xspace.message_class("tensorflow/profiler_service.proto", "tensorflow.ProfileRequest")(duration_ms=100)
        with grpc.insecure_channel(f"127.0.0.1:{c.grpc}", options=[("grpc.max_receive_message_length", -1)]) as channel:
            call = channel.unary_unary("/tensorflow.ProfilerService/Profile")
            for metadata in ([], [("authorization", "Bearer incorrect-horse")]):
                try:
                    call(request.SerializeToString(), timeout=30, metadata=metadata)
                    raise AssertionError("a capture without the token")
                except grpc.RpcError as e:
                    assert e.code() == grpc.StatusCode.UNAUTHENTICATED, e
            assert call(request.SerializeToString(), timeout=60, metadata=[("authorization", "Bearer correct-horse-battery")])


def test_other_user():
    """The samples of an agent that runs as root are not for a user without rights."""
    if not grpc:
        raise SkipTest("grpcio is not installed")
    if os.geteuid() != 0:
        return  # no other user can be had
    with Cluster() as c:
        port = free_port()
        c.aggregator()
        c.agent("host-a", "--listen", f"127.0.0.1:{port}", tracers="cpu,metrics")
        c.wait_hosts(1)
        assert profile(f"127.0.0.1:{port}", version=1, duration_ms=100, emit_xspace=True).xspace.ByteSize()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            relay_as_user(65534, port, writing)
        with open(reading, "rb") as said:
            own = int(read_line(said))
        try:
            profile(f"127.0.0.1:{own}", version=1, duration_ms=100)
            raise AssertionError("another user was given samples")
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.PERMISSION_DENIED, e
            assert "65534" in e.details(), e
        finally:
            os.kill(child, signal.SIGKILL)
            wait4(child)


def relay_as_user(uid, port, ready):
    """In a child: passes one connection on, over a socket of that user. Does not return."""
    os.setuid(uid)
    listener = socket.create_server(("127.0.0.1", 0))
    os.write(ready, b"%d\n" % listener.getsockname()[1])
    listener.settimeout(20 * SLOW)
    a, _ = listener.accept()
    b = socket.create_connection(("127.0.0.1", port), 20 * SLOW)
    a.settimeout(60 * SLOW)
    b.settimeout(60 * SLOW)

    def copy(source, to):
        while data := source.recv(65536):
            to.sendall(data)
    threading.Thread(target=copy, args=(a, b), daemon=True).start()
    copy(b, a)
    os._exit(0)


def test_stock_clients():
    if not grpc:
        raise SkipTest("grpcio is not installed")
    with Cluster() as c:
        c.aggregator()
        port = free_port()
        c.agent("host-a", "--listen", f"127.0.0.1:{port}", tracers="cpu,metrics,marks")
        c.wait_hosts(1)
        c.burst("host-a")
        print("    ", check_server(f"127.0.0.1:{c.grpc}", "tensorflow.ProfilerService"))
        print("    ", check_server(f"127.0.0.1:{port}", "tensorflow.ProfilerService"))
        cluster = profile(f"127.0.0.1:{c.grpc}", version=1, duration_ms=500)
        assert not cluster.empty_trace and [t.name for t in cluster.tool_data] == ["host-a.xplane.pb"]
        direct = profile(f"127.0.0.1:{port}", version=1, duration_ms=500)
        assert not direct.empty_trace and [t.name for t in direct.tool_data] == ["xplane.pb"]
        assert profile(f"127.0.0.1:{port}", version=1, host_tracer_level=0, duration_ms=500).empty_trace
        for address in (f"127.0.0.1:{c.grpc}", f"127.0.0.1:{port}"):
            check_request(address)
        try:
            profile(f"127.0.0.1:{port}", version=1)
            raise AssertionError("a duration of 0 was accepted")
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and "duration_ms" in e.details(), e
        assert "NET-UNIDENTIFIED" not in c.logs_text()


def check_request(address):
    """The aggregator and an agent understand a request alike. The window has one of the bursts, which begin each half second."""
    start = (time.time_ns() // 500_000_000 + 4) * 500_000_000 - 100_000_000
    answer = profile(address, session="other", version=1, request_duration_ms=300, start_timestamp_ns=start, emit_xspace=True)
    assert not answer.tool_data and any(p.name == "/host:CPU" and p.lines for p in answer.xspace.planes), address
    env = xspace.stats(xspace.plane(answer.xspace, "Task Environment"))
    assert abs(env["profile_start_time"] - start) < 5e6, (address, env["profile_start_time"] - start)
    assert env["profile_stop_time"] - env["profile_start_time"] == 300_000_000, address
    assert list(answer.xspace.hostnames) == ["host-a"], address


def terminate(address, session):
    request = xspace.message_class("tensorflow/profiler_service.proto", "tensorflow.TerminateRequest")()
    request.session_id = session
    with grpc.insecure_channel(address) as channel:
        channel.unary_unary("/tensorflow.ProfilerService/Terminate")(request.SerializeToString(), timeout=20 * SLOW)


def profile_until_killed(address):
    try:
        profile(address, version=1, duration_ms=50000)
    except grpc.RpcError:
        pass


def test_killed_after_terminate():
    """Terminate is answered when the end of the window survives whatever becomes of the aggregator."""
    if not grpc:
        raise SkipTest("grpcio is not installed")
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--reconnect-max", "300ms")
        c.wait_hosts(1)
        client = threading.Thread(target=profile_until_killed, args=(f"127.0.0.1:{c.grpc}",), daemon=True)
        client.start()
        wait_until("the capture to run", lambda: any(
            h["state"] == "running" for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        terminate(f"127.0.0.1:{c.grpc}", "by-hand")
        c.kill("aggregator")
        join(client)
        c.aggregator()
        session = wait_until("the session", lambda: c.get("/api/v1/sessions")["sessions"], 60)[0]
        assert session["complete"] == 1 and session["duration_ns"] < 40e9, session


main(test_token, test_other_user, test_stock_clients, test_killed_after_terminate)
