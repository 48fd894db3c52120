"""Outputs appear whole or not at all, are the same for the same content, and say what helps where none can be made."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import threading
from pathlib import Path

import pytest
import zstandard

from weftrace.errors import OutputError
from weftrace.files.output import open_output, replacing, write_output

TEXT = b'{"traceEvents": []}\n' * 1000


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_plain_gzip_and_zstd_by_suffix(tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz", "a.json.zst", "A.JSON.GZ"):
        assert write_output(tmp_path / name, [TEXT[:5], TEXT[5:]]) == len(TEXT)
    assert (tmp_path / "a.json").read_bytes() == TEXT
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == TEXT
    assert gzip.decompress((tmp_path / "A.JSON.GZ").read_bytes()) == TEXT
    with zstandard.open(tmp_path / "a.json.zst", "rb") as file:
        assert file.read() == TEXT
    assert names(tmp_path) == ["A.JSON.GZ", "a.json", "a.json.gz", "a.json.zst"]


def test_texts_are_utf8_and_a_lone_surrogate_does_not_stop_them(tmp_path: Path) -> None:
    assert write_output(tmp_path / "a.txt", ["µs ", "\udc80"]) == 5
    assert (tmp_path / "a.txt").read_bytes() == "µs ?".encode()


def test_nothing_written_is_an_empty_file(tmp_path: Path) -> None:
    write_output(tmp_path / "empty.json", [])
    write_output(tmp_path / "empty.json.gz", [])
    assert (tmp_path / "empty.json").read_bytes() == b""
    assert gzip.decompress((tmp_path / "empty.json.gz").read_bytes()) == b""


def test_equal_content_makes_equal_gzip(tmp_path: Path) -> None:
    write_output(tmp_path / "one.gz", [TEXT])
    write_output(tmp_path / "two.gz", [TEXT])
    one = (tmp_path / "one.gz").read_bytes()
    assert one == (tmp_path / "two.gz").read_bytes()
    assert one[3] == 0, "no file name in the header"
    assert one[4:8] == b"\0\0\0\0", "no time in the header"


def test_failure_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), open_output(tmp_path / "a.json.gz") as sink:
        sink.write(TEXT)
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), open_output(tmp_path / "b.json"):
        raise KeyboardInterrupt
    assert (tmp_path / "a.json.gz").read_bytes() == b"old"
    assert names(tmp_path) == ["a.json.gz"]


def test_old_content_stands_until_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_bytes(b"old")
    with open_output(target) as sink:
        sink.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


def test_a_source_can_be_replaced_while_it_is_read(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_bytes(TEXT)
    with target.open("rb") as source, open_output(target) as sink:
        while piece := source.read(100):
            sink.write(piece.upper())
    assert target.read_bytes() == TEXT.upper()


def test_replacing_hands_out_a_path(tmp_path: Path) -> None:
    with replacing(tmp_path / "t.parquet") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".t.parquet.")
        temporary.write_bytes(b"PAR1")
    assert (tmp_path / "t.parquet").read_bytes() == b"PAR1"
    assert names(tmp_path) == ["t.parquet"]


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_bytes(b"")
    write_output(tmp_path / "new", [b""])
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    write_output(tmp_path / "new", [b"again"])
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "real")
    write_output(tmp_path / "link", [b"x"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_bytes() == b"x"


def test_a_pipe_and_a_device_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_output(tmp_path / "pipe", [TEXT])
    reader.join(10)
    assert got == [TEXT]
    assert names(tmp_path) == ["pipe"]
    write_output("/dev/null", [TEXT])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_long_name_still_has_room_for_its_temporary(tmp_path: Path) -> None:
    name = "é" * 125 + ".json"  # 255 bytes
    write_output(tmp_path / name, [b"x"])
    assert (tmp_path / name).read_bytes() == b"x"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing/a.json", "mkdir -p"),
        (".", "is a folder"),
        ("", "empty output path"),
        ("file/a.json", "a part of the path is a file"),
        ("s3://bucket/a.json", "Write to a local file"),
        ("n" * 300, "too long"),
        ("a\0b", "Choose another path"),
    ],
)
def test_refusals_name_the_path_and_the_remedy(
    path: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=said) as raised:
        write_output(path, [b"x"])
    if path and "\0" not in path:
        assert str(raised.value).startswith(path)
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(OutputError, match="no permission"):
        write_output(locked / "a.json", [b"x"])


def test_write_protected_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_bytes(b"precious")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # what a 0444 file answers to anyone but root
    with pytest.raises(OutputError, match="write-protected"):
        write_output(tmp_path / "a.json", [b"x"])
    assert (tmp_path / "a.json").read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["full", "full.gz", "full.zst"])
def test_full_disk_says_so(name: str, tmp_path: Path) -> None:
    """/dev/full is Linux's disk that is always full; a link makes a name with a suffix lead to it."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"full.*the disk is full"):
        write_output(tmp_path / name, [os.urandom(1 << 20), os.urandom(1 << 20)])


def test_full_disk_at_the_very_end_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "a.json").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OutputError, match="the disk is full"):
        write_output(tmp_path / "a.json", [b"new"])
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert names(tmp_path) == ["a.json"]
