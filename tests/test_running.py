"""What CONTRIBUTING.md promises about running the tests, where nothing else would notice that it broke."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.fuzz import for_each_case, fuzz_seed
from tests.times import by_folder


def test_fuzz_cases_are_those_of_the_seed_and_a_failure_names_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFTRACE_FUZZ_CASES", "12")
    monkeypatch.setenv("WEFTRACE_FUZZ_SEED", "7")
    seen: list[str] = []
    for block in range(3):
        for_each_case(seen.append, share=1 / 2, block=block, num_blocks=3)
    assert seen == [f"7:{number}" for number in range(6)]

    def fails(seed: str) -> None:
        assert seed != "7:2"

    with pytest.raises(AssertionError) as failed:
        for_each_case(fails, share=1)
    assert failed.value.__notes__ == ["fuzz case 7:2; WEFTRACE_FUZZ_SEED=7 brings it again"]


def test_the_seed_is_at_the_head_of_a_run(request: pytest.FixtureRequest) -> None:
    lines = request.config.hook.pytest_report_header(config=request.config, start_path=request.config.rootpath)
    assert f"WEFTRACE_FUZZ_SEED={fuzz_seed()} " in str(lines)


def test_times_are_added_up_by_folder(tmp_path: Path) -> None:
    """tests/a: 1.5 + 0.25 s of processor time; tests/test_b: 3 s by the clock, the processor's being unknown."""
    used = '<properties><property name="processor_s" value="{}"/></properties>'
    junit = tmp_path / "junit.xml"
    junit.write_text(
        "<testsuites><testsuite>"
        f'<testcase classname="tests.a.test_x" time="9">{used.format(1.5)}</testcase>'
        f'<testcase classname="tests.a.deep.test_y" time="9">{used.format(0.25)}</testcase>'
        '<testcase classname="tests.test_b" time="3"/></testsuite></testsuites>'
    )
    assert by_folder(str(junit)) == {"tests/test_b": (1, 3.0), "tests/a": (2, 1.75)}


def test_a_warm_command_is_a_process_like_any_other(warm: Path, tmp_path: Path) -> None:
    """Exit codes, pipes, folder and environment are the caller's own."""

    def shell(command: str) -> subprocess.CompletedProcess[str]:
        path = f"{warm}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "SAID": "hello"}
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    (tmp_path / "said.py").write_text("import os, sys\nprint(os.environ['SAID'], *sys.argv[1:], sys.stdin.read())\n")
    assert shell("echo there | python said.py 'a b' | tr a-z A-Z").stdout == "HELLO A B THERE\n\n"
    absent = shell("weftrace report absent.json")
    assert (absent.returncode, absent.stdout) == (3, "")
    assert absent.stderr.startswith("weftrace: absent.json: ")
    assert shell("weftrace report --no-such-option").returncode == 2
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert shell("python killed.py").returncode == 128 + 9
    (tmp_path / "raised.py").write_text("raise ValueError('of ours')\n")
    raised = shell("python raised.py")
    assert raised.returncode == 1 and "ValueError: of ours" in raised.stderr
