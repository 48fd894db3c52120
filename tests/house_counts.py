"""How large the house is, and what is written more than once: `make counts` prints two states side by side.

A state is a git revision or a folder: `python -m tests.house_counts 26bb10e9 .` puts the state before the house was
made lean beside the working tree. Lines of code hold something other than blanks, comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

#: Path below the root -> text.
Files = Mapping[str, str]
#: What is counted, by the name of its row.
Counts = dict[str, int]

#: The rooms of a wing by a pattern of the path inside it; the first that fits counts.
ROOMS = {
    "torch runtime": r"/runtime/",
    "command line": r"/cli/",
    "words": r"words\.py$",
    "kinds and __init__": r"(kinds|outputs|/__init__)\.py$",
    "documents": r"document|/told\.py$",
    "figures": r"/render/.*figure",
    "terminal": r"/render/.*(terminal|text|console|markdown)",
    "pages": r"/render/",
    "values": r"",
}
#: Words that plain ones replace. They are counted as whole words, in code, docstrings and comments.
RENAMED = """
told foretold astray alike lost pays crossings prepared made_of root_blame late_ranks late_ranks_apart told_apart
movers two_samples merged_rows stories parts_beside saved_shares ranks_apart in_no_sum best_case code_account
busy_stretches mail carried agreement slips squeeze quiet hand_overs misread walking working glue pieces Shown shown
doors ways
"""
GENERATED = re.compile(r"(\.|/)schema\.json$|^types/documents\.d\.ts$")
SHORT = 60  # lines of a module that could stand in its only reader
MANY = 10  # parameters
SHARE = 0.6  # of a TypedDict's fields, of which a dataclass has all: it repeats that


def files_of(state: str) -> Files:
    """The files of a git revision, or of a folder: those that git would commit where it is a checkout."""
    if Path(state).is_dir():
        folder = Path(state)
        listed = subprocess.run(["git", "-C", state, "ls-files", "-co", "--exclude-standard"], capture_output=True)
        names = listed.stdout.decode().splitlines() or [p.relative_to(folder).as_posix() for p in folder.rglob("*.*")]
        return {
            name: (folder / name).read_text("utf-8") for name in names if _counted(name) and (folder / name).is_file()
        }
    archive = subprocess.run(["git", "archive", state], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = [(each.name, tar.extractfile(each)) for each in tar if each.isfile() and _counted(each.name)]
        return {name: file.read().decode() for name, file in found if file is not None}


def _counted(name: str) -> bool:
    return name.startswith(("src/weftrace/", "types/")) and name.endswith(
        (".py", ".js", ".css", ".html", ".json", ".ts")
    )


def counts(files: Files) -> dict[str, Counts]:
    """Title of a table -> its rows."""
    python = {name: text for name, text in files.items() if name.endswith(".py")}
    trees = {name: ast.parse(text) for name, text in python.items()}
    lines = {name: code_lines(text) for name, text in python.items()}
    wings, rooms = Counter[str](), Counter[str]()
    for name, number in lines.items():
        wings[PurePosixPath(name).parts[2].removesuffix(".py") if name.count("/") > 2 else "(ground)"] += number
        rooms[room_of(name)] += number
    pages = {f"{end.upper()} of pages": _lines_of(files, "." + end) for end in ("js", "css", "html")}
    return {
        "Lines of code": {
            "Python": sum(lines.values()),
            "files of Python": len(lines),
            **pages,
            "JS, CSS and HTML": sum(pages.values()),
            "generated and committed": sum(len(text.splitlines()) for n, text in files.items() if GENERATED.search(n)),
        },
        "Python by room": {name: rooms[name] for name in ROOMS},
        "Python by folder": dict(sorted(wings.items(), key=lambda pair: -pair[1])),
        "Written again": repeated(trees),
        "Modules": {f"under {SHORT} lines with one reader": len(short_modules(python))},
        "Renamed words": renamed(python),
    }


def code_lines(text: str) -> int:
    """Lines of Python that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - docstrings)


def room_of(name: str) -> str:
    """The room of a file of Python."""
    return next(room for room, pattern in ROOMS.items() if re.search(pattern, name))


def _lines_of(files: Files, end: str) -> int:
    """Lines of the pages' code, without blanks and comments."""
    texts = (
        re.sub(r"/\*.*?\*/|<!--.*?-->", "", text, flags=re.S) for name, text in files.items() if name.endswith(end)
    )
    return sum(1 for text in texts for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


@dataclass(frozen=True, slots=True)
class _Class:
    file: str
    name: str
    fields: frozenset[str]
    bases: tuple[str, ...]
    is_value: bool  # a dataclass, a NamedTuple or a struct


def repeated(trees: Mapping[str, ast.Module]) -> Counts:
    """What says again what another place says."""
    classes = [found for file, tree in trees.items() for found in _classes(file, tree)]
    dicts = {"TypedDict"}
    while more := {each.name for each in classes if dicts.intersection(each.bases)} - dicts:
        dicts |= more
    typed = [each for each in classes if dicts.intersection(each.bases)]
    values = [each.fields for each in classes if each.is_value]
    homes = defaultdict(set)
    for each in classes:
        if not each.name.startswith("_"):
            homes[each.name].add(each.file)
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    return {
        "TypedDicts": len(typed),
        "TypedDicts that repeat a value": sum(_repeats(each.fields, values) for each in typed),
        'hand copies "x": y.x': sum(_copies(node) for node in nodes if isinstance(node, ast.Dict)),
        f"functions with more than {MANY} parameters": sum(_parameters(node) > MANY for node in nodes),
        "public class names": len(homes),
        "of them in two files or more": sum(len(files) > 1 for files in homes.values()),
    }


def _classes(file: str, tree: ast.Module) -> Iterator[_Class]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            parts = [
                part.target.id
                for part in node.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            ]
            bases, marks = tuple(map(_name, node.bases)), map(_name, node.decorator_list)
            is_value = "dataclass" in marks or bool({"Struct", "NamedTuple"}.intersection(bases))
            yield _Class(file, node.name, frozenset(parts), bases, is_value)


def _name(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]


def _repeats(fields: frozenset[str], values: list[frozenset[str]]) -> bool:
    return len(fields) > 2 and any(len(fields & value) >= SHARE * len(fields) for value in values)


def _copies(node: ast.Dict) -> int:
    return sum(
        isinstance(key, ast.Constant)
        and isinstance(value, ast.Attribute)
        and isinstance(value.value, ast.Name)
        and key.value == value.attr
        for key, value in zip(node.keys, node.values, strict=True)
    )


def _parameters(node: ast.AST) -> int:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return 0
    return len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)


def short_modules(python: Files) -> dict[str, str]:
    """Module -> the only module that imports it, of those under 60 lines."""
    modules = {
        name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in python
    }
    readers: dict[str, set[str]] = defaultdict(set)
    for module, name in modules.items():
        for node in ast.walk(ast.parse(python[name])):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    readers[full if full in modules else node.module].add(module)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    readers[alias.name].add(module)
    return {
        module: next(iter(readers[module]))
        for module, name in sorted(modules.items())
        if len(readers[module] - {module}) == 1
        and not name.endswith(("__init__.py", "__main__.py"))
        and len(python[name].splitlines()) < SHORT
    }


def renamed(python: Files) -> Counts:
    """Uses of each renamed word."""
    words = Counter(word for text in python.values() for word in re.findall(r"\w+", text))
    uses = {word: words[word] for word in RENAMED.split()}
    return {**uses, "all": sum(uses.values())}


def table(titles: list[str], states: list[dict[str, Counts]]) -> str:
    """Markdown: a column per state."""
    lines = []
    for title in states[0]:
        lines += [f"| {' | '.join([title, *titles])} |", f"|{':---|' + '---:|' * len(titles)}"]
        rows = dict.fromkeys(name for state in states for name in state[title])
        lines += [f"| {' | '.join([name, *(f'{state[title].get(name, 0):,}' for state in states)])} |" for name in rows]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Print the counts of the states that are named; of the working tree without one."""
    states = sys.argv[1:] or [str(ROOT)]
    titles = [state if not Path(state).is_dir() else "working tree" for state in states]
    files = [files_of(state) for state in states]
    print(table(titles, [counts(each) for each in files]))
    short = short_modules({name: text for name, text in files[-1].items() if name.endswith(".py")})
    print("\n".join(f"- {module} is read by {reader} alone" for module, reader in short.items()))


if __name__ == "__main__":
    main()
