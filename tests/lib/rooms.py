# SPDX-License-Identifier: Apache-2.0
"""Which tests are those of a file: what tests/quick.sh runs.

    rooms.py BUILD FILE...     prints a regular expression of the tests' names, then what the build makes for them
    rooms.py BUILD --check     fails if a file of the tree has no test

A C test has labels `room:FOLDER` (cmake/testing.cmake); the others are named here.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The first row that fits: files, then the tests. \1 is the file's first group. Other files have the tests of their room.
ROWS = [
    (r"tests/lib/report(?:_test)?\.py", r"lint/report"),
    (r"tests/e2e/late_job\.py", r"e2e/readme_picture"),
    (r"tests/e2e/grants_stores_test\.py", r"e2e/grants_.*"),
    (r"tests/e2e/perfetto_test\.py", r"e2e/export"),  # tests/perfetto.sh runs it
    (r"tests/e2e/(\w+)_test\.(?:py|sh)", r"e2e/\1(_.*)?"),
    (r"tests/data/(?:make_)?store.*", r"e2e/old_data"),
    (r"tests/data/(?:make_)?control.*", r"e2e/old_control"),
    (r"tests/e2e/(?:lib/)?.*|tests/lib/.*\.(?:py|mjs|sh)|tests/data/.*|tests/picture", r"e2e/capture"),
    (r"tests/fuzz/(?:corpus/)?(\w+?)(?:_fuzz\.c|/.*)", r"fuzz/\1"),
    (r"tests/(?:sim|fuzz)/.*", r"sim/.*"),
    (r"tests/unit/(.*)/[^/]*", r"unit/\1/.*"),
    (r"tests/conform/store_.*|tests/conform/stores.py", r"conform/store_.*"),
    (r"tests/conform/.*", r"conform/tracer_.*"),
    (r"tests/lib/.*\.[ch]", r"unit/.*"),
    (r"tests/clock/.*", r"e2e/clock_accept.*"),
    (r"tests/scale/.*", r"e2e/(scale|joins)"),
    (r"web/.*", r"web/.*"),
    (r"docs/schema/.*", r"e2e/schema"),
    (r"docs/.*|[^/]*\.md|\.github/.*|LICENSE", r"lint/(terms|words|paths|columns)"),
    (r"python/.*|include/.*", r"e2e/annotations"),
    (r"inject/python/.*", r"e2e/inspect_.*"),
    (r"inject/.*", r"fuzz/nvtx"),
    (r"deploy/(?:kubernetes|helm)/.*", r"e2e/(manifests|helm)"),
    (r"deploy/.*", r"e2e/(install|flags)"),
    (r"(?:agent|aggregator)/[^/]*", r"unit/agent/conf_test|e2e/(capture|flags|settings)"),
    (r".*\.(?:cmake|json|sh)|.*/CMakeLists\.txt|CMakeLists\.txt|.*\.supp|tests/[^/]*|tests/(?:lint|cluster|bench|mutants)/.*|\.[a-z].*", r"lint/.*"),
]
LINT = "lint/(layers|fronts|libraries|calls|licence|words)"


def tests_of(build):
    """The name of each test: (its labels, its command)."""
    p = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True, timeout=60)
    found = {}
    for test in json.loads(p.stdout)["tests"]:
        labels = next((x["value"] for x in test.get("properties", []) if x["name"] == "LABELS"), [])
        found[test["name"]] = labels, test.get("command", [])
    return found


def of_file(tests, path):
    for pattern, names in ROWS:
        match = re.fullmatch(pattern, path)
        if match:
            wanted = re.compile(match.expand(names) if match.groups() else names)
            room = f"room:{pathlib.PurePath(path).parent}"
            return [name for name, (labels, _) in tests.items() if wanted.fullmatch(name) or room in labels]
    for folder in pathlib.PurePath(path).parents:
        found = [name for name, (labels, _) in tests.items() if f"room:{folder}" in labels]
        if found:
            return found + [name for name in tests if re.fullmatch(LINT, name)]
    return []


def programs(build, names, tests):
    """What to build, relative to the build folder: a test's program, or everything if it is a script that runs several."""
    made = set()
    for name in names:
        command = tests[name][1]
        inside = [pathlib.Path(word) for word in command if word.startswith(f"{build}/")]
        if name.startswith(("e2e/", "release/")):
            return ["all"]
        made |= {str(path.relative_to(build)) for path in inside if not path.suffix and not path.is_dir()}
    return sorted(made)


def main(build, *files):
    build = pathlib.Path(build).resolve()
    tests = tests_of(build)
    if files == ("--check",):
        p = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
        bare = [path for path in p.stdout.splitlines() if not of_file(tests, path)]
        print("\n".join(f"{path}: no test is of this file: add a row in tests/lib/rooms.py" for path in bare))
        sys.exit(bool(bare))
    names = []
    for file in files:
        path = str(pathlib.Path(file).resolve().relative_to(ROOT))
        found = of_file(tests, path)
        if not found:
            sys.exit(f"{file}: no test is of this file: add a row in tests/lib/rooms.py")
        names += found
    names = sorted(set(names))
    print("^(" + "|".join(map(re.escape, names)) + ")$")
    print(*programs(build, names, tests))


main(*sys.argv[1:])
