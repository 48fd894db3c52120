"""What a user is told when a file cannot be read: which file, what is wrong with it, and what helps."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import polars as pl
import pytest
import zstandard

from tests.trace.chrome.files import encoded, event, read_file, read_text, text_of
from weftrace.errors import TraceError, WeftraceError
from weftrace.trace.chrome import cut as chrome_cut
from weftrace.trace.chrome.reader import read_chrome

GOOD = text_of(event())


def said(folder: Path, data: bytes | str, name: str = "trace.json") -> str:
    """The error of reading such a file, which must name it."""
    with pytest.raises(TraceError) as caught:
        read_file(folder, data, name)
    text = str(caught.value)
    assert text.startswith(f"{folder / name}: ")
    assert "\n" not in text
    assert text.isprintable()
    return text.removeprefix(f"{folder / name}: ")


@pytest.mark.parametrize("data", [b"", b" \n\t ", b"\xef\xbb\xbf", gzip.compress(b""), zstandard.compress(b"")])
def test_empty(data: bytes, tmp_path: Path) -> None:
    assert said(tmp_path, data) == "is empty. Was the profiler stopped before it could write?"


def test_zero_bytes(tmp_path: Path) -> None:
    text = said(tmp_path, b"\0" * 5000)
    assert text == "holds only zero bytes. Was the disk full, or did the host crash?"


def test_cut_before_the_events(tmp_path: Path) -> None:
    packed = gzip.compress(text_of(event(), x=os.urandom(3000).hex()).encode())
    assert "the gzip data ends early" in said(tmp_path, packed[:5], "a.json.gz")
    assert "the gzip data ends early" in said(tmp_path, packed[:500], "a.json.gz")
    assert "cut short" in said(tmp_path, GOOD[:10])
    assert "holds no event that can be kept; it is damaged: the list of events is not closed" in said(
        tmp_path, GOOD[:20]
    )


@pytest.mark.parametrize(
    ("data", "seems", "remedy"),
    [
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "HTML or XML", "Download the trace itself"),
        (b'\n  <?xml version="1.0"?>', "HTML or XML", "Download the trace itself"),
        (GOOD.encode("utf-16"), "UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
        (GOOD.encode("utf-16-be"), "UTF-16 text", "iconv"),
        (GOOD.encode("utf-16-le"), "UTF-16 text", "iconv"),
        (b"BZh91AY&SY" + bytes(50), "bzip2", "Unpack it first"),
        (b"\xfd7zXZ\0" + bytes(50), "xz", "Unpack it first"),
        (b"\x04\x22\x4d\x18" + bytes(50), "lz4", "Unpack it first"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer", "git lfs pull"),
    ],
)
def test_other_formats_are_named(data: bytes, seems: str, remedy: str, tmp_path: Path) -> None:
    for stored in (data, gzip.compress(data)):
        text = said(tmp_path, stored)
        assert text.startswith("is not trace JSON: it seems to be ")
        assert seems in text
        assert remedy in text


def test_pickles_and_archives_and_tables_are_named_and_never_loaded(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    for protocol in (2, 3, 4, 5):
        assert "a Python pickle, which weftrace never loads" in said(tmp_path, pickle.dumps(Bomb(), protocol))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trace.json", GOOD)
    assert "a zip archive" in said(tmp_path, packed.getvalue())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("trace.json")
        info.size = len(GOOD)
        tar.addfile(info, io.BytesIO(GOOD.encode()))
    assert "a tar archive" in said(tmp_path, packed.getvalue())
    assert "a tar archive" in said(tmp_path, gzip.compress(packed.getvalue()), "trace.tar.gz")
    packed = io.BytesIO()
    pl.DataFrame({"a": [1]}).write_parquet(packed)
    assert "a Parquet file" in said(tmp_path, packed.getvalue())
    with sqlite3.connect(tmp_path / "nsys.sqlite") as database:
        database.execute("create table kernels (a int)")
    with pytest.raises(TraceError, match="it seems to be an SQLite database"):
        read_chrome(tmp_path / "nsys.sqlite")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schemaVersion": 1, "nodes": []}', "it has no traceEvents, only 'schemaVersion', 'nodes'"),
        (
            '{"schema": "weftrace.diff/1", "before": {}}',
            "is a document that weftrace wrote (weftrace.diff/1), not a trace",
        ),
        ('{"traceEvents": {"ph": 1}}'.replace("ph", "a"), "its traceEvents is not a list"),
        ('{"traceEvents": null}', "its traceEvents is not a list"),
        ("{}", "cut short before its events"),
        ("{", "cut short before its events"),
        ('{"\u202e</script>\x1b": 1}', "only '\\u202e</script>\\x1b'"),
        ("hello, world", "it starts with 'hello, world', where JSON would start with { or ["),
        ("7", "it starts with '7'"),
        ("null", "it starts with 'null'"),
        ("[]", "holds no event that can be kept"),
        ("[1, 2, [3]]", "3 were dropped (not an object: 3)"),
        ('[{"a": 1}, {"b": 2}]', "2 were dropped (no ph: not an event: 2)"),
        ('{"traceEvents": []}', "holds no event that can be kept"),
        ('[{"ph": "X", "name": "k"}]', "1 was dropped (no usable time: 1)"),
        ('[{"ph": "C", "ts": 1}, {"ph": "C", "ts": 1}]', "of no use here: 2 counter"),
        ('{"a": ' * 100_000, "cut short"),
        ("[" * 100_000, "holds no event"),
        ("]" * 100_000, "it starts with ']]]"),
    ],
)
def test_json_that_is_no_trace(text: str, message: str, tmp_path: Path) -> None:
    said_text = said(tmp_path, text)
    assert message in said_text
    assert "torch.profiler" in said_text


def test_facts_without_end_before_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_cut, "OUTSIDE_BYTES", 6000)
    with pytest.raises(
        TraceError, match=r"x\.json: holds no event in its first 5\.9 KiB, and was read no further\. Give"
    ):
        read_text(text_of(event(), x="y" * 9000), name="x.json", chunk=1000)


def test_python_frames_alone_are_no_trace_unless_asked_for(tmp_path: Path) -> None:
    text = text_of(event(cat="python_function"))
    assert "of no use here: 1 python_function" in said(tmp_path, text)
    assert len(read_file(tmp_path, text, python_functions=True)) == 1


def test_a_recording_window_alone_is_a_trace_without_events() -> None:
    assert len(read_text(text_of(event(cat="Trace")))) == 0


def test_missing_folder_and_unreadable_paths(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "no.json", "no such file. Check the path"),
        (tmp_path / "no" / "no.json", "no such file"),
        (tmp_path, "is a folder; a single trace file is needed here"),
        ("bad\0name", "cannot be opened: embedded null byte"),
        (tmp_path / ("x" * 300), "cannot be opened: File name too long"),
    ):
        with pytest.raises(TraceError) as caught:
            read_chrome(path)
        assert str(caught.value).startswith(f"{path}: {message}"), caught.value


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *args: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceError, match=r"x\.json: cannot be opened: permission denied\. Ask its owner"):
        read_chrome(tmp_path / "x.json")


def test_an_error_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", lambda self, mode: Failing())
    with pytest.raises(TraceError, match=r"x\.json: reading failed: Input/output error\. Copy the file"):
        read_chrome(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://nowhere/x.json", "no such file"),
        ("nonsense://x.json", "cannot be opened: Protocol not known"),
        ("://", "no such file"),
        ("file:///no/such/file.json", "no such file"),
    ],
)
def test_remote_paths(url: str, message: str) -> None:
    with pytest.raises(WeftraceError) as caught:
        read_chrome(url)
    assert str(caught.value).startswith(url)
    assert message in str(caught.value)


def test_remote_backends_that_fail_while_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    class ClientError(Exception):
        """As aiohttp's and botocore's: no OSError."""

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise ClientError

    memory = fsspec.filesystem("memory")
    memory.pipe("/a.json", GOOD.encode())
    assert len(read_chrome("memory://a.json")) == 1
    monkeypatch.setattr(type(memory), "_open", lambda *args, **options: Failing())
    with pytest.raises(TraceError, match=r"memory://a\.json: reading failed: ClientError"):
        read_chrome("memory://a.json")


def test_nothing_but_weftraces_errors_escapes_deep_in_a_callers_stack() -> None:
    """Near the recursion limit a deep file must still be an error of weftrace's or a trace, whatever room is left."""
    deep = text_of(
        event("a"), encoded(event("deep", args=0)).replace('"args": 0', '"args": ' + "[" * 5000 + "]" * 5000)
    )

    def descend(depth: int) -> int:
        return descend(depth - 1) if depth else len(read_text(deep))

    assert descend(200) == 1
