"""`--open`: the page in the browser, or where it is and how to see it."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from tests.cli.test_cli import Run, run, small
from tests.cli.test_help import COMMANDS
from weftrace.flops.outputs import DIFF
from weftrace.memory.outputs import SNAPSHOT, TRACE_MEMORY
from weftrace.moe.outputs import CALIBRATION
from weftrace.outputs import writers
from weftrace.pipeline.outputs import STEP
from weftrace.questions.outputs import ANSWER

__all__ = ["run"]  # a fixture

#: Commands with files to write and no page among them.
WITHOUT_PAGE = {
    "weftrace flops diff": [DIFF], "weftrace memory": [SNAPSHOT, TRACE_MEMORY], "weftrace pipeline step": [STEP],
    "weftrace profile calibrate": [CALIBRATION], "weftrace query": [ANSWER], "weftrace flops models": [],
}  # fmt: skip
OTHERS = {"weftrace annotate", "weftrace convert", "weftrace skill"}


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that keeps the address that it is given, and the folder in which commands run."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$1" > "{tmp_path}/opened"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    _forget_browsers(monkeypatch)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path / "opened"


def _forget_browsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """$BROWSER is read once in a process."""
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})


def test_every_command_that_writes_a_page_can_open_it() -> None:
    found = {context.command_path: {param.name for param in command.params} for command, context in COMMANDS}
    without = {name for name, params in found.items() if "output" in params and "open" not in params}
    assert without == set(WITHOUT_PAGE) | OTHERS
    assert not [name for name, kinds in WITHOUT_PAGE.items() for kind in kinds if ".html" in writers(kind)]


def test_the_page_of_o_is_opened_else_one_that_is_written_here(run: Run, browser: Path, tmp_path: Path) -> None:
    train = small().write(tmp_path / "train.json")
    code, out, err = run(train, "--open")
    assert code == 0 and "phase" in out
    assert browser.read_text() == Path("weftrace-report.html").resolve().as_uri()
    assert "wrote weftrace-report.html" in err and f"opened {browser.read_text()} in the browser" in err
    assert run("diff", train, train, "-q", "-o", "d.json", "-o", "d.html", "--open")[0] == 0
    assert browser.read_text() == Path("d.html").resolve().as_uri()
    assert run("lanes", train, "-q", "--open")[0] == 0
    assert browser.read_text() == Path("weftrace-lanes.html").resolve().as_uri()
    made = ["d.html", "d.json", "weftrace-lanes.html", "weftrace-report.html"]
    assert sorted(path.name for path in Path().iterdir()) == made


@pytest.mark.parametrize("shell", ["no display", "a browser of the terminal", "a browser that fails"])
def test_without_a_browser_it_says_where_the_page_is(
    run: Run, browser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    text = tmp_path / "lynx"
    text.write_text(browser.with_name("browser").read_text())
    text.chmod(0o755)
    _forget_browsers(monkeypatch)
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    if shell != "no display":
        monkeypatch.setenv("BROWSER", str(text) if "terminal" in shell else "false")
    code, _, err = run(small().write(tmp_path / "train.json"), "--open", "-q")
    assert code == 0 and not browser.exists()
    assert f"Open {Path('weftrace-report.html').resolve()} in the browser of your own machine" in err
    assert "scp " in err


def test_a_page_must_be_written_to_be_opened(run: Run, browser: Path, tmp_path: Path) -> None:
    small().write(Path("weftrace-report.html"))
    code, _, err = run("report", "weftrace-report.html", "--open")
    assert code == 2 and "is an input" in " ".join(err.split())
    assert run("query", small().write(tmp_path / "train.json"), "select 1", "--open")[0] == 2
