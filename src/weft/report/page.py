"""A page: one HTML file that opens offline, on data that may be hostile.

Three things keep a kernel called `</script><img onerror=...>` a name and nothing else: Jinja escapes what it writes;
all other data sits in JSON blocks in which no `<` is left; and the page's content policy runs only the one script and
the one style sheet whose hashes it lists, and reaches no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import jinja2

_HERE = files("weft.report")

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)


def render_page(
    template: str,
    *,
    entry: str,
    styles: Iterable[str],
    blocks: Iterable[tuple[str, Mapping[str, Any]]],
    title: str,
    headline: str,
    version: str,
) -> str:
    """One self-contained page, as text.

    template: of `templates/`, extends `base.html`. entry: the page's first module; what it imports, and what those
    import, is its script. styles: names of style sheets of `static/`, joined in this order. blocks: (id, value), the
    data that the script reads. title, headline, version: text, escaped here.
    Raises ValueError where a block holds a NaN or an infinity, which JSON cannot.
    """
    script, style = page_script(entry), "\n".join(_text("static", name) for name in styles)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        title=_speakable(title),
        headline=_speakable(headline),
        version=_speakable(version),
        script=script,
        style=style,
        blocks=[(name, _json_block(value)) for name, value in blocks],
        policy=content_policy(script, style),
    )


def content_policy(script: str, style: str) -> str:
    """The page's Content-Security-Policy: this script and this style by their hashes, inline images, nothing else."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def page_script(entry: str) -> str:
    """The module `entry` and all that it imports, as the text of one script, in the order of their dependencies.

    Browsers refuse to import modules from file://, so the modules are joined here. Each becomes a function that returns
    its exports; they may use only `import { a, b } from "./name.js";` and `export function|const|class`, which keeps
    this simple enough to trust.
    """
    order: list[str] = []
    _visit(entry, order, ())
    script = '"use strict";\n' + "\n".join(_as_function(name) for name in order)
    assert "</script" not in script.lower() and "<!--" not in script, "a page module would end its script block early"
    return script


def _visit(name: str, order: list[str], path: tuple[str, ...]) -> None:
    assert name not in path, f"page modules import each other in a circle: {' > '.join((*path, name))}"
    if name in order:
        return
    for _, needed in _IMPORT.findall(_text("static", f"{name}.js")):
        _visit(needed, order, (*path, name))
    order.append(name)


def _as_function(name: str) -> str:
    source = _text("static", f"{name}.js")
    exports = [exported for _, exported in _EXPORT.findall(source)]
    body = _IMPORT.sub(lambda m: f"const {{{m.group(1)}}} = module_{m.group(2)};", source)
    body = _EXPORT.sub(r"\1 \2", body)
    stray = re.search(r"^(import|export)\b.*", body, re.MULTILINE)
    assert stray is None, f"{name}.js: unsupported form: {stray and stray.group(0)}"
    return f"// {name}.js\nconst module_{name} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _json_block(value: Mapping[str, Any]) -> str:
    """JSON that cannot leave its script block: `<`, `>` and `&` are written as escapes, and everything is ASCII."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _speakable(text: str) -> str:
    """Text without the lone surrogates that a broken file can hold and UTF-8 cannot write."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _text(*path: str) -> str:
    return _HERE.joinpath(*path).read_text(encoding="utf-8")
