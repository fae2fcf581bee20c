# SPDX-License-Identifier: Apache-2.0
"""Another port than the one that was meant, TLS where none is spoken, and the other way round: what the command line, agents and `tutti doctor`
say of it."""
import socket

from doctor_test import doctor, expect
from lib.certs import make_ca, make_cert, tls_flags
from lib.cluster import BIN, Cluster, free_port, main, wait_until


class Two:
    """The cluster's aggregator, in plaintext, and one more, with TLS."""

    def __init__(self, c):
        self.c = c
        make_ca(c.dir, "ca")
        make_cert(c.dir, "ca", "aggregator")
        make_cert(c.dir, "ca", "host")
        c.aggregator()
        self.http, self.grpc = free_port(), free_port()
        c.start("tls", [BIN / "tutti-aggregator", "--store", "mem://", "--spool", c.dir / "tls-spool", "--http", f"127.0.0.1:{self.http}",
                        "--grpc", f"127.0.0.1:{self.grpc}", "--probe", "127.0.0.1:0", *tls_flags(c.dir, "aggregator")])
        wait_until("the aggregator with TLS", lambda: "AGG-UP" in c.log("tls"))


def test_command_line():
    with Cluster() as c:
        two, trust = Two(c), ("--ca", c.dir / "ca.crt")
        cases = [
            (f"http://127.0.0.1:{c.grpc}", (), "is that the port for gRPC? The aggregator's --http is 7400"),
            (f"https://127.0.0.1:{two.grpc}", trust, "--http is 7400 unless it was changed|the port of its --http, 7400 unless it was changed"),
            (f"https://127.0.0.1:{c.http}", (), "if none is spoken there, use http://|If no TLS is spoken there, use http://"),
            (f"http://127.0.0.1:{two.http}", (), "if TLS is spoken there, use https://"),
            (f"https://127.0.0.1:{two.http}", (), "its certificate is not trusted"),
            (f"http://127.0.0.1:{free_port()}", (), "no server listens there"),
        ]
        for url, flags, hint in cases:
            code, _ = c.tutti("hosts", "--server", url, *flags)
            assert code == 1 and any(h in c.stderr for h in hint.split("|")), (url, c.stderr)
        assert c.tutti("hosts", "--server", f"https://127.0.0.1:{two.http}", *trust)[0] == 0, c.stderr


def test_agents():
    with Cluster() as c:
        two, tls = Two(c), tls_flags(c.dir, "host")
        cases = {
            "a": (c.http, (), "that port is for HTTP: name the one of the aggregator's --grpc, 7401"),
            "b": (two.http, tls, "that port is for HTTP: name the one of the aggregator's --grpc, 7401"),
            "c": (c.grpc, tls, "no TLS is spoken there, and this agent has --ca"),
            "d": (two.grpc, (), "if TLS is spoken there, this agent needs --ca"),
        }
        for host, (port, flags, _) in cases.items():
            c.agent(host, "--aggregator", f"127.0.0.1:{port}", *flags, tracers="marks")
        for host, (_, _, hint) in cases.items():
            wait_until(f"what {host} says", lambda: f'reason="unavailable: {hint}' in c.log(host))


def test_doctor():
    with Cluster() as c:
        two = Two(c)
        base = ("--local-socket", "", "--server")
        expect("TLS, and http:// named", doctor(*base, f"http://127.0.0.1:{two.http}")[0], "aggregator.http", "use https://: TLS is spoken there", only=False)
        expect("http, and https:// named", doctor(*base, f"https://127.0.0.1:{c.http}")[0], "aggregator.http", "use http:// if", only=False)
        expect("an authority that is not known", doctor(*base, f"https://127.0.0.1:{two.http}")[0], "aggregator.http", "--ca FILE", only=False)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            expect("a port that says nothing", doctor(*base, f"http://127.0.0.1:{silent.getsockname()[1]}")[0], "aggregator.http", "let TCP pass", only=False)
        well = doctor(*base, f"https://127.0.0.1:{two.http}", "--ca", c.dir / "ca.crt")[0]
        assert well["aggregator.http"]["verdict"] == well["aggregator.access"]["verdict"] == "ok", well


if __name__ == "__main__":
    main(test_command_line, test_agents, test_doctor)
