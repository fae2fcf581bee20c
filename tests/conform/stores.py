# SPDX-License-Identifier: Apache-2.0
"""The table of tests/stores.sh: stores.py FOLDER_OF_PROGRAMS [STORE...]."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import fake_s3  # noqa: E402
from ceph import Ceph, actions_of, documented_policy  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from servers import ACCOUNT_KEY, Azurite, FakeGcs, Versitygw  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).resolve().parent
FAULTS = {29: "503", 31: "lost", 37: "reset", 41: "500", 43: "cut"}
CLOUDS = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "STORAGE_")
CASES = ["suite", "keys", "writers", "wrong secret", "clock skew", "tokens", "policy", "503 storm", "broken off", "10 s slow", "full disk", "grants"]
SECRETS = [fake_s3.KEYS["AKIDTEST"][0], ACCOUNT_KEY]


class Failed(Exception):
    pass


def run(program, *args, timeout=600, **env):
    """The output of a program that succeeds. It finds no keys below its HOME; tests/servers.sh, which it may call, knows its folder."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(CLOUDS)}
    clean.setdefault("TUTTI_SERVERS", os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tutti-servers"))
    command = [PROGRAMS / f"conform_store_{program}", *args] if program in ("cloud", "failures") else program
    p = subprocess.run(command, env={**clean, "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", "TUTTI_TEST_LIMIT_S": str(timeout), **env},
                       capture_output=True, text=True, timeout=timeout)
    output = p.stdout + p.stderr
    if p.returncode:
        raise Failed(output.strip()[-600:])
    if any(secret in output for secret in SECRETS):
        raise Failed("a secret in the output")
    return output.strip()


def store_check(url, env):
    """What `tutti store check` finds wrong."""
    p = subprocess.run([PROGRAMS.parent / "bin/tutti", "store", "check", url], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    return "\n".join(line for line in p.stdout.splitlines() if line.startswith("FAIL")) or p.stderr


class Store:
    """One row: `url` and `env` as tutti takes them; a server behind HTTP has an `endpoint`."""

    def __init__(self, url, env=None, endpoint=None, wrong=None, small=None, skew=None, tokens=None, policy=None):
        self.url, self.env, self.endpoint = url, env or {}, endpoint
        self.wrong = wrong  # (environment with a wrong secret, what the error must have)
        self.small = small  # a context that gives (url, env, MiB) of the same store with little room
        self.skew, self.tokens, self.policy = skew, tokens, policy  # run the case

    def through(self, proxy):
        swap = lambda text: text.replace(self.endpoint, proxy.endpoint)
        return swap(self.url), {k: swap(v) for k, v in self.env.items()}

    def case(self, name):
        return getattr(self, "case_" + name.replace(" ", "_").replace("10_s_", "").replace("503_", ""))()

    def case_suite(self):
        run("cloud", "suite", self.url, **self.env)

    def case_keys(self):
        run("failures", "keys", self.url, **self.env)

    def case_writers(self):
        run("failures", "writers", self.url, **self.env)

    def case_wrong_secret(self):
        if not self.wrong:
            return "-"
        env, text = self.wrong
        run("cloud", "refused", self.url, text, timeout=30, **{**self.env, **env})

    def case_clock_skew(self):
        return self.skew() if self.skew else "-"

    def case_tokens(self):
        return self.tokens() if self.tokens else "-"

    def case_policy(self):
        return self.policy() if self.policy else "-"

    def case_storm(self):
        if not self.endpoint:
            return "-"
        with FaultProxy(self.endpoint, storm_s=0.6, calm_s=1.5) as proxy:
            url, env = self.through(proxy)
            run("cloud", "for", url, "8000", **env)
            if proxy.hit.get("503", 0) < 4:
                raise Failed(f"no storm: {proxy.hit}")

    def case_broken_off(self):
        if not self.endpoint:
            return "-"
        with FaultProxy(self.endpoint, FAULTS) as proxy:
            proxy.no_reset = "version"
            url, env = self.through(proxy)
            run("cloud", "suite", url, **env)

    def case_slow(self):
        if not self.endpoint:
            return "-"
        with FaultProxy(self.endpoint, {1: "slow"}, slow_s=10) as proxy:
            url, env = self.through(proxy)
            run("failures", "slow", url, timeout=200, **env)
        time.sleep(0.1)

    def case_grants(self):
        """S3's statuses are the same everywhere; the others' are not."""
        if self.url.startswith("s3:"):
            run("cloud", "grants", self.url, **self.env)
        elif self.endpoint:
            run("cloud", "once", self.url, **self.env)
        else:
            return "-"

    def case_full_disk(self):
        if not self.small:
            return "-"
        with self.small() as (url, env, most):
            return "ok (" + run("failures", "full", url, str(most), **env).splitlines()[0].split(":")[0] + ")"


@contextlib.contextmanager
def small_folder(mib):
    """A file system of so many MiB; needs root."""
    with tempfile.TemporaryDirectory(prefix="tutti-full-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder], check=True, timeout=60)
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True, timeout=60)


# ---- the stores ----

@contextlib.contextmanager
def file_store():
    @contextlib.contextmanager
    def small():
        with small_folder(8) as folder:
            yield f"file://{folder}/store", {}, 32
    with tempfile.TemporaryDirectory() as folder:
        yield Store(f"file://{folder}/store", small=small)


@contextlib.contextmanager
def mem_store():
    yield Store("mem://stores")


@contextlib.contextmanager
def fault_store():
    yield Store("fault:///nonexistent!mem://stores")


@contextlib.contextmanager
def fake_s3_store():
    with fake_s3.FakeS3() as server:
        def skew():
            server.skew_s = 7200
            run("cloud", "own", server.url("bucket/my/prefix"), **fake_s3.env())
            server.skew_s = 0

        @contextlib.contextmanager
        def small():
            server.quota = 8 << 20
            yield server.url(), fake_s3.env(), 32
            server.quota = 1 << 40
        yield Store(server.url(), fake_s3.env(), server.endpoint, ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"), small, skew,
                    lambda: run(["python3", HERE / "store_s3_keys.py", PROGRAMS / "conform_store_cloud"]) and None)


@contextlib.contextmanager
def versitygw_store():
    @contextlib.contextmanager
    def small():
        with small_folder(16) as folder, Versitygw(folder) as server:
            yield server.url(), server.env, 64
    with Versitygw() as server:
        yield Store(server.url(), server.env, server.endpoint, ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"), small)


@contextlib.contextmanager
def azurite_store():
    with Azurite() as server:
        yield Store(server.url(), server.env, server.endpoint, ({"AZURE_STORAGE_KEY": "A" * 86 + "=="}, "AuthorizationFailure"),
                    tokens=lambda: run(["python3", HERE / "store_az_keys.py", PROGRAMS / "conform_store_cloud"]) and None)


@contextlib.contextmanager
def gcs_store():
    with FakeGcs() as server:
        yield Store(server.url(), server.env, server.endpoint, tokens=lambda: run(["python3", HERE / "store_gs_keys.py", PROGRAMS / "conform_store_cloud"]) and None)


@contextlib.contextmanager
def ceph_store():
    with Ceph() as server:
        @contextlib.contextmanager
        def small():
            with server.quota(8 << 20):
                yield server.url(), server.env, 32

        def tokens():
            inside, outside = server.role_env("inside"), server.url("outside")
            run("cloud", "own", server.url("inside/prefix"), **inside)
            run("cloud", "refused", outside, "403", **inside)
            run("cloud", "refused", server.url("inside"), "403", **{**inside, "AWS_SESSION_TOKEN": "changed"})

        def policy():
            """What docs/storage.md calls the least that the keys must be allowed is enough, and each action of it is needed."""
            server.make_bucket("policy")  # of its own: some keys may not remove what they have put
            for action in [a for s in documented_policy()["Statement"] for a in actions_of(s)]:
                refused = store_check(server.url("fleet", "policy"), server.role_env("fleet", "policy", action))
                if "answers 403" not in refused:
                    raise Failed(f"without {action}: {refused}")
            if refused := store_check(server.url("fleet", "policy"), server.role_env("fleet", "policy")):
                raise Failed(refused)
        yield Store(server.url(), server.env, server.endpoint, ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "answers 403"), small, tokens=tokens, policy=policy)


STORES = {"file": file_store, "mem": mem_store, "fault": fault_store, "fake-s3": fake_s3_store, "versitygw": versitygw_store, "azurite": azurite_store,
          "gcs": gcs_store, "ceph": ceph_store}
failed = []
print(f"{'store':10}" + "".join(f"{case:15}" for case in CASES), flush=True)
for name in sys.argv[2:] or STORES:
    print(f"{name:10}", end="", flush=True)
    with STORES[name]() as store:
        for case in CASES:
            start = time.monotonic()
            try:
                result = store.case(case) or "ok"
            except (Failed, OSError, subprocess.SubprocessError) as why:
                result = "FAIL"
                failed.append(f"{name}, {case}: {why}")
            print(f"{result if result in ('-', 'FAIL') else f'{result} {time.monotonic() - start:.0f} s':15}", end="", flush=True)
    print(flush=True)
for why in failed:
    print(f"\nFAIL {why}")
sys.exit(1 if failed else 0)
