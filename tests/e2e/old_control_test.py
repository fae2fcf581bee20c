# SPDX-License-Identifier: Apache-2.0
"""What agents and aggregators of earlier releases said to each other (tests/data/control-*.json, of tests/data/make_control.py) is understood
today: the tape plays the agent to today's aggregator, and the aggregator to today's agent. e2e/old_agent does it with real programs."""
import base64
import concurrent.futures
import functools
import json
import pathlib
import queue
import time

import grpc

from lib import xspace
from lib.cluster import SLOW, Cluster, free_port, main, wait_until

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CONTROL, INGEST = "/tutti.v1.Control/Connect", "/tutti.v1.Ingest/Upload"
AgentMessage = xspace.message_class("tutti/v1/control.proto", "tutti.v1.AgentMessage")
AggregatorMessage = xspace.message_class("tutti/v1/control.proto", "tutti.v1.AggregatorMessage")
UploadReply = xspace.message_class("tutti/v1/ingest.proto", "tutti.v1.UploadReply")
UploadMessage = xspace.message_class("tutti/v1/ingest.proto", "tutti.v1.UploadMessage")


class Tape:
    """The messages of a release; `session` is the capture that is played again."""

    def __init__(self, file):
        doc = json.loads(file.read_text())
        self.release, self.session = doc["release"], doc["session"].encode()
        self.messages = [(m["method"], m["from"], base64.b64decode(m["message"])) for m in doc["messages"]]

    def control(self, sender, kind):
        """The messages of this kind, as they were sent."""
        cls = AgentMessage if sender == "agent" else AggregatorMessage
        return [b for method, who, b in self.messages if (method, who) == (CONTROL, sender) and cls.FromString(b).WhichOneof("kind") == kind]

    def of_capture(self, sender, kind):
        return [b for b in self.control(sender, kind) if self.session in b]

    def upload(self):
        """Of the capture: how it was announced, and the chunks behind that."""
        sent = [b for method, who, b in self.messages if (method, who) == (INGEST, "agent")]
        first = next(i for i, b in enumerate(sent) if self.session in b and UploadMessage.FromString(b).HasField("begin"))
        chunks = []
        for b in sent[first + 1:]:
            if UploadMessage.FromString(b).HasField("begin"):
                break
            chunks.append(b)
        return sent[first], chunks


def each_release(test):
    def run():
        files = sorted(DATA.glob("control-*.json"))
        assert files, f"no tape of a release in {DATA}"
        for file in files:
            tape = Tape(file)
            print(f"     {tape.release}: {len(tape.messages)} messages", flush=True)
            with Cluster() as c:
                test(c, tape)
    run.__name__ = test.__name__
    return run


class Agent:
    """The agent of the tape: one capture, then all else that it said."""

    def __init__(self, c, tape):
        self.tape, self.out, self.seen, self.session = tape, queue.Queue(), [], b""
        self.channel = grpc.insecure_channel(f"127.0.0.1:{c.grpc}")
        self.hello = AgentMessage.FromString(tape.control("agent", "hello")[0]).hello
        self.out.put(tape.control("agent", "hello")[0])
        self.call = self.channel.stream_stream(CONTROL)(iter(self.out.get, None))
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.reading = self.worker.submit(self.read)

    def say(self, *messages):
        for m in messages:
            self.out.put(m.replace(self.tape.session, self.session) if self.session else m)

    def read(self):
        """Until the link ends: answers as the tape did."""
        for b in self.call:
            m = AggregatorMessage.FromString(b)
            kind = m.WhichOneof("kind")
            self.seen.append((kind, m))
            if kind == "arm" and not self.session:
                self.session, self.t0_ns = m.arm.session.encode(), m.arm.t0_ns
                self.say(*self.tape.of_capture("agent", "armed"))
                time.sleep(max(0, (m.arm.t0_ns + m.arm.duration_ns) / 1e9 - time.time()))
                self.say(*self.tape.of_capture("agent", "progress"))
            elif kind == "upload":
                self.upload()
                result = AgentMessage.FromString(self.tape.of_capture("agent", "result")[0])
                result.result.t0_ns = self.t0_ns
                self.say(result.SerializeToString())

    def upload(self):
        begin, chunks = self.tape.upload()
        replies = list(self.channel.stream_stream(INGEST)(iter([begin.replace(self.tape.session, self.session), *chunks]), timeout=20 * SLOW))
        assert replies, "the upload was not answered"

    def wait(self, kind, n=1):
        def there():
            if self.reading.done():
                raise AssertionError(f"the link ended: {self.call.code()} {self.call.details()}")
            return sum(k == kind for k, _ in self.seen) >= n
        wait_until(f"{n} x {kind} from the aggregator", there)
        return [m for k, m in self.seen if k == kind][n - 1]


@each_release
def test_agent(c, tape):
    c.aggregator()
    agent = Agent(c, tape)
    agent.wait("welcome")
    agent.say(*tape.control("agent", "status"))
    wait_until("its clock", lambda: c.hosts().get("host-a", {}).get("clock", {}).get("calibrated"))
    host = c.hosts()["host-a"]
    assert (host["version"], host["labels"]) == (agent.hello.version, dict(agent.hello.labels)), host
    assert {t["name"] for t in host["tracers"]} == {t.name for t in agent.hello.tracers}, host
    settings = {s["name"] for s in c.get("/api/v1/settings")["settings"]}
    assert {f"{s.tracer}.{s.name}" for s in agent.hello.settings} <= settings, settings
    _, doc = c.tutti("capture", "--duration", "300ms", "--hosts", "rack=12", "--set", "metrics.max_hz=5", "--json", check=0)
    result = AgentMessage.FromString(tape.of_capture("agent", "result")[0]).result
    [h] = doc["hosts"]
    assert (h["state"], h["events"], h["bytes"], h["clock_bound_ns"]) == ("complete", result.events, result.bytes, result.clock.bound_ns), (h, result)
    assert [f"{crc:08x}" for crc in result.crc32c] == h["crc32c"], (h, result)
    agent.wait("release")
    # all else that it said costs it nothing: steps, requests of its local programs
    agent.say(*tape.control("agent", "steps"))
    wait_until("its steps", lambda: c.hosts()["host-a"].get("steps"))
    start, stop = tape.control("agent", "ask")
    agent.say(start)
    answer = agent.wait("answer").answer
    assert answer.ok and answer.session, answer
    asked = AgentMessage.FromString(stop)
    asked.ask.session = answer.session
    agent.say(asked.SerializeToString())
    assert agent.wait("answer", 2).answer.ok
    agent.say(*tape.control("agent", "disconnect"))
    wait_until("it to be gone", lambda: c.hosts().get("host-a", {}).get("state") != "connected")
    agent.out.put(None)
    agent.reading.result(20 * SLOW)
    assert "bad message" not in c.log("aggregator") and "AGG-PEER" not in c.log("aggregator"), c.log("aggregator")


class Aggregator(grpc.GenericRpcHandler):
    """The aggregator of the tape, for one agent and one capture."""

    def __init__(self, tape, session):
        self.tape, self.session, self.said, self.out, self.files, self.times = tape, session, [], queue.Queue(), {}, None

    def service(self, details):
        return grpc.stream_stream_rpc_method_handler({CONTROL: self.control, INGEST: self.ingest}[details.method])

    def control(self, requests, context):
        hello = AgentMessage.FromString(next(requests))
        self.said.append(hello)
        context.add_callback(functools.partial(self.out.put, None))
        reader = concurrent.futures.ThreadPoolExecutor(1)
        reader.submit(lambda: self.said.extend(map(AgentMessage.FromString, requests)))
        yield self.tape.control("aggregator", "welcome")[0]
        yield from iter(self.out.get, None)

    def ingest(self, requests, _):
        begin = UploadMessage.FromString(next(requests)).begin
        assert begin.session.encode() == self.session, begin
        reply = UploadReply.FromString(next(b for method, who, b in self.tape.messages if (method, who) == (INGEST, "aggregator")))
        if begin.resume:
            yield b""
        data = b""
        while len(data) < begin.bytes:
            data += UploadMessage.FromString(next(requests)).chunk.data
        self.files[begin.session] = data
        reply.bytes = len(data)
        yield reply.SerializeToString()

    def say(self, kind, **members):
        """The capture's message of this kind, with another session and other times."""
        [b] = self.tape.of_capture("aggregator", kind)
        message = AggregatorMessage.FromString(b.replace(self.tape.session, self.session))
        for name, value in members.items():
            setattr(getattr(message, kind), name, value)
        self.out.put(message.SerializeToString())

    def wait(self, kind, condition=lambda _: True):
        def there():
            return [getattr(m, kind) for m in self.said if m.WhichOneof("kind") == kind and condition(getattr(m, kind))]
        return wait_until(f"{kind} from the agent", there)[0]


@each_release
def test_aggregator(c, tape):
    fake = Aggregator(tape, b"2026_01_01_00_00_00_aaaaaa")
    assert len(fake.session) == len(tape.session)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), handlers=[fake])
    c.grpc = free_port()
    server.add_insecure_port(f"127.0.0.1:{c.grpc}")
    server.start()
    c.closing.append(lambda: server.stop(1).wait(20))
    c.agent("host-a", "--tracers", "metrics,marks")
    hello = fake.wait("hello")
    assert hello.host == "host-a" and {t.name for t in hello.tracers} == {"metrics", "marks"}, hello
    fake.wait("status")
    for m in tape.control("aggregator", "step_watch"):
        fake.out.put(m)
    t0 = time.time_ns() + int(SLOW * 5e8)
    fake.say("arm", t0_ns=t0, upload_deadline_ns=t0 + 60 * 10**9, gather_by_ns=t0 + 30 * 10**9)
    fake.wait("armed")
    fake.wait("progress", lambda p: p.state == "uploading")
    fake.say("upload", deadline_ns=t0 + 60 * 10**9)
    result = fake.wait("result")
    assert result.has_file and result.t0_ns == t0 and result.reason in ("", "uncalibrated"), result
    data = fake.files[fake.session.decode()]
    assert len(data) == result.bytes and sum(result.files) == result.bytes, result
    (c.dir / "got.xplane.pb").write_bytes(data)
    assert {"/host:CPU metrics", "Task Environment"} <= {p.name for p in xspace.load(c.dir / "got.xplane.pb").planes}
    fake.say("release")
    wait_until("an empty spool", lambda: not list((c.dir / "host-a-spool").glob("*/entry")))
    c.kill("host-a", 15)
    fake.wait("disconnect")


main(test_agent, test_aggregator)
