"""A page: one HTML file that opens offline, on data that may be hostile.

Three things keep a kernel called `</script><img onerror=...>` a name and nothing else: Jinja escapes what it writes;
all other data sits in JSON blocks in which no `<` is left; and the page's content policy runs only the one script and
the one style sheet whose hashes it lists, and reaches no network.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from weftrace.files.columns import page_columns
from weftrace.render.packed import packed_block

if TYPE_CHECKING:  # and imported where a page is written: most reports are not
    import jinja2
    import markupsafe

#: The kit: what pages of all wings are made of.
KIT = "weftrace.render"
#: The block that holds the definitions of a page's terms; `static/start.js` reads it.
TERMS_BLOCK = "weftrace-terms"
#: The block that holds the columns of a page's tables; `static/tables.js` reads it.
COLUMNS_BLOCK = "weftrace-columns"

#: Comments on lines of their own, which a page does not need: `//`, and JSDoc with its types.
_COMMENT = re.compile(r"^[ \t]*(?://.*|/\*\*(?s:.*?)\*/[ \t]*)\n", re.MULTILINE)
_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\./|render/)([a-z_]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
_DARK = re.compile(r'^:root\[data-theme="dark"\] (\{.*?\})$', re.MULTILINE | re.DOTALL)
_DARK_SYSTEM = r'@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) \1 }\n\g<0>'

#: The folders of a path: a header names the file alone.
_FOLDERS = re.compile(r"(?<![^\s(=])(?:/|[A-Za-z]:[\\/])(?:[^\s/\\]+[/\\])+")
#: So many characters of the headline stand on two lines of a page 1,400 pixels wide.
_MOST_IN_HEADLINE = 200

#: A number and its unit.
_QUANTITY = re.compile(r"\d[\d.,]* (?:%|[nµm]?s|[kMGTP]?i?B|[kMGTPEZ]?FLOPs?)(?!\w)")

#: Where a module of a page lives: (package, name without ending).
_Place = tuple[str, str]


def render_page(
    template: str,
    *,
    home: str,
    entry: str,
    styles: Iterable[str],
    blocks: Iterable[tuple[str, Mapping[str, Any]]],
    terms: Mapping[str, tuple[str, str]],
    tables: Mapping[str, Any] | None = None,
    title: str,
    headline: str,
    version: str,
) -> str:
    """One self-contained page, as text.

    home: the package of the wing that draws it ("weftrace.flops.render"), which holds `template` and a folder `static`.
    template: extends the kit's `base.html`. entry: the page's first module; what it imports, and what those import, is
    its script. styles: names of style sheets of `static/`, joined in this order; "render/x.css" is one of the kit's.
    blocks: (id, value), the data that the script reads. terms: key -> (term, what it means), the page's definitions,
    which stand in a block of their own. tables: name -> type of the rows, of the tables whose columns the script asks
    for (`columnsOf` of `tables.js`). title, headline, version: text, escaped here; the first
    two without the folders of their paths.
    Raises ValueError where a block holds a NaN or an infinity, which JSON cannot.
    """
    inner = (*blocks, (TERMS_BLOCK, dict(terms)), (COLUMNS_BLOCK, page_columns(tables or {})))
    script, style = page_script(entry, home), "\n".join(_style(name, home) for name in styles)
    return (
        _templates(home)
        .get_template(template)
        .render(
            title=without_folders(_speakable(title)),
            headline=_headline(without_folders(_speakable(headline))),
            version=_speakable(version),
            script=script,
            style=style,
            blocks=[(name, _json_block(value)) for name, value in inner],
            policy=content_policy(script, style),
        )
    )


def content_policy(script: str, style: str) -> str:
    """The page's Content-Security-Policy: this script and this style by their hashes, inline images, nothing else."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def page_script(entry: str, home: str) -> str:
    """The module `entry` of `home` and all that it imports, as the text of one script, in the order of dependencies.

    Browsers refuse to import modules from file://, so the modules are joined here. Each becomes a function that returns
    its exports; they may use only `export function|const|class` and `import { a, b } from "./name.js";`, a module of
    the same folder, or `from "render/name.js"`, one of the kit, which keeps this simple enough to trust.
    """
    order: list[_Place] = []
    _visit((home, entry), order, ())
    script = '"use strict";\n' + "\n".join(_as_function(place) for place in order)
    assert "</script" not in script.lower() and "<!--" not in script, "a page module would end its script block early"
    return script


def short_numbers(value: Any, digits: int) -> Any:
    """The value with every float inside it cut to so many significant digits, in the fewest characters: 2.0 as 2."""
    if isinstance(value, float):
        short = float(f"{value:.{digits}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, Mapping):
        return {key: short_numbers(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [short_numbers(inner, digits) for inner in value]
    return value


def tied(text: str) -> markupsafe.Markup:
    """Text as HTML, each number kept on one line with its unit: no line begins with the "%" of the one before."""
    import markupsafe

    return markupsafe.Markup(_QUANTITY.sub(r'<span class="tied">\g<0></span>', str(markupsafe.escape(text))))


def without_folders(text: str) -> str:
    """Text in which absolute paths are their last part alone."""
    return _FOLDERS.sub("", text)


def _headline(text: str) -> markupsafe.Markup:
    """The headline: what fits on two lines, and the rest as a paragraph below."""
    import markupsafe

    ends = [0, *(found.end() for found in re.finditer(r"(?:[.!?](?= [A-Z0-9])|;(?= )|[.!?]?$)", text))]
    end = max(end for end in ends if end <= _MOST_IN_HEADLINE)
    end = end or max(text.rfind(", ", 0, _MOST_IN_HEADLINE), text.rfind(": ", 0, _MOST_IN_HEADLINE)) + 1
    end = end or text.rfind(" ", 0, _MOST_IN_HEADLINE) + 1 or len(text)
    first, rest = text[:end].removesuffix(";"), text[end:].strip()
    below = markupsafe.Markup('<p class="headline-rest">{}</p>').format(tied(rest)) if rest else ""
    return markupsafe.Markup("<h1>{}</h1>{}").format(tied(first), below)


@cache
def _templates(home: str) -> jinja2.Environment:
    """The templates of a wing, each compiled once."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _template(name, home)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str, home: str) -> str:
    """A template of a wing; "base.html" and "render/x.html" are the kit's."""
    own = name.removeprefix("render/")
    return _text(home if own == name != "base.html" else KIT, own)


def _visit(place: _Place, order: list[_Place], path: tuple[_Place, ...]) -> None:
    assert place not in path, f"page modules import each other in a circle: {(*path, place)}"
    if place in order:
        return
    for _, where, needed in _IMPORT.findall(_source(place)):
        _visit(_imported(place, where, needed), order, (*path, place))
    order.append(place)


def _imported(importer: _Place, where: str, name: str) -> _Place:
    return (KIT if where == "render/" else importer[0], name)


def _as_function(place: _Place) -> str:
    source = _source(place)
    exports = [exported for _, exported in _EXPORT.findall(source)]
    body = _IMPORT.sub(lambda m: f"const {{{m[1]}}} = {_constant(_imported(place, m[2], m[3]))};", source)
    body = _COMMENT.sub("", _EXPORT.sub(r"\1 \2", body))
    stray = re.search(r"^(import|export)\b.*", body, re.MULTILINE)
    assert stray is None, f"{place}: unsupported form: {stray and stray.group(0)}"
    exported = ", ".join(exports)
    return f"// {place[1]}.js\nconst {_constant(place)} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


def _constant(place: _Place) -> str:
    return f"{'kit' if place[0] == KIT else 'module'}_{place[1]}"


def _source(place: _Place) -> str:
    return _text(place[0], "static", f"{place[1]}.js")


def _style(name: str, home: str) -> str:
    """A style sheet; what it sets for the dark theme is set for a dark system too, until a reader chooses."""
    own = name.removeprefix("render/")
    return _DARK.sub(_DARK_SYSTEM, _text(home if own == name else KIT, "static", own))


def _json_block(value: Mapping[str, Any]) -> str:
    """JSON that cannot leave its script block: `<`, `>` and `&` are written as escapes, and everything is ASCII."""
    return packed_block(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _speakable(text: str) -> str:
    """Text without the lone surrogates that a broken file can hold and UTF-8 cannot write."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _text(package: str, *path: str) -> str:
    return files(package).joinpath(*path).read_text(encoding="utf-8")
