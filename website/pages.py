"""Pages of the site beside docs/: the project's own, one page of reference per package, files, and live examples.

MkDocs calls the functions named on_… (mkdocs.yml names this file as a hook). What they add lies in no folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).parent
PROJECT = ("README.md", "README.zh-CN.md", "README.ko.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
PACKAGES = ("trace", "analysis", "plan", "facts", "workers")  # of the ground; each wing has a page too
LANGUAGES = {".toml": "toml", ".py": "python", ".yml": "yaml"}
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()((?![a-z]+:|#)[^)\s#]+)(#[^)\s]*)?")


class Example(NamedTuple):
    """A page that weftrace writes. picture: in docs/images."""

    name: str
    title: str
    text: str
    picture: str
    command: str

    @property
    def page(self) -> str:
        return f"examples/{self.name}.html"


SAMPLES = tuple(f"weftrace sample {name}" for name in ("train", "job", "pair", "inference"))
EXAMPLES = (
    Example(
        "report", "Report of a trace", "Which communication is hidden, what is idle, which kernels take the time.",
        "report.png", "weftrace demo -o report.html",
    ),
    Example(
        "job", "Report of a job", "All ranks on one axis: who is late, and who waits for it.",
        "job.png", "weftrace report job/ -o job.html",
    ),
    Example(
        "diff", "Two runs compared", "What changed in a step, by how much, and whether it is more than noise.",
        "diff.png", "weftrace diff pair/before pair/after -o diff.html",
    ),
    Example(
        "path", "Critical path", "The kernels, launches and waits that decide how long the run takes.",
        "critical-path.png", "weftrace critical-path train/train.json.gz -o path.html",
    ),
    Example(
        "whatif", "What if", "The same run with communication twice as fast.",
        "what-if.png", "weftrace whatif train/train.json.gz --scale communication=0.5 -o whatif.html",
    ),
    Example(
        "serving", "Report of a server", "Steps of an engine by kind, with their gaps and tokens per second.",
        "panel.png", "weftrace report inference/inference.json.gz -o serving.html",
    ),
    Example(
        "pipelines", "Pipeline schedules", "Every schedule for 8 stages and 20 micro-batches, by time and memory.",
        "dualpipe.svg", "weftrace pipeline compare --stages 8 --micro-batches 20 -o pipelines.html",
    ),
    Example(
        "decode", "Profile of a layer", "Decode of DeepSeek-V3 on 128 GPUs: what runs beside what.",
        "profile-decode.svg", "weftrace profile decode -o decode.html",
    ),
)  # fmt: skip


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the parts of the navigation that the package determines."""
    sys.path.insert(0, str(ROOT / "src"))
    for part in config.nav or []:
        for entry in part.get("Reference", ()):
            if isinstance(entry, dict) and "Python" in entry:
                entry["Python"] = [{name: f"api/{name}.md"} for name in packages()]
            if isinstance(entry, dict) and "Files" in entry:
                entry["Files"] = [{Path(path).name: site_path(path)} for path in linked_files()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    made = make_examples(ROOT / "out" / "site-examples")
    texts = {site_path(path): _project_page((ROOT / path).read_text("utf-8")) for path in PROJECT}
    texts |= {site_path(path): _file_page(path) for path in linked_files()}
    texts |= {f"api/{name}.md": _reference_page(name) for name in packages()}
    texts |= {"index.md": _with_cards((HERE / "index.md").read_text("utf-8"), made), "examples.md": _examples_page()}
    for path, text in texts.items():
        files.append(File.generated(config, path, content=text))
    for asset in (HERE / "assets").iterdir():
        files.append(File.generated(config, f"assets/{asset.name}", abs_src_path=str(asset)))
    for example in EXAMPLES:
        files.append(File.generated(config, example.page, abs_src_path=str(made / f"{example.name}.html")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/, or that a page of the project has, to where their targets are in the site. Names of
    an array's axes, "[L][N]", are no reference to N."""
    parts = _CODE.split(moved_links(markdown, page.file.src_uri))
    return "".join(part if place % 2 else re.sub(r"\]( ?)\[", r"]\1\\[", part) for place, part in enumerate(parts))


def packages() -> list[str]:
    """Dotted names of the packages that have a page of reference."""
    from weftrace.wings import WINGS

    return ["weftrace", *(f"weftrace.{name}" for name in (*PACKAGES, *(wing.name for wing in WINGS)))]


def site_path(path: str) -> str:
    """The page in the site of a file of the repository."""
    if path in PROJECT:
        return f"project/{path.lower()}"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}.md"


def repository_path(page: str) -> str:
    """The file of the repository that a page of the site is made from."""
    return next((path for path in PROJECT if site_path(path) == page), f"docs/{page}")


def linked_files() -> list[str]:
    """Files of the repository that a document links to and that are no document."""
    found = set()
    for document in [*(ROOT / "docs").glob("*.md"), *map(ROOT.joinpath, PROJECT)]:
        folder = document.parent.relative_to(ROOT).as_posix()
        for _, target, _ in _LINK.findall(document.read_text("utf-8")):
            path = normpath(f"{folder}/{target}")
            if path not in PROJECT and not path.startswith("docs/") and (ROOT / path).is_file():
                found.add(path)
    return sorted(found)


def moved_links(markdown: str, page: str) -> str:
    """A page's links to files of the repository, led to where the site has these files."""
    origin = repository_path(page)

    def moved(match: re.Match[str]) -> str:
        begin, target, anchor = match[1], match[2], match[3] or ""
        path = normpath(f"{PurePosixPath(origin).parent}/{target}")
        if not (ROOT / path).is_file():  # a page that only the site has, or a mistake, which MkDocs names
            return match[0]
        return begin + relpath(site_path(path), str(PurePosixPath(page).parent)) + anchor

    return _LINK.sub(moved, markdown)


def make_examples(folder: Path) -> Path:
    """Make the samples and then each example's page, in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for commands in (SAMPLES, [example.command for example in EXAMPLES]):
            list(pool.map(lambda command: run(f"{command} --quiet", folder), commands))
    return folder


def run(command: str, folder: Path) -> str:
    """What a command of weftrace printed."""
    program = [sys.executable, "-c", "import sys; from weftrace.cli.main import main; sys.exit(main())"]
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*program, *command.split()[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _project_page(text: str) -> str:
    """Python-Markdown nests a list at four blanks, GitHub at two."""
    return re.sub(r"^  (?=- |  )", "    ", text, flags=re.MULTILINE)


def _file_page(path: str) -> str:
    text = (ROOT / path).read_text("utf-8")
    name = PurePosixPath(path)
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {name.name}\n\n`{path}`"
    return f"{head}\n\n````{LANGUAGES[name.suffix]}\n{text}\n````\n"


def _reference_page(package: str) -> str:
    """Its docstring, then each public name with its own."""
    lines = [f"# {package}", "", import_module(package).__doc__ or "", ""]
    for name in names_of(package):
        lines += [f"::: {package}.{name}", ""]
    return "\n".join(lines)


def names_of(package: str) -> list[str]:
    """Public names of a package: what `weftrace` names of a wing stands there alone."""
    module = import_module(package)
    return [name for name in module.__all__ if not name.startswith("_")]


def _examples_page() -> str:
    commands = "\n".join([*SAMPLES, *(example.command for example in EXAMPLES)])
    return f"""# What each page looks like

weftrace wrote these pages from simulated runs when this site was built. Each is one file that opens offline.

{_cards(EXAMPLES)}

## Make them yourself

```sh
{commands}
```
"""


def _cards(examples: tuple[Example, ...]) -> str:
    cards = [
        f"<div markdown>\n[![{each.title}](images/{each.picture})]({each.page})\n\n"
        f"**[{each.title}]({each.page})**\n\n{each.text}\n</div>\n"
        for each in examples
    ]
    return '<div class="cards" markdown>\n' + "\n".join(cards) + "\n</div>"


def _with_cards(text: str, folder: Path) -> str:
    """The start page, with the examples' cards and the first lines that its commands print."""
    block = re.search(r"```sh\n(.*?)```\n\n<!-- printed: (\d+) lines -->", text, re.DOTALL)
    assert block is not None
    printed = "".join(run(command, folder) for command in block[1].splitlines()).splitlines()[: int(block[2])]
    shown = "```text\n" + "\n".join(printed).strip() + "\n```"
    return re.sub(r"<!-- printed: .* -->", lambda _: shown, text).replace("<!-- examples -->", _cards(EXAMPLES))
