# SPDX-License-Identifier: Apache-2.0
"""The list of an image's files as SPDX 2.3, for build.sh: spdx.py NAME VERSION FOLDER; FOLDER has what dpkg and sha256sum printed."""
import json
import os
import pathlib
import re
import sys

name, version, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def merged(path):
    """Where a file is on a system whose /lib is a link to /usr/lib."""
    return path if path.startswith("/usr/") or path.startswith("/etc/") else "/usr" + path


owners = {}
for line in (folder / "owners").read_text().splitlines():
    packages, path = line.split(": ", 1)
    owners[merged(path)] = packages.split(",")[0].split(":")[0]
versions = dict(line.split() for line in (folder / "versions").read_text().splitlines())


def owner(path):
    """The Debian package of a file, or tutti. Programs are ours; a library may be a link on the system that built the image."""
    if path.startswith("/usr/bin/"):
        return "tutti"
    return owners.get(merged(path)) or owners.get(merged(os.path.realpath(path))) or "tutti"


def reference(kind, text):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


files, used = [], set()
for line in (folder / "digests").read_text().splitlines():
    digest, path = line.split(maxsplit=1)
    package = owner(path[1:])
    used.add(package)
    files.append(({"SPDXID": reference("File", path[2:]), "fileName": path,
                   "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}, package))
json.dump({
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
    "documentNamespace": f"https://tutti.dev/spdx/{name}-{version}",
    "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: deploy/images/build.sh"]},
    "packages": [{"SPDXID": reference("Package", p), "name": p, "versionInfo": versions.get(p, version), "downloadLocation": "NOASSERTION",
                  "filesAnalyzed": False, "licenseConcluded": "Apache-2.0" if p == "tutti" else "NOASSERTION"} for p in sorted(used)],
    "files": [f for f, _ in files],
    "relationships": [{"spdxElementId": reference("Package", p), "relationshipType": "CONTAINS", "relatedSpdxElement": f["SPDXID"]}
                      for f, p in files],
}, sys.stdout, indent=1)
print()
