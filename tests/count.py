#!/usr/bin/env python3
"""Counts what a run of `meson test` did: count.py TESTLOG.JSON RESULT

A program built with Criterion holds many tests and says in its closing line how they went; any other
program is one test.  Prints a line for each program, with its log if it failed, and writes `passed N`,
`failed N` and the names of what failed to RESULT.
"""
import json
import re
import sys

LOG_BYTES_MAX = 20000
CLOSING = re.compile(r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")


def count(test):
    """(passed, failed) of one program."""
    good = test["result"] == "OK"
    closing = CLOSING.search(re.sub(r"\x1b\[[0-9;]*m", "", test.get("stderr", "")))
    if not closing:
        return (1, 0) if good else (0, 1)
    tested, passing, _, _ = map(int, closing.groups())
    failed = tested - passing
    if not good and not failed:
        failed = 1  # it fell over after its last test
    return passing, failed


def main():
    log, result = sys.argv[1:]
    with open(log, encoding="utf-8") as lines:
        tests = [json.loads(line) for line in lines]
    total_passed, total_failed, names = 0, 0, []
    for test in sorted(tests, key=lambda test: test["name"]):
        passed, failed = count(test)
        name = test["name"].removeprefix("ringbouncer:").replace(" / ", "/")
        total_passed += passed
        total_failed += failed
        if not failed:
            print(f"ok {name}: {passed} in {test['duration']:.1f} s")
            continue
        names.append(name)
        print(f"FAIL {name}: {failed} of {passed + failed}, {test['result']}, code {test['returncode']}")
        for stream in ("stdout", "stderr"):
            print(test.get(stream, "")[-LOG_BYTES_MAX:].rstrip())
    with open(result, "w", encoding="utf-8") as out:
        out.write("\n".join([f"passed {total_passed}", f"failed {total_failed}", *names]) + "\n")
    return 0 if tests else 1


sys.exit(main())
