"""Addresses of clusters, and what is said of a cluster that cannot be used."""

from __future__ import annotations

import json
import os
import pickle
import platform
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from weftrace.errors import ClusterError, ClusterWarning
from weftrace.installing import EXTRAS
from weftrace.workers import connect, on_dask, parcels
from weftrace.workers.addresses import Address, in_time, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("local", Address("local")),
        ("ray", Address("ray")),
        ("dask", Address("dask")),
        ("ray://head:10001", Address("ray", "head", 10001)),
        ("ray://head", Address("ray", "head", 10001)),
        ("dask://10.0.0.7:9000", Address("dask", "10.0.0.7", 9000)),
        ("dask://gpu-17.cluster/", Address("dask", "gpu-17.cluster", 8786)),
        ("dask://[fe80::1]:8786", Address("dask", "fe80::1", 8786)),
        ("dask:///home/me/scheduler.json", Address("dask", file="/home/me/scheduler.json")),
    ],
)
def test_an_address(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_the_place_of_an_address_is_as_urls_have_it() -> None:
    assert parse_address("ray://head").place == "head:10001"
    assert parse_address("dask://[fe80::1]").place == "[fe80::1]:8786"


@pytest.mark.parametrize(
    "text", ["", "head:10001", "tcp://head:8786", "ray://", "ray://head:70000", "ray://a/b", "spark://h"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ClusterError, match="names no cluster: write ray://HOST:10001 or dask://HOST:8786"):
        parse_address(text)


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize("kind", ["ray", "dask"])
def test_nothing_answers(kind: str, closed_port: int) -> None:
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[kind])
    with pytest.raises(ClusterError, match=f"nothing answers at port {closed_port} of 127.0.0.1"):
        connect(f"{kind}://127.0.0.1:{closed_port}")


def test_the_file_of_a_scheduler(tmp_path: Path, closed_port: int) -> None:
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    with pytest.raises(ClusterError, match=r"scheduler\.json: is no file of a Dask scheduler"):
        connect(f"dask://{file}")
    file.write_text(json.dumps({"address": f"tcp://127.0.0.1:{closed_port}"}))
    with pytest.raises(ClusterError, match=f"nothing answers at port {closed_port}"):
        connect(f"dask://{file}")


def test_something_else_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weftrace.workers.addresses.PATIENCE_S", 0.01)
    never = socket.socketpair()
    with pytest.raises(ClusterError, match="here: something answers there, but not as a cluster does"):
        in_time("here", lambda: never[0].recv(1))
    for end in never:
        end.close()


@pytest.mark.parametrize("kind", ["ray", "dask"])
def test_the_command_says_what_is_not_installed(kind: str, tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text("[]")
    code = f"""
import sys
sys.modules["ray"] = sys.modules["distributed"] = None
sys.argv = ["weftrace", "report", {str(tmp_path)!r}, "--cluster", "{kind}"]
from weftrace.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"weftrace: {kind.capitalize()} is not installed here: ")
    assert "pip install " in done.stderr
    assert EXTRAS[kind][0] in done.stderr or f"[{kind}]" in done.stderr


# --- a Dask cluster that can be reached ---------------------------------------------------------------------------


class Client:
    """Of a scheduler whose workers have these Pythons and numbers of threads."""

    def __init__(self, *workers: tuple[str, int]) -> None:
        self.workers, self.is_closed = workers, False

    def get_versions(self) -> dict[str, Any]:
        ours = {"packages": {"python": platform.python_version() + ".final.0"}}
        theirs = {
            f"tcp://10.0.0.{n}:4000": {"packages": {"python": python}} for n, (python, _) in enumerate(self.workers)
        }
        return {"scheduler": ours, "workers": theirs}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {n: {"nthreads": threads} for n, (_, threads) in enumerate(self.workers)}}

    def close(self) -> None:
        self.is_closed = True


def test_another_python_is_told_before_anything_is_sent() -> None:
    client = Client((platform.python_version(), 1), ("3.9.7.final.0", 1))
    with pytest.raises(ClusterError, match=r"dask: tcp://10\.0\.0\.1:4000 runs Python 3\.9, and this machine"):
        on_dask.check_pythons(client)
    assert client.is_closed
    on_dask.check_pythons(Client((platform.python_version(), 1)))


def test_a_cluster_that_will_keep_one_waiting_is_told() -> None:
    with pytest.warns(ClusterWarning, match="no workers yet"):
        on_dask.advise(Client())
    with pytest.warns(
        ClusterWarning, match="run 32 threads each, which take turns in one process: start them with --nth"
    ):
        on_dask.advise(Client(("3.12", 1), ("3.12", 32)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_dask.advise(Client(("3.12", 1), ("3.12", 1)))


# --- what travels -------------------------------------------------------------------------------------------------


def test_a_call_is_answered_and_its_error_is_its_own() -> None:
    call = parcels.courier()
    assert parcels.unpacked(call(parcels.packed(pickle.dumps, divmod, (7, 2), {}))) == (3, 1)
    with pytest.raises(TypeError, match="expected 2 arguments"):
        call(parcels.packed(pickle.dumps, divmod, (7,), {}))


@pytest.mark.parametrize("other", [("0.0.7", None), (None, "3.9")])
def test_another_version_is_told_by_both_numbers(other: tuple[str | None, str | None]) -> None:
    call, *ours = parcels.packed(pickle.dumps, divmod, (7, 2), {})
    theirs = [theirs or own for theirs, own in zip(other, ours, strict=True)]
    summary = (
        "the worker on {} has weftrace {} with Python {}, and what it was sent comes from weftrace {} with Python {}: "
    )
    with pytest.raises(ClusterError, match=summary.format(socket.gethostname(), *ours, *theirs)):
        parcels.unpacked(parcels.courier()((call, theirs[0], theirs[1])))


def test_a_worker_without_weftrace_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    call, parcel = parcels.courier(), parcels.packed(pickle.dumps, divmod, (7, 2), {})
    monkeypatch.setitem(sys.modules, "weftrace", None)
    result, why = call(parcel)
    assert result is None and f"the worker on {socket.gethostname()} has no weftrace" in why


def test_a_module_that_a_worker_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine_alone.py").write_text("def double(x): return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from mine_alone import double  # type: ignore[import-not-found]

    parcel = parcels.packed(pickle.dumps, double, (7,), {})
    monkeypatch.delitem(sys.modules, "mine_alone")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    with pytest.raises(ClusterError, match=r"cannot load what it is to call \(ModuleNotFoundError: .*'mine_alone'\)"):
        parcels.unpacked(parcels.courier()(parcel))
