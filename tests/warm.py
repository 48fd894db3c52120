"""`weftrace` for the shell, quick to start: a process that has imported the libraries, and forks for each call.

Most of the time of a short command goes into importing polars, numba, torch and weftrace. The fixture `warm` runs a
server that imports them once (no more than that: they compute nothing, and so run no threads that a fork would break),
and writes a `weftrace` into a folder for PATH. That program hands its arguments, folder, environment and its three open
files to the server. A fork of the server then is the command: a process of its own with real pipes and an exit code.
What weftrace imports late is tested on processes started from nothing: tests/test_house.py, tests/cli/test_cli.py.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

import pytest

from tests.compile_once import share_compiled_functions

ROOT = Path(__file__).resolve().parents[1]
#: Variables of a call's environment that limit its process: see `_limit`.
SECONDS, SPARE_BYTES = "WARM_SECONDS", "WARM_SPARE_BYTES"
LIBRARIES = (
    "fsspec", "isal", "jinja2", "msgspec", "numba", "numpy", "numpy.ma", "polars", "rich.progress", "rich.table",
    "torch", "torch._dynamo", "torch.distributed.tensor", "torch.testing._internal", "typer._adapters",
    "typer.rich_utils",
)  # fmt: skip

# What stands for `weftrace` on PATH, and for `python`. -S -E: it needs no site-packages. For sh, the second and third
# line are a command, for Python a text; a "#!" with Python's path could hold no space.
PROGRAM = """\
#!/bin/sh
'''exec' "{python}" -SE "$0" "$@"
' '''
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    said = json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(said).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(said)
    code = server.recv(1)
sys.exit(code[0] if code else "the warm weftrace ended without an exit code")
"""


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH in which `weftrace` and `python` are there at once: by one server for all processes of tests,
    which ends when the last of them lets go of its pipe."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "warm"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "server").exists():
            held = _start(folder)
        else:
            held = os.open(folder / "users", os.O_WRONLY | os.O_NONBLOCK)
    yield folder
    os.close(held)


def _start(folder: Path) -> int:
    """Start a server. Returns what holds it: the end of a pipe to write to."""
    for name in ("weftrace", "python"):
        (folder / name).write_text(PROGRAM.format(python=sys.executable, path=str(folder / "server")))
        (folder / name).chmod(0o755)
    os.mkfifo(folder / "users")
    users = os.open(folder / "users", os.O_RDONLY | os.O_NONBLOCK)
    held = os.open(folder / "users", os.O_WRONLY)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(folder / "server")], cwd=ROOT, stdin=users, stdout=subprocess.PIPE
    )
    os.close(users)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return held


def serve(path: str) -> None:
    """Fork for each call, until nobody holds stdin open: then the tests are over."""
    import weftrace

    modules = (module.name for module in pkgutil.walk_packages(weftrace.__path__, "weftrace."))
    for name in (*LIBRARIES, *(name for name in modules if not {"runtime", "run", "__main__"} & set(name.split(".")))):
        importlib.import_module(name)
    gc.freeze()  # forks look at none of these objects when they collect, and so copy none
    gc.set_threshold(20_000, 20, 20)  # as in the tests
    share_compiled_functions()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while server in select.select([server, sys.stdin], [], [])[0]:
            call, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _answer(call)
            call.close()
            _wait_for_forks(os.WNOHANG)
    _wait_for_forks(0)


def _wait_for_forks(options: int) -> None:
    """Lets forks that have ended go, so that their processor time counts as this process's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options) != (0, 0):
            pass


def _answer(call: socket.socket) -> NoReturn:
    """In a fork: run the command in a second one, and tell the exit code when that has ended, however it ends."""
    length, files, _, _ = socket.recv_fds(call, 8, 3)
    program, arguments, folder, environment = json.loads(_read(call.makefile("rb"), int.from_bytes(length, "big")))
    command = os.fork()
    if command == 0:
        call.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        _limit(environment.pop(SECONDS, ""), environment.pop(SPARE_BYTES, ""))
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _end_after(partial(_run, program, arguments))
    for file in files:
        os.close(file)
    _, status = os.waitpid(command, 0)
    ended = os.waitstatus_to_exitcode(status)
    call.sendall(bytes([ended if ended >= 0 else 128 - ended]))
    os._exit(0)


def _limit(seconds: str, spare_bytes: str) -> None:
    """End this process with a signal after so many seconds of processor time, or ten times as many of any; let it have
    no more address space than now and so many bytes."""
    if seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        signal.alarm(10 * int(seconds))
    if spare_bytes:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + int(spare_bytes),) * 2)


def _read(file: IO[bytes], length: int) -> bytes:
    data = file.read(length)
    assert len(data) == length, (len(data), length)
    return data


def _run(program: str, arguments: list[str]) -> None:
    """`weftrace ARGUMENTS` or `python SCRIPT`."""
    files = (open(number, mode, closefd=False) for number, mode in enumerate("rww"))  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = files
    sys.path[0] = os.getcwd() if program == "python" else str(Path(sys.executable).parent)
    # What processes that the command starts take for the main program: its own file, not this one.
    main_module = sys.modules["__main__"]
    main_module.__spec__ = None
    main_module.__file__ = arguments[0] if program == "python" else str(Path(sys.executable).parent / "weftrace")
    if program == "python":
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        sys.argv = [program, *arguments]
        from weftrace.cli.main import main

        main()


def _end_after(run: Callable[[], None]) -> NoReturn:
    """Run it, and end the process as Python does: wait for threads, shut pools down, flush, exit with its code.

    But leave the memory as it is, as multiprocessing does after a fork. To take all of torch apart would copy every
    page that is shared with the server, and cost more than most commands.
    """
    code: object = 0
    try:
        run()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stderr.flush()
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    os._exit(code or 0)


if __name__ == "__main__":
    serve(sys.argv[1])
