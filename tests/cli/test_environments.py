"""Commands where nothing but their outputs can be written, without a home, on a console of ASCII, with names that are
no UTF-8, and with standard streams that are closed, full, or read by nobody: the exit status is that of any other
place, and what is written is read by a reader that is not ours.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy
import polars
import pytest

import weftrace
from tests.fuzz import thorough, thorough_case
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.files.plain_text import without_surrogates
from weftrace.render.console_text import ascii_text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes, and streams can be closed")

MAIN = "import sys; sys.argv[0] = 'weftrace'; from weftrace.cli.main import main; main()"
FF = os.fsdecode(b"\xff")
#: Command line -> the endings of the files O that it writes; T is a trace, R a folder of ranks.
COMMANDS = {
    "report T": "json html md csv",
    "report R": "json html",
    "query R 'select path from ranks'": "csv parquet json",
    "convert T": "parquet",
    "lanes T": "svg html",
    "--help": "",
    "demo --layers 1": "trace.json.gz json",
    "annotate T": "json.gz",
    "diff T T": "json html md",
    "advise T": "json html md",
    "critical-path T": "json html",
    "experts demo": "npz",
    "pipeline compare --stages 4 --micro-batches 8": "json html",
    "flops models": "",
}
#: In every run, each with another of the streams; in a thorough one, each with each.
ALWAYS = ("report R", "query R", "convert T", "--help", "demo")
#: What a shell says of the streams -> the exit status of a command that prints.
STREAMS = {
    "| head -c 1": 0, ">/dev/full": 2, "2>&-": 0, "<&- >&- 2>&-": 0, "2>&1 | true": 0, "| true": 0, ">&-": 0, "<&-": 0,
    "2>/dev/full": 0, ">/dev/full 2>/dev/full": 2,
}  # fmt: skip


def cases() -> Iterator[object]:
    always = dict(zip(ALWAYS, STREAMS, strict=False))
    for command, endings in COMMANDS.items():
        for streams in STREAMS:
            is_always = any(command.startswith(each) and streams == with_ for each, with_ in always.items())
            yield (command, endings, streams) if is_always else thorough_case(command, endings, streams)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Holds the package, where nothing can be written, the inputs, and a folder for outputs."""
    place = tmp_path_factory.mktemp("place")
    package = place / "source" / "weftrace"
    shutil.copytree(Path(weftrace.__file__).parent, package, ignore=shutil.ignore_patterns("*.nbi", "*.nbc"))
    folders = [package.parent, *(Path(folder) for folder, _, _ in os.walk(package))]
    for folder in folders:
        folder.chmod(0o555)
    (place / f"ranks{FF}").mkdir()
    for rank in range(2):
        trace = TraceFile(rank=rank, world_size=2).kernel(GEMM, 100, 100 + rank).kernel(ALL_REDUCE, 300, 50)
        trace.host("ProfilerStep#1", 50, 400).write(place / f"ranks{FF}" / f"rank{rank}{FF}.json")
    (place / f"train{FF}.json.gz").write_bytes(gzip.compress((place / f"ranks{FF}" / f"rank0{FF}.json").read_bytes()))
    for name, dur in (("before", 100), ("after", 200)):
        TraceFile().kernel(GEMM, 100, dur).write(place / f"{name}{FF}.json")
    yield place
    for folder in folders:
        folder.chmod(0o755)


def run(place: Path, command: str, streams: str) -> subprocess.CompletedProcess[bytes]:
    """`weftrace COMMAND STREAMS` in a shell: whoever owns the files, it may write only where the owner says so."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(place / "source" / "none"), "LC_ALL": "C", "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(place / "source"), "COLUMNS": "80", "POLARS_MAX_THREADS": "2",
        "NUMBA_NUM_THREADS": "1",
    }  # fmt: skip
    python = [sys.executable, "-P", "-c", MAIN]
    if os.geteuid() == 0:
        python = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *python]
    line = f"set -o pipefail; {shlex.join(python)} {command} {streams}"
    return subprocess.run(["bash", "-c", line], cwd=place, env=environment, capture_output=True, timeout=120)


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="nothing takes root's rights away here")
@pytest.mark.parametrize(("command", "endings", "streams"), list(cases()))
def test_a_command_does_the_same_as_elsewhere(
    place: Path, tmp_path: Path, command: str, endings: str, streams: str
) -> None:
    given = command.replace("T", f"train{FF}.json.gz").replace("R", f"ranks{FF}")
    outputs = [tmp_path / f"out{FF}.{ending}" for ending in endings.split()]
    given += "".join(f" -o {shlex.quote(str(path))}" for path in outputs)
    ended = run(place, given, streams)
    prints = not command.startswith(("convert", "annotate", "experts demo"))
    assert ended.returncode == (STREAMS[streams] if prints else 0), ended.stderr
    assert ended.stdout.isascii() and ended.stderr.isascii() and b"Traceback" not in ended.stderr, ended.stderr
    if prints and streams == ">/dev/full":
        assert ended.stderr.endswith(b"weftrace: standard output cannot be written: No space left on device.\n")
    for path in outputs:
        check_file(path)


def check_file(path: Path) -> None:
    """Reads a file as what its ending says, by a reader that is not ours."""
    name, data = os.fsencode(path), path.read_bytes()
    if name.endswith(b".gz"):
        data = gzip.decompress(data)
    if b".json" in name:
        assert isinstance(json.loads(data), dict)
    elif name.endswith(b".svg"):
        assert ElementTree.fromstring(data).tag.endswith("svg")
    elif name.endswith(b".html"):
        check_page(data.decode())
    elif name.endswith(b".csv"):
        rows = list(csv.reader(io.StringIO(data.decode())))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1
    elif name.endswith(b".parquet"):
        assert polars.read_parquet(io.BytesIO(data)).height > 0
    elif name.endswith(b".npz"):
        assert numpy.load(io.BytesIO(data)).files
    else:
        assert name.endswith(b".md") and data.decode().startswith(("#", "*"))


def check_page(text: str) -> None:
    class Page(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.blocks: list[str] = []
            self.is_block = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.is_block = tag == "script" and ("type", "application/json") in attrs

        def handle_data(self, data: str) -> None:
            if self.is_block and data.strip():
                self.blocks.append(data)

    page = Page()
    page.feed(text)
    assert text.rstrip().endswith("</html>") and page.blocks
    for block in page.blocks:
        json.loads(block)


def test_a_gate_fails_whether_or_not_its_report_is_read(place: Path) -> None:
    assert run(place, f"diff before{FF}.json after{FF}.json --fail-above span=1%", "| true").returncode == 1


@thorough
def test_a_balance_is_the_same_where_nothing_can_be_compiled_once_for_all(place: Path, tmp_path: Path) -> None:
    assert run(place, f"experts demo -q -o {shlex.quote(str(tmp_path / 'loads.npz'))}", "").returncode == 0
    balance = f"experts balance {shlex.quote(str(tmp_path / 'loads.npz'))} --slots 288 --gpus 32 --nodes 4 --json"
    there = run(place, balance, "")
    here = subprocess.run([sys.executable, "-c", MAIN, *shlex.split(balance)], capture_output=True, check=True)
    assert there.returncode == 0 and there.stdout == here.stdout
    assert there.stderr.count(b"NUMBA_CACHE_DIR") == 1


def test_letters_of_a_console_without_unicode_have_their_likeness() -> None:
    assert ascii_text("█▓▒░ µs ×2 ≥ 3 … é ² 漢 \udcff ╌┼") == "#%:. us x2 > 3 ~ e 2 ?? \\xff -+"
    assert without_surrogates("é\udcff\ud800") == "é\\xff\\ud800"
