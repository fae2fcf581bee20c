# SPDX-License-Identifier: Apache-2.0
"""What became of the tests of a ctest run: report.py REPORT LOG, with --output-junit's file and what ctest printed.

Prints a line a test, of four fields with tabs between: status, name, wall seconds, the cause if it did not pass.
run: passed. fail: failed. hang: had no end before its limit, ctest's or its own (tests/lib/deadline.c, tests/e2e/lib/waits.py). defect: a
sanitizer reported, which is no matter of load. skip: it said that this machine cannot run it. missing: its program is not there.
"""
import re
import sys
import xml.etree.ElementTree as tree

DEFECT = re.compile(r"(Address|Leak|Thread)Sanitizer|runtime error:")
LATE = re.compile(r"^(test: it has not ended in time|Timeout \(\d+:\d\d:\d\d\)!)", re.MULTILINE)
TELLING = re.compile(r"(Sanitizer: .*|runtime error: .*|: not true: .*|, expected .*|^\w*(Error|Exception|Failed)\b.*|^FAIL.*|^failed.*)")


def cause_of(output):
    """The first line that says what is wrong, or the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.search(line)]
    return " ".join(((telling or lines[-1:] or ["it printed nothing"])[0]).split())[:160]


def status_of(case, output, hung):
    status, name = case.get("status"), case.get("name")
    if status == "run":
        return "run"
    if status == "notrun":
        return "missing" if case.find("skipped").get("message").startswith("Unable to find") else "skip"
    if DEFECT.search(output):
        return "defect"
    return "hang" if name in hung or LATE.search(output) else "fail"


def main(report, log):
    with open(log, errors="replace") as f:
        hung = set(re.findall(r"Test +#\d+: (\S+) \.*\*+Timeout", f.read()))
    for case in tree.parse(report).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        status = status_of(case, output, hung)
        cause = "" if status == "run" else cause_of(output)
        print(status, case.get("name"), f"{float(case.get('time')):.1f}", cause, sep="\t")


main(*sys.argv[1:])
