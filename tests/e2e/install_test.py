# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` lays out: programs that find each other, units, settings that load, manual pages and completion
that name what --help names. tests/packages.sh installs the Debian packages that are made of the same."""
import gzip
import re
import shutil
import subprocess

from lib.cluster import BIN, temp_dir

AGENT_CAPABILITIES = {"CAP_PERFMON", "CAP_BPF", "CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_DAC_READ_SEARCH"}
FILES = {
    "agent": {"etc/tutti/agent.conf", "usr/bin/tutti-agent", "usr/lib/tutti/tutti-agent",
              "usr/lib/systemd/system/tutti-agent.service", "usr/share/man/man8/tutti-agent.8", "usr/share/tutti/slurm/prolog.sh"},
    "aggregator": {"etc/tutti/aggregator.conf", "usr/bin/tutti-aggregator", "usr/lib/tutti/tutti-aggregator",
                   "usr/lib/systemd/system/tutti-aggregator.service", "usr/share/man/man8/tutti-aggregator.8"},
    "cli": {"usr/bin/tutti", "usr/lib/tutti/tutti", "usr/lib/tutti/libtutti_nvtx.so", "usr/lib/tutti/tutti-hook/sitecustomize.py",
            "usr/include/tutti/tutti.h", "usr/share/bash-completion/completions/tutti", "usr/share/man/man1/tutti.1"},
}
EXPOSURE_LIMITS = {"aggregator": 3.0, "agent": 4.0}


def run(*command, **more):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    assert p.returncode == 0, f"{command}: exit {p.returncode}\n{p.stdout}{p.stderr}"
    return p.stdout


def install(root):
    build = BIN.resolve().parent
    for component, expected in FILES.items():
        folder = root / component
        package = "tutti" if component == "cli" else f"tutti-{component}"
        expected = expected | {f"usr/share/doc/{package}/{name}" for name in ("copyright", "changelog.gz", "CHANGELOG.md")}
        run("cmake", "--install", build, "--prefix", "/usr", "--component", component, env={"DESTDIR": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin"})
        found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() or p.is_symlink()}
        commands = {f for f in found if re.fullmatch(r"usr/share/man/man1/tutti-[a-z]+\.1", f)}
        assert found - commands == expected, (component, found ^ expected)
        assert bool(commands) == (component == "cli"), component
        shutil.copytree(folder, root, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(folder)


def check_docs(root):
    """Each package has its licence, and its changes up to this version."""
    version = run(root / "usr/bin/tutti", "--version").split()[1]
    for folder in (root / "usr/share/doc").iterdir():
        assert "License: Apache-2.0\n" in (folder / "copyright").read_text(), folder
        assert gzip.decompress((folder / "changelog.gz").read_bytes()).decode().startswith(f"tutti ({version}) "), folder
        assert f"\n## {version}\n" in (folder / "CHANGELOG.md").read_text(), folder


def check_settings(root):
    """Each file loads as it is, and with all of its examples."""
    for program in ("agent", "aggregator"):
        path = root / f"etc/tutti/{program}.conf"
        text = path.read_text()
        assert "@" not in text and "/etc/tutti/ca.crt" in text, text
        everything = root / f"{program}-everything.conf"
        everything.write_text(re.sub(r"^#(?=[a-z-]+ = )", "", text, flags=re.M))
        assert everything.read_text() != text
        for file in (path, everything):
            out = run(root / f"usr/bin/tutti-{program}", "--config", file, "--print-config")
            for name, value in re.findall(r"^([a-z-]+) = (.*)$", file.read_text(), flags=re.M):
                assert re.search(rf"^{name} = ", out, flags=re.M), f"{file}: {name} = {value} is not in use"


def check_units(root):
    for program, limit in EXPOSURE_LIMITS.items():
        unit = root / f"usr/lib/systemd/system/tutti-{program}.service"
        text = unit.read_text()
        assert f"ExecStart=/usr/bin/tutti-{program} --config /etc/tutti/{program}.conf\n" in text, text
        for line in re.findall(r"^(?:AmbientCapabilities|CapabilityBoundingSet)=(.*)$", text, flags=re.M):
            assert set(line.split()) == (AGENT_CAPABILITIES if program == "agent" else set()), line
        if not shutil.which("systemd-analyze"):
            print("systemd-analyze is missing (package systemd): the units' exposure is not computed")
            continue
        out = run("systemd-analyze", "security", "--offline=true", unit)
        level = float(re.search(r"exposure level for \S+: ([0-9.]+)", out)[1])
        print(f"tutti-{program}.service: exposure {level}, at most {limit}")
        assert level <= limit, out


def flags_of(*command):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z0-9-]+)", run(*command, "--help"), flags=re.M))


def commands_of(program):
    return set(re.findall(r"^  ([a-z]+) ", run(program, "--help"), flags=re.M))


def check_page(page, flags):
    text = page.read_text().replace("\\-", "-")
    found = set(re.findall(r"^\.TP\n\.B (?:-\w, )?(--[a-z0-9-]+)", text, flags=re.M))
    assert found == flags, f"{page.name}: {found ^ flags}"
    for heading in ("NAME", "SYNOPSIS"):
        assert f".SH {heading}\n" in text, page.name
    assert re.search(r"^\.SH NAME\n\S+ \S+ \w", page.read_text(), flags=re.M), page.name


def check_pages(root):
    for program in ("agent", "aggregator"):
        check_page(root / f"usr/share/man/man8/tutti-{program}.8", flags_of(root / f"usr/bin/tutti-{program}"))
    tutti = root / "usr/bin/tutti"
    commands = commands_of(tutti)
    assert {"capture", "hosts", "show"} <= commands, commands
    pages = {p.name.removeprefix("tutti-").removesuffix(".1") for p in (root / "usr/share/man/man1").glob("tutti-*.1")}
    assert pages == commands, pages ^ commands
    check_page(root / "usr/share/man/man1/tutti-capture.1", flags_of(tutti, "capture"))


def complete(root, *words):
    script = (f'. {root}/usr/share/bash-completion/completions/tutti; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tutti; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(run("bash", "-c", script, "-", root / "usr/bin/tutti", *words).split())


def check_completion(root):
    tutti = root / "usr/bin/tutti"
    assert complete(root, "") == commands_of(tutti)
    assert complete(root, "cap") == {"capture"}
    assert complete(root, "capture", "--du") == {"--duration"}
    assert complete(root, "capture", "--") == flags_of(tutti, "capture")


def check_prolog(root):
    """While a job of Slurm has the host, the agent's unit reads its label; another job's epilog does not remove it."""
    script = (root / "usr/share/tutti/slurm/prolog.sh").read_text()
    unit = (root / "usr/lib/systemd/system/tutti-agent.service").read_text()
    [settings] = re.findall(r"^settings=(.*)$", script, flags=re.M)
    assert f"EnvironmentFile=-{settings}\n" in unit, unit
    file, calls = root / "agent.env", root / "calls"
    (root / "prolog.sh").write_text(script.replace(settings, str(file)))
    (root / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{calls}\nexit 1\n')
    (root / "systemctl").chmod(0o755)

    def slurm(context, job):
        run("sh", root / "prolog.sh", env={"PATH": f"{root}:/usr/bin:/bin", "SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": str(job)})
    slurm("prolog_slurmd", 4711)
    name, value = file.read_text().strip().split("=", 1)
    out = run(root / "usr/bin/tutti-agent", "--print-config", env={"PATH": "/usr/bin", name: value})
    assert "\nlabel = slurm_job=4711\n" in out, out
    slurm("epilog_slurmd", 4710)
    assert file.exists()
    slurm("epilog_slurmd", 4711)
    assert not file.exists()
    assert calls.read_text() == "try-restart tutti-agent.service\n" * 3


def main():
    root = temp_dir("tutti-install")
    install(root)
    check_docs(root)
    check_settings(root)
    check_units(root)
    check_pages(root)
    check_completion(root)
    check_prolog(root)
    # Its daemons and its hook are beside it, behind the link.
    p = subprocess.run([root / "usr/bin/tutti", "inspect", "--output", root / "inspected", "--", "true"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and "no " + str(root) not in p.stderr, p.stderr
    assert list((root / "inspected").rglob("*.xplane.pb")), p.stderr
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
