"""How to install what an extra of weftrace brings, by the command that works for the way weftrace is installed here."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

#: Extra -> the packages that it names in pyproject.toml.
EXTRAS = {
    "notebook": ("plotly>=5.24",),
    "torch": ("torch>=2.6",),
    "hf": ("torch>=2.4", "transformers>=4.57"),
    "ray": ("ray[client]>=2.9",),
    "dask": ("distributed>=2024.6",),
    "s3": ("s3fs",),
    "gcs": ("gcsfs",),
}


def install_command(extra: str) -> str:
    """The command that installs an extra here: `pip install -e '/home/me/weftrace[hf]'` of a checkout, say."""
    return here().command(extra)


def packages_command(*packages: str) -> str:
    """The command that installs packages here."""
    return here().packages_command(packages)


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
        named = None if self._is_isolated() else self._named(extra)
        return self.packages_command(EXTRAS[extra]) if named is None else self.of_packages(named)

    def packages_command(self, packages: Sequence[str]) -> str:
        """The command that installs packages."""
        if (self.prefix / "pipx_metadata.json").exists():
            return f"pipx inject weftrace {shlex.join(packages)}"
        if (self.prefix / "uv-receipt.toml").exists():
            return f"uv pip install --python {shlex.quote(self.python)} {shlex.join(packages)}"
        return self.of_packages(shlex.join(packages))

    def _is_isolated(self) -> bool:
        """Whether pipx or uv keeps this environment as that of one program."""
        return any((self.prefix / name).exists() for name in ("pipx_metadata.json", "uv-receipt.toml"))

    def of_packages(self, arguments: str) -> str:
        """pip's command for these, by the pip that installs into this environment."""
        pip = shutil.which("pip")
        if pip is not None and Path(pip).parent == Path(self.python).parent:
            return f"pip install {arguments}"
        if _is_uv(self.prefix) and shutil.which("uv") is not None:
            return f"uv pip install --python {shlex.quote(self.python)} {arguments}"
        return f"{shlex.quote(self.python)} -m pip install {arguments}"

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
        named = shlex.quote(f"{path}[{extra}]")
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


def _is_uv(prefix: Path) -> bool:
    try:
        return "\nuv = " in (prefix / "pyvenv.cfg").read_text("utf-8")
    except OSError:
        return False
