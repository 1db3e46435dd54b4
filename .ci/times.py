#!/usr/bin/env python3
"""Reads `go test -json` and prints what `go test` would have, then the tests that took longest.

usage: go test -json ... | .ci/times.py [N]

Its exit code is 1 where a package failed or nothing was tested, so that a pipe hides nothing.
"""
import collections, json, sys

most = int(sys.argv[1]) if len(sys.argv) > 1 else 15
output = collections.defaultdict(list)  # of tests that have not ended, by package and test
took, failed, packages = [], False, 0

for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:
        print(line, end="", flush=True)  # of what runs before the tests
        continue
    action, test = event["Action"], event.get("Test")
    package = event.get("Package") or event.get("ImportPath", "")
    if action in ("output", "build-output"):
        output[package, test].append(event["Output"])
        if test is None:
            if event["Output"] != "PASS\n":
                print(event["Output"], end="", flush=True)
            output.pop((package, test))
    elif action == "build-fail":
        failed = True
    elif action in ("pass", "fail", "skip"):
        if test is None:
            packages += 1
            failed = failed or action == "fail"
            # What a test left unfinished had said: the process was ended in the middle of it.
            for key in [k for k in output if k[0] == package]:
                print("".join(output.pop(key)), end="", flush=True)
            continue
        said = output.pop((package, test), [])
        if action == "fail":
            print("".join(said), end="", flush=True)
        if "/" not in test:
            took.append((event["Elapsed"], test, package))

took.sort(reverse=True)
print("\nThe longest of %d tests:" % len(took))
for seconds, test, package in took[:most]:
    print("%8.1f s  %s (%s)" % (seconds, test, package.removeprefix("github.com/gscd-io/gscd/")))
if not packages:
    print("no package was tested")
sys.exit(1 if failed or not packages else 0)
