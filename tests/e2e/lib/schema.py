# SPDX-License-Identifier: Apache-2.0
"""JSON documents against docs/schema/: the answers of the API, its events, what is stored, what `tutti --json` prints."""
import functools
import json
import pathlib
import re

import jsonschema
import referencing

DIRECTORY = pathlib.Path(__file__).resolve().parents[3] / "docs/schema"
SESSION = "[0-9_]+_[a-z0-9]+"

# Method and path, '*' for one part, as in aggregator/api/api.c: the schema of an answer with 2xx, or of an event's data by
# its name. None: the answer is not JSON.
ANSWERS = {
    "GET /api/v1/hosts": "hosts",
    "GET /api/v1/settings": "setting-list",
    "GET /api/v1/whoami": "whoami", "POST /api/v1/login": "whoami", "DELETE /api/v1/login": None,
    "GET /api/v1/pods": "pods", "GET /api/v1/viewers": "viewers", "GET /api/v1/jobs": "pod-jobs",
    "GET /api/v1/captures": "captures",
    "POST /api/v1/captures": "capture",
    "POST /api/v1/snapshots": "capture",
    "GET /api/v1/captures/*": "capture",
    "DELETE /api/v1/captures/*": "capture",
    "POST /api/v1/captures/*/stop": "capture",
    "GET /api/v1/captures/*/events": {"capture": "capture"},
    "GET /api/v1/sessions": "sessions",
    "GET /api/v1/sessions/*": "manifest",
    "DELETE /api/v1/sessions/*": "deleted", "PUT /api/v1/sessions/*/pin": "pinned", "DELETE /api/v1/sessions/*/pin": "pinned",
    "POST /api/v1/sessions/*/retry": "capture",
    "GET /api/v1/sessions/*/files/*": None,
    "POST /api/v1/imports": "import", "PUT /api/v1/imports/*/files/*": "import-file", "DELETE /api/v1/imports/*": "deleted",
    "POST /api/v1/imports/*/commit": "manifest",
    "POST /api/v1/sessions/*/links": "shared", "GET /shared/*/*": None, "GET /s/*": None,
    # view_test.py holds these against the stored files
    "GET /api/v1/sessions/*/view": "view", "GET /api/v1/sessions/*/view/tile": None, "GET /api/v1/sessions/*/view/trace": None,
    **{f"GET /api/v1/sessions/*/view/{what}": f"view-{what}" for what in ("event", "search", "next", "spread", "links", "selection", "flame", "durations")},
    "POST /api/v1/join-tokens": "join-token", "POST /api/v1/revocations": "revocation",
    "GET /api/v1/events": {"hosts": "hosts", "capture": "capture", "sessions": "session"},
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /metrics": None,
    "GET /": None,
}
REQUESTS = {"POST /api/v1/captures": "capture-request", "POST /api/v1/snapshots": "snapshot-request",
            "POST /api/v1/sessions/*/retry": "retry-request", "POST /api/v1/sessions/*/links": "links-request",
            "POST /api/v1/imports": "import-request", "POST /api/v1/login": "login-request",
            "POST /api/v1/join-tokens": "join-token-request", "POST /api/v1/revocations": "revocation-request"}

# Keys of a store, and files of the aggregator's spool.
STORED = {
    f"tutti/sessions/{SESSION}/manifest\\.json": "manifest",
    f"tutti/ledger/{SESSION}\\.[0-9]{{6}}\\.json": "ledger",
    f"tutti/failed/{SESSION}\\.json": "capture",
    "session-clock\\.json": "session-clock",
    "tutti/leader/[0-9]{10}\\.json": "leader",
}

# By verb: one of these fits what `tutti VERB --json` prints.
PRINTED = {
    "hosts": ["hosts"], "clock": ["hosts"], "sessions": ["sessions"], "delete": ["deleted", "deleted-many"], "fetch": ["fetched"], "pin": ["pinned"], "unpin": ["pinned"], "share": ["shared"],
    "capture": ["manifest", "capture", "setting-list"], "snapshot": ["manifest", "capture", "series"], "retry": ["manifest", "capture"], "show": ["manifest", "capture"],
    "cancel": ["capture"], "start": ["session"], "import": ["imported", "imported-sessions"], "export": ["exported", "exported-trace"], "stop": ["session", "capture"], "status": ["agent-status"],
    "store": ["store-check"], "audit": ["audit-verified"], "pods": ["pods"], "doctor": ["doctor"], "token": ["join-token"], "revoke": ["revocation"], "jobs": ["pod-jobs"],
}


def names():
    return sorted(p.name.removesuffix(".schema.json") for p in DIRECTORY.iterdir())


@functools.cache
def load(name):
    return json.loads((DIRECTORY / f"{name}.schema.json").read_text())


@functools.cache
def validator(name):
    resources = {f"{n}.schema.json": referencing.Resource.from_contents(load(n)) for n in names()}
    registry = referencing.Registry().with_resources(resources.items())
    return jsonschema.Draft202012Validator({"$ref": f"{name}.schema.json"}, registry=registry)


def error(name, doc):
    """What is wrong with the document, in words; None if nothing is."""
    found = jsonschema.exceptions.best_match(validator(name).iter_errors(doc))
    return found and f"{name}: {found.json_path}: {found.message[:400]}"


def check(doc, *schemas):
    """One of these schemas fits."""
    errors = [error(name, doc) for name in schemas]
    assert None in errors, "\n".join(errors) + f"\n{json.dumps(doc)[:2000]}"


def route(method, path):
    for known in ANSWERS:
        pattern = re.escape(known).replace(r"\*", "[^/]+")
        if re.fullmatch(pattern, f"{method} {path.split('?')[0]}"):
            return known
    raise AssertionError(f"{method} {path} is in no table: see tests/e2e/lib/schema.py")


def check_answer(method, path, status, doc):
    check(doc, "error" if status >= 400 else ANSWERS[route(method, path)])


def check_printed(args, doc):
    """`args` are those of the command line."""
    if isinstance(doc, dict) and args and str(args[0]) in PRINTED:
        check(doc, *PRINTED[str(args[0])], "error")


def check_stored(directory):
    """Every document below a store's or spool's directory; how many there were, by schema."""
    count = {}
    for path in directory.rglob("*"):
        key = str(path.relative_to(directory))
        schema = next((s for pattern, s in STORED.items() if re.fullmatch(pattern, key)), None)
        if schema and path.is_file():
            check(json.loads(path.read_text()), schema)
            count[schema] = count.get(schema, 0) + 1
    return count
