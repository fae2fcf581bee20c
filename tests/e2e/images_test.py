# SPDX-License-Identifier: Apache-2.0
"""The images that deploy/images/build.sh makes without docker: what ldd names and nothing else, a list of all files, and what
deploy/images/Dockerfile says of the same. tests/cluster.sh runs them.

    images_test.py again        builds all twice: the bytes are the same
"""
import gzip
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

from lib.cluster import BIN, temp_dir

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/images"
USERS = {"tutti-agent": "0:0", "tutti-aggregator": "65532:65532", "tutti": "65532:65532"}
BESIDE = {"etc/ssl/certs/ca-certificates.crt", "etc/passwd", "etc/group", "etc/nsswitch.conf", "usr/share/doc/tutti/LICENSE"}
LIMIT = 40 << 20
AGAIN = sys.argv[1:] == ["again"]


def build(out, *flags):
    p = subprocess.run([FOLDER / "build.sh", "--bin", BIN, "--out", out, *flags], capture_output=True, text=True, check=False, timeout=900)
    assert p.returncode == 0, p.stdout + p.stderr


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def needed(program):
    """Libraries and the loader, by the paths at which a program looks for them."""
    out = subprocess.run(["ldd", BIN / program], capture_output=True, text=True, check=True, timeout=60).stdout
    return set(re.findall(r"(?:=> |^\s+)/(\S+) \(0x", out, flags=re.M))


def read(tar):
    with tarfile.open(tar) as t:
        return {m.name: t.extractfile(m).read() for m in t.getmembers() if m.isfile()}


def check_layout(program, version, files):
    """An OCI layout: each blob is named by its digest, and each name leads to one. Returns the layer's tar."""
    blobs = {"sha256:" + name.rsplit("/", 1)[1]: data for name, data in files.items() if name.startswith("blobs/")}
    assert all(name == sha256(data) for name, data in blobs.items())
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [entry] = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == f"localhost/{program}:{version}", entry
    manifest = json.loads(blobs[entry["digest"]])
    [layer] = manifest["layers"]
    for what in (entry, manifest["config"], layer):
        assert len(blobs[what["digest"]]) == what["size"], what
    assert len(blobs) == 3
    config = json.loads(blobs[manifest["config"]["digest"]])
    assert config["config"]["User"] == USERS[program] and config["config"]["Entrypoint"] == [f"/usr/bin/{program}"], config
    text = gzip.decompress(blobs[layer["digest"]])
    assert config["rootfs"]["diff_ids"] == [sha256(text)]
    return text


def check_files(program, root):
    """{path: its bytes}"""
    files = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and not p.is_symlink()}
    programs = {program, "tutti"}
    libraries = {str((root / path).resolve().relative_to(root)) for name in programs for path in needed(name)}
    expected = BESIDE | libraries | {f"usr/bin/{name}" for name in programs}
    assert set(files) == expected, (program, set(files) ^ expected)
    return files


def check_list(program, version, files, spdx):
    """Each file with its digest, of a package with a version: Debian's, or Tutti's for what is made here."""
    assert spdx["spdxVersion"] == "SPDX-2.3" and spdx["name"] == f"{program}-{version}", spdx["name"]
    assert {f["fileName"][2:]: f["checksums"] for f in spdx["files"]} == {
        name: [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}] for name, data in files.items()}
    names = {f["SPDXID"]: f["fileName"][2:] for f in spdx["files"]}
    packages = {p["SPDXID"]: p for p in spdx["packages"]}
    owner = {names[r["relatedSpdxElement"]]: packages[r["spdxElementId"]] for r in spdx["relationships"] if r["relationshipType"] == "CONTAINS"}
    assert owner.keys() == files.keys() and len(names) == len(files)
    for name, package in owner.items():
        ours = name.startswith("usr/bin/") or name in BESIDE - {"etc/ssl/certs/ca-certificates.crt"}
        assert (package["name"] == "tutti") == ours, (name, package)
        installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package["name"]], capture_output=True, text=True, check=False, timeout=60).stdout
        assert package["versionInfo"] == (version if ours else installed), (name, package, installed)


def check_dockerfile():
    """Its stages are these images."""
    text = (FOLDER / "Dockerfile").read_text()
    stages = re.findall(r'^FROM scratch AS (\S+)\nCOPY --from=build /image/(\S+)/ /\nUSER (\S+)\nENTRYPOINT \["/usr/bin/(\S+)"\]$', text, flags=re.M)
    assert {name: (folder, user, program) for name, folder, user, program in stages} == {n: (n, user, n) for n, user in USERS.items()}, stages
    assert "deploy/images/build.sh --roots /image" in text, text


def main():
    version = subprocess.run([BIN / "tutti", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.split()[1]
    folder = temp_dir("tutti-images")
    build(folder / "one", "--roots", folder / "roots")
    if AGAIN:
        build(folder / "two")
    for program in USERS:
        one = (folder / "one" / f"{program}.tar").read_bytes()
        for name in (f"{program}.tar", f"{program}.spdx.json") if AGAIN else ():
            assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes(), f"{name} differs when it is made again"
        layer = check_layout(program, version, read(folder / "one" / f"{program}.tar"))
        files = check_files(program, folder / "roots" / program)
        check_list(program, version, files, json.loads((folder / "one" / f"{program}.spdx.json").read_text()))
        is_sanitized = any("libasan" in name or "libtsan" in name for name in files)
        assert is_sanitized or len(layer) < LIMIT, f"{program}: {len(layer)} bytes"
        print(f"{program}: {len(files)} files, {len(one) >> 10} kB, unpacked {len(layer) >> 10} kB{', sanitized' if is_sanitized else ''}")
    check_dockerfile()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
