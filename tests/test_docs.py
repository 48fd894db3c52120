"""What the documents promise: their commands succeed, their Python runs, their links lead somewhere.

docs/*.md are read top to bottom, each in a folder of its own that holds the sample traces of `samples`; README.md and
start.md are pasted by test_paste.py:

- ```sh and ```console blocks: each `weftrace …` line is run (with its pipes and redirections) and must exit 0; of `make
  …` the target must exist; commands that fetch or install are left alone. In ```console, lines without `$ ` are output.
- `python NAME.py` is run too, where the document holds that file.
- ```toml blocks are what the document's `my.toml` holds; a block right after `<!-- file: NAME -->` is what NAME holds.
- ```text blocks of the documents in QUOTING are printed by the commands of the shell block before them, line by line;
  `…` stands for what is left out.
- ```python blocks of one document run one after the other in one interpreter, after its commands.
- A block right after `<!-- not run: reason -->` is not run; in place of one after `<!-- tests run: COMMAND -->` that
  command is, the same on less data.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.comparison.written import write_pair
from tests.tracefile import GEMM, TraceFile

SAMPLER = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(...)"
ROOT = Path(__file__).resolve().parents[1]
PASTED = (ROOT / "README.md", ROOT / "docs/start.md")  # run by test_paste.py
ALL_DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")})
DOCUMENTS = [path for path in sorted((ROOT / "docs").glob("**/*.md")) if path not in PASTED]
QUOTING = (
    "idle.md", "recording.md", "many-ranks.md", "critical-path.md", "what-if.md", "diff.md", "serving.md",
    "stragglers.md", "advise.md", "query.md",
)  # fmt: skip
SETTING_UP = ("pip", "python3", "git", "cd", "source", "apt-get", "sudo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block. line: of its first line of content, counted from 1. skipped: the reason not to run it, if any.
    file: the name of the file that it is, if it is one. instead: the command that tests run in its place, if any."""

    language: str
    text: str
    line: int
    skipped: str | None
    file: str | None = None
    instead: str | None = None


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a document, in order."""
    lines = markdown.splitlines()
    said: dict[str, str] = {}
    at = 0
    while at < len(lines):
        fence = re.match(r"(\s*)(`{3,}|~{3,})\s*(\w*)", lines[at])
        if fence:
            indent, ticks, language = fence.groups()
            first = at + 1
            at = next((n for n in range(first, len(lines)) if lines[n].strip() == ticks), len(lines))
            text = "\n".join(line.removeprefix(indent) for line in lines[first:at])
            yield Block(
                language=language, text=text, line=first + 1, skipped=said.get("not run"), file=said.get("file"),
                instead=said.get("tests run"),
            )  # fmt: skip
        remark = (
            re.fullmatch(r"<!-- (not run|file|tests run): (.+) -->", lines[at].strip()) if at < len(lines) else None
        )
        if remark:
            said = {remark[1]: remark[2]}
        elif at < len(lines) and lines[at].strip():
            said = {}
        at += 1


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """(line number, command) of a shell block; lines that end in a backslash are joined."""
    pending, start = "", 0
    for number, raw in enumerate(block.text.splitlines(), block.line):
        line = raw
        if block.language == "console" and not pending:
            if not line.startswith("$ "):
                continue
            line = line[2:]
        start = start if pending else number
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        if pending and not pending.startswith("#"):
            yield start, pending
        pending = ""


def in_shell(block: Block) -> bool:
    return block.language in ("sh", "bash", "console") and not block.skipped


def shell_commands(path: Path) -> list[tuple[int, str]]:
    return [command for block in blocks(path.read_text()) if in_shell(block) for command in commands(block)]


def not_printed(quoted: str, output: str) -> list[str]:
    """The lines of a quotation that are no lines of the output; blanks at their ends and "…" alone do not count."""
    printed = {line.rstrip() for line in output.splitlines()}
    return [line for line in quoted.splitlines() if line.rstrip() not in printed | {"", "…"}]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "documents"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that the first process that asks for it makes."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(folder)
    return folder


@pytest.fixture(scope="session")
def samples(shared: Path) -> Path:
    """A folder with the traces that the documents name: simulated, so that nothing outside the repository is needed.

    train.json.gz: four of DeepSeek-V3's training layers. traces/rank0.json.gz … rank3.json.gz: the same on four ranks.
    before.json.gz, after.json.gz, before/, after/: two runs to compare, see `write_pair`. serve.json.gz: an engine's
    iterations, see `serving`.
    """
    return made_once(shared / "samples", _write_samples)


def _write_samples(folder: Path) -> None:
    import weftrace
    from weftrace.plan import deepseek_training_layers

    trace = weftrace.simulate(deepseek_training_layers())
    weftrace.save(trace, folder / "train.json.gz")
    (folder / "traces").mkdir()
    for rank in range(4):
        weftrace.save(replace(trace, rank=rank, world_size=4), folder / "traces" / f"rank{rank}.json.gz")
    write_pair(folder)
    (folder / "serve.json.gz").write_bytes(gzip.compress(serving().write(folder / "serve.json").read_bytes(), mtime=0))
    (folder / "serve.json").unlink()


def serving() -> TraceFile:
    """A prefill of 10 ms, a mixed step of 6 ms, then 30 decodes of 2 ms by graphs with 0.2 ms between them, in each of
    which the sampler runs for 0.05 ms; the host launches nothing ahead. In µs."""
    file = TraceFile()
    names = ["execute_context_4(6144)_generation_0(0)", "execute_context_1(2048)_generation_4(4)"]
    lengths = [10_000, 6_000, *[2_000] * 30]
    at = 1_000.0
    for number, length in enumerate(lengths):
        file.host((names + ["execute_context_0(0)_generation_5(5)"] * 30)[number], at - 40, 35)
        call = "cudaGraphLaunch" if number > 1 else "cudaLaunchKernel"
        file.kernel(GEMM, at, length, launch=at - 10, call=call)
        file.kernel(SAMPLER, at + length + 100, 50, launch=at + length + 90)
        at += length + 200
    return file


def run(command: list[str], folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run a command; programs: the folder where `weftrace` and `python` are looked for first."""
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )


def run_command(where: str, command: str, folder: Path, programs: Path, shared: Path) -> str:
    """What a command of a document prints; nothing of one that only sets up. A command that several documents have is
    run once on the same files; then what it printed and wrote is taken from there."""
    words = shlex.split(command, comments=True)
    if words[0] not in ("weftrace", "python"):
        return ""

    def run_it(kept: Path) -> None:
        before = _stamps(folder)
        done = run(["bash", "-o", "pipefail", "-c", command], folder, programs)
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
        for path in _stamps(folder).items() - before.items():
            (kept / "files" / path[0]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / path[0], kept / "files" / path[0])
        (kept / "printed").write_text(done.stdout)

    named = [name for name in sorted(_stamps(folder)) if Path(name).parts[0] in command]
    key = hashlib.sha256(repr(words).encode())
    for name in named:
        key.update(name.encode() + (folder / name).read_bytes())
    kept = made_once(shared / key.hexdigest(), run_it)
    if (kept / "files").exists():
        shutil.copytree(kept / "files", folder, dirs_exist_ok=True)
    return (kept / "printed").read_text()


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file below a folder was written, and how long it is."""
    found = {str(path.relative_to(folder)): path.stat() for path in folder.rglob("*") if path.is_file()}
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in found.items()}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_examples_run(path: Path, samples: Path, shared: Path, warm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(samples, folder)
    found = list(blocks(path.read_text()))
    (folder / "my.toml").write_text("\n".join(block.text for block in found if block.language == "toml"))
    for block in found:
        if block.file:
            (folder / block.file).write_text(block.text + "\n")
    output = ""  # of the last shell block
    for block in found:
        if in_shell(block):
            output = ""
            for line, command in [(block.line, block.instead)] if block.instead else commands(block):
                output += run_command(f"{path.name}:{line}", command, folder, warm, shared)
        elif block.language == "text" and path.name in QUOTING:
            assert not_printed(block.text, output) == [], (
                f"{path.name}:{block.line}: not printed by the commands before"
            )
    program = ""
    for block in found:
        if block.language == "python" and not block.skipped and not block.file:
            # Blank lines stand for the text between, so that a traceback gives the document's line numbers.
            program += "\n" * (block.line - 1 - program.count("\n")) + block.text + "\n"
    if not program:
        return
    (folder / path.with_suffix(".py").name).write_text(program)
    done = run([str(warm / "python"), path.with_suffix(".py").name], folder, warm)
    assert done.returncode == 0, f"Python of {path.name} (line numbers are the document's):\n{done.stderr}"


@pytest.mark.parametrize("path", ALL_DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_known(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    files = [block.file for block in blocks(path.read_text())]
    for line, command in shell_commands(path):
        program, *arguments = shlex.split(command, comments=True)
        if program == "make":
            for target in (a for a in arguments if "=" not in a and not a.startswith("-")):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name}:{line}: no target {target}"
        else:
            known = program == "weftrace" or program in SETTING_UP
            known |= program == "python" and arguments == [file for file in files if file in arguments]
            assert known, f"{path.name}:{line}: {program} would not be run; say so with <!-- not run: reason -->"


def prose(markdown: str) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)


def anchors(markdown: str) -> set[str]:
    """The names under which a document's headings can be linked to, as GitHub makes them."""
    headings = re.findall(r"^#{1,6} +(.+?)\s*#*$", prose(markdown), re.MULTILINE)
    texts = [re.sub(r"\[(.+?)\]\(.*?\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text).lower().replace(" ", "-") for text in texts}


@pytest.mark.parametrize("path", ALL_DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", prose(path.read_text()))
    for link in re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", text):
        if re.match(r"[a-z]+:", link):  # another site: not asked, the tests use no network
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link} leads nowhere"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), f"{path.name}: {link}: no such heading in {target.name}"


def test_blocks_and_commands_are_found() -> None:
    """The extractor itself, on a document small enough to check by eye."""
    document = """\
Text.
```sh
weftrace report a.json \\
    -o b.html   # a comment
# only a comment
make test
```
<!-- not run: needs a GPU -->
```console
$ weftrace capture x
```
```console
$ weftrace lanes a.json
lane  sms
```
<!-- file: config.json -->
```json
{}
```
<!-- tests run: weftrace demo --quiet -->
```sh
weftrace demo
```
"""
    found = list(blocks(document))
    assert [(b.language, b.line, b.skipped, b.file) for b in found] == [
        ("sh", 3, None, None),
        ("console", 10, "needs a GPU", None),
        ("console", 13, None, None),
        ("json", 18, None, "config.json"),
        ("sh", 22, None, None),
    ]
    assert [b.instead for b in found] == [None] * 4 + ["weftrace demo --quiet"]
    assert list(commands(found[0])) == [(3, "weftrace report a.json -o b.html   # a comment"), (6, "make test")]
    assert list(commands(found[2])) == [(13, "weftrace lanes a.json")]
    assert not_printed("one\n…\nthree", "one  \ntwo\nthree\n") == []
    assert not_printed("one\nfour", "one\n") == ["four"]
