"""How to install what an extra of weftrace brings, by the command that works for the way weftrace is installed here."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

#: Extra -> the packages that it names in pyproject.toml.
EXTRAS = {
    "notebook": ("plotly>=5.24",),
    "torch": ("torch>=2.4",),
    "hf": ("torch>=2.4", "transformers>=4.57"),
    "ray": ("ray[client]>=2.9",),
    "dask": ("distributed>=2024.6",),
    "s3": ("s3fs",),
    "gcs": ("gcsfs",),
}


def install_command(extra: str) -> str:
    """The command that installs an extra here: `pip install -e '.[hf]'` of a checkout, say."""
    return here().command(extra)


def upgrade_command(package: str) -> str:
    """The command that installs the newest version of a package here."""
    return here().of_packages(f"--upgrade {package}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How weftrace is installed. prefix: of its environment; python: its interpreter. url: the `direct_url.json` that
    the installer left, empty where there is none or where it is of another weftrace than the one that runs."""

    prefix: Path
    python: str
    url: Mapping[str, Any] = field(default_factory=dict)

    def command(self, extra: str) -> str:
        """The command that installs an extra. The packages themselves where weftrace cannot be named: it was not
        installed, or came from an index or a file that is gone."""
        packages = EXTRAS[extra]
        if (self.prefix / "pipx_metadata.json").exists():
            return f"pipx inject weftrace {shlex.join(packages)}"
        if (self.prefix / "uv-receipt.toml").exists():
            return f"uv pip install --python {shlex.quote(self.python)} {shlex.join(packages)}"
        named = self._named(extra)
        return self.of_packages(shlex.join(packages) if named is None else named)

    def of_packages(self, arguments: str) -> str:
        """pip's command for these, by the pip that installs into this environment."""
        pip = shutil.which("pip")
        if pip is not None and Path(pip).parent == Path(self.python).parent:
            return f"pip install {arguments}"
        if _is_uv(self.prefix) and shutil.which("uv") is not None:
            return f"uv pip install --python {shlex.quote(_near(self.python))} {arguments}"
        return f"{shlex.quote(_near(self.python))} -m pip install {arguments}"

    def _named(self, extra: str) -> str | None:
        """weftrace with the extra, as it was installed: a folder, a file, a repository. None where it is not known."""
        url = str(self.url.get("url", ""))
        if vcs := self.url.get("vcs_info"):
            at = vcs.get("requested_revision")
            return shlex.quote(f"weftrace[{extra}] @ {vcs.get('vcs', 'git')}+{url}{f'@{at}' if at else ''}")
        if not url.startswith("file://"):
            return shlex.quote(f"weftrace[{extra}] @ {url}") if url else None
        path = _path_of(url)
        if not path.exists():
            return None
        named = shlex.quote(f"{_near(str(path), folder='.')}[{extra}]")
        return f"-e {named}" if self.url.get("dir_info", {}).get("editable") else named


@cache
def here() -> Installation:
    """How the weftrace that runs is installed."""
    return Installation(prefix=Path(sys.prefix), python=sys.executable or "python", url=_direct_url())


def _direct_url() -> dict[str, Any]:
    """What the installer says of where weftrace is from; nothing where it says it of another one."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    package = Path(__file__).resolve().parent
    try:
        found = distribution("weftrace")
        url: dict[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    if url.get("dir_info", {}).get("editable"):
        return url if package.is_relative_to(_path_of(str(url.get("url"))).resolve()) else {}
    return url if Path(str(found.locate_file("weftrace"))).resolve() == package else {}


def _path_of(url: str) -> Path:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return Path(url2pathname(urlsplit(url).path))


def _near(path: str, *, folder: str = "") -> str:
    """A path as it is shortest from here, where it lies in this folder. folder: this folder's own name."""
    try:
        within = os.path.relpath(path)
    except ValueError:  # on another drive
        return path
    if within == os.curdir:
        return folder or path
    return path if within.startswith(os.pardir) else os.path.join(os.curdir, within) if folder else within


def _is_uv(prefix: Path) -> bool:
    try:
        return "\nuv = " in (prefix / "pyvenv.cfg").read_text("utf-8")
    except OSError:
        return False
