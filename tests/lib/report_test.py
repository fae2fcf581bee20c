# SPDX-License-Identifier: Apache-2.0
"""tests/lib/report.py over a run that has one test of each end."""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
# What a test printed, how ctest calls its end, and what it is.
ENDS = [
    ("good", "run", "", "", "run"),
    ("bad", "fail", "x.c:1: f: not true: a", "", "fail"),
    ("late_c", "fail", "some lines\ntest: it has not ended in time; it is at\npoll", "", "hang"),
    ("late_python", "fail", "ok   test_a\nTimeout (0:01:50)!\nThread", "", "hang"),
    ("late_ctest", "fail", "", "", "hang"),
    ("broken", "fail", "ERROR: AddressSanitizer: heap-use-after-free", "", "defect"),
    ("late_and_broken", "fail", "WARNING: ThreadSanitizer: data race\ntest: it has not ended in time", "", "defect"),
    ("waited", "fail", "AssertionError: waited 40 s for hosts, without success", "", "fail"),
    ("skipped", "notrun", "", "SKIP_RETURN_CODE=77", "skip"),
    ("gone", "notrun", "", "Unable to find executable", "missing"),
]


def case(name, status, output, skipped, _):
    why = f'<skipped message="{skipped}"/>' if skipped else ""
    return f'<testcase name="{name}" time="1" status="{status}">{why}<system-out>{output}</system-out></testcase>'


with tempfile.TemporaryDirectory(prefix="tutti-report-") as folder:
    report, log = pathlib.Path(folder, "report.xml"), pathlib.Path(folder, "log")
    report.write_text(f"<testsuite>{''.join(case(*end) for end in ENDS)}</testsuite>")
    log.write_text("5/9 Test  #5: late_ctest .......***Timeout 120.01 sec\n6/9 Test #6: bad .......***Failed 1.0 sec\n")
    p = subprocess.run([sys.executable, HERE / "report.py", report, log], check=True, capture_output=True, text=True, timeout=60)
got = {line.split("\t")[1]: line.split("\t")[0] for line in p.stdout.splitlines()}
wanted = {end[0]: end[4] for end in ENDS}
assert got == wanted, (got, wanted)
print(f"{len(wanted)} ends are told apart")
