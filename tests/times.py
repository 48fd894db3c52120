"""Where a run of the tests spends processor time: `make times` prints it as a table, a row a folder of tests.

Processor time, and not the clock's: it does not depend on who else uses the machine. It counts the test's process, the
processes that it started and waited for, and, where a test looks at a page or runs a warm command, the browser and the
warm server too. Fixtures count for the test that needs them first; collecting tests and starting up count nowhere.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

PROPERTY = "processor_s"
# Fixtures behind which processes stand that go on when the test is over.
_BESIDE = {"browser", "warm"}


def processor_s(item: pytest.Item) -> float:
    """What this process and those that it started have used until now, in seconds."""
    mine = sum(os.times()[:4])
    if not _BESIDE.intersection(getattr(item, "fixturenames", ())) or not Path("/proc/self/stat").exists():
        return mine
    return mine + _running_children_s()


def _running_children_s() -> float:
    """What running descendants of this process have used, with what they waited for. /proc: see proc(5), stat."""
    parent: dict[int, int] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        process = int(stat.parent.name)
        parent[process], used[process] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {process for process, above in parent.items() if above in ours and process not in ours}:
        ours |= more
    return sum(used[process] for process in ours - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


def by_folder(junit: str) -> dict[str, tuple[int, float]]:
    """Folder, or file where it stands in tests/ itself -> (tests, processor seconds) of a junit.xml."""
    num, seconds = Counter[str](), defaultdict[str, float](float)
    for case in ElementTree.parse(junit).iter("testcase"):
        folder = "/".join(case.attrib["classname"].split(".")[:2])
        num[folder] += 1
        found = case.find(f"properties/property[@name='{PROPERTY}']")
        seconds[folder] += float(found.attrib["value"] if found is not None else case.attrib["time"])
    return {folder: (num[folder], seconds[folder]) for folder in sorted(seconds, key=lambda folder: -seconds[folder])}


def main() -> None:
    """Of one junit.xml, or of several beside each other, the first of them before the last."""
    runs = [by_folder(junit) for junit in sys.argv[1:]]
    totals = [(sum(num for num, _ in run.values()), sum(seconds for _, seconds in run.values())) for run in runs]
    print("| |" + " tests | processor s |" * len(runs) + "\n| :-- |" + " --: | --: |" * len(runs))
    for folder in dict.fromkeys(folder for run in runs for folder in run):
        _print_row(folder, [run.get(folder, (0, 0.0)) for run in runs])
    _print_row("all", totals)


def _print_row(name: str, cells: list[tuple[int, float]]) -> None:
    print(f"| {name} |" + "".join(f" {num:,} | {seconds:.1f} |" for num, seconds in cells))


if __name__ == "__main__":
    main()
