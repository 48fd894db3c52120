"""Bytes of a file: what is decompressed, in which pieces, where it stops, and what damage costs."""

from __future__ import annotations

import bz2
import gzip
import io
import random
import zlib
from pathlib import Path

import fsspec
import pytest
import zstandard

from tests.fuzz import examples
from weftrace.errors import TraceError, TraceTooLarge
from weftrace.files.sources import ByteStream, is_remote, open_bytes, unpacked

TEXT = b"".join(b'{"ph": "X", "name": "kernel %d"},\n' % (n * n) for n in range(40_000))  # 1.5 MB
PACKED = gzip.compress(TEXT, mtime=0)


def store(folder: Path, data: bytes) -> Path:
    path = folder / "trace.json"
    path.write_bytes(data)
    return path


def read(path: Path | str, **options: int) -> tuple[bytes, ByteStream]:
    stream = open_bytes(path, **options)  # type: ignore[arg-type]
    return b"".join(stream.chunks), stream


def several_frames(data: bytes) -> bytes:
    return zstandard.compress(data[:1000]) + zstandard.compress(b"") + zstandard.compress(data[1000:])


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        lambda data: gzip.compress(data),
        lambda data: gzip.compress(data, 0),
        lambda data: zstandard.compress(data),
        lambda data: gzip.compress(gzip.compress(data)),
        lambda data: zstandard.compress(gzip.compress(zstandard.compress(data))),
        lambda data: gzip.compress(data[:1000]) + gzip.compress(b"") + gzip.compress(data[1000:]),
        lambda data: gzip.compress(data) + b"\0" * 1000,
        lambda data: gzip.compress(data[:1000]) + b"\0" * 70_000 + gzip.compress(data[1000:]),
        several_frames,
    ],
)
@pytest.mark.parametrize("data", [TEXT, TEXT[:2000], TEXT[:1]])
def test_what_was_packed_is_unpacked(pack: object, data: bytes, tmp_path: Path) -> None:
    found, stream = read(store(tmp_path, pack(data)))  # type: ignore[operator]
    assert found == data
    assert stream.truncated is None


def test_the_name_does_not_matter_and_other_compression_is_not_touched(tmp_path: Path) -> None:
    assert read(store(tmp_path, bz2.compress(TEXT)))[0] == bz2.compress(TEXT)
    assert read(store(tmp_path, b""))[0] == b""
    assert read(store(tmp_path, b"\x1f"))[0] == b"\x1f"


def test_chunks_are_of_a_size_that_suits_a_cache(tmp_path: Path) -> None:
    for data in (TEXT, PACKED):
        sizes = [len(chunk) for chunk in open_bytes(store(tmp_path, data)).chunks]
        assert sum(sizes) == len(TEXT)
        assert max(sizes) < 300_000
        assert min(sizes[:-1]) > 200_000


def test_progress_is_in_stored_bytes(tmp_path: Path) -> None:
    pieces: list[int] = []
    stream = open_bytes(store(tmp_path, PACKED), on_progress=pieces.append)
    assert pieces == []  # nothing is read before it is asked for
    assert sum(map(len, stream.chunks)) == len(TEXT)
    assert sum(pieces) == len(PACKED)


@pytest.mark.parametrize("cut", [3, 12, 100, 5000, len(PACKED) // 2, len(PACKED) - 9, len(PACKED) - 8, len(PACKED) - 1])
def test_a_cut_gzip_file_gives_what_it_holds(cut: int, tmp_path: Path) -> None:
    found, stream = read(store(tmp_path, PACKED[:cut]))
    assert stream.truncated == "the gzip data ends early"
    assert TEXT.startswith(found)
    held = zlib.decompressobj(wbits=31).decompress(PACKED[:cut])
    assert len(found) >= len(held) - 1000


def test_a_wrong_checksum_costs_nothing(tmp_path: Path) -> None:
    wrong = bytearray(PACKED)
    wrong[-6] ^= 1
    found, stream = read(store(tmp_path, bytes(wrong)))
    assert found == TEXT
    assert stream.truncated is not None
    assert stream.truncated.startswith("the gzip data is damaged")


def test_flipped_bytes_cost_little_of_what_precedes_them(tmp_path: Path) -> None:
    chance = random.Random(0)
    num_damaged = 0
    for _ in range(examples(60)):
        at = chance.randrange(100, len(PACKED) - 8)
        wrong = PACKED[:at] + bytes([PACKED[at] ^ chance.randrange(1, 256)]) + PACKED[at + 1 :]
        found, stream = read(store(tmp_path, wrong))
        before = zlib.decompressobj(wbits=31).decompress(PACKED[:at])
        same = next((n for n, (a, b) in enumerate(zip(found, TEXT, strict=False)) if a != b), len(found))
        assert same >= len(before) - 20_000, at
        num_damaged += stream.truncated is not None
    assert num_damaged > examples(60) * 5 // 6 - 1


def test_garbage_behind_gzip_data_is_told(tmp_path: Path) -> None:
    found, stream = read(store(tmp_path, PACKED + b"garbage" * 10))
    assert found == TEXT
    assert stream.truncated == "what follows the gzip data is none and was not read"


def test_damaged_and_cut_zstd(tmp_path: Path) -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    for wrong in (packed[: len(packed) // 2], packed[:2000] + b"damage" + packed[2006:], packed[:6]):
        found, stream = read(store(tmp_path, wrong))
        assert TEXT.startswith(found[:1000])
        assert stream.truncated is not None and stream.truncated.startswith("the zstd data ")
    assert "zstd data is damaged" in str(read(store(tmp_path, packed[:4] + b"\xff" * 100))[1].truncated)


@pytest.mark.parametrize("has_checksum", [True, False])
def test_zstd_that_is_cut_anywhere_is_told(has_checksum: bool) -> None:
    """zstandard itself says nothing. Blocks of each kind, one frame after another, and one that is to be skipped."""
    pack = zstandard.ZstdCompressor(write_checksum=has_checksum).compress
    stream = zstandard.ZstdCompressor(write_checksum=has_checksum).compressobj()
    frames = [
        pack(b"\0" * 300_000),
        pack(random.Random(1).randbytes(1000)),
        b"\x53\x2a\x4d\x18\x03\0\0\0abc",
        b"\x5f\x2a\x4d\x18\0\0\0\0",
        pack(b""),
        stream.compress(TEXT[:5000]) + stream.flush(),
    ]
    ends = {sum(map(len, frames[:number])) for number in range(1, len(frames) + 1)}
    packed = b"".join(frames)
    for length in range(4, len(packed) + 1):
        stored = packed[:length]
        found = unpacked(iter([stored[: length // 2], stored[length // 2 :]]), "t")
        assert b"".join(found.chunks) is not None
        assert found.truncated == (None if length in ends else "the zstd data ends early"), length


def test_the_limit_is_on_decompressed_bytes_and_holds_for_each_layer(tmp_path: Path) -> None:
    path = store(tmp_path, PACKED)
    assert read(path, max_bytes=len(TEXT))[0] == TEXT
    with pytest.raises(TraceTooLarge, match=r"trace\.json: expands past the limit of 1\.0 MiB\. .* raise --max-bytes"):
        read(path, max_bytes=1 << 20)
    with pytest.raises(TraceTooLarge):
        read(store(tmp_path, TEXT), max_bytes=1 << 20)
    # Members that hold nothing, padded with zeros: no byte comes out, yet gigabytes would have to be looked at.
    hollow = gzip.compress(gzip.compress(b"") + b"\0" * (8 << 20))
    with pytest.raises(TraceTooLarge):
        read(store(tmp_path, hollow), max_bytes=1 << 20)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_stopped_in_little_memory(pack: object, tmp_path: Path) -> None:
    import tracemalloc

    bomb = store(tmp_path, pack(b"\0" * (64 << 20)))  # type: ignore[operator]
    tracemalloc.start()
    with pytest.raises(TraceTooLarge):
        for _ in open_bytes(bomb, max_bytes=32 << 20).chunks:
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_layers_without_end_are_refused(tmp_path: Path) -> None:
    data = TEXT
    for _ in range(4):
        data = gzip.compress(data)
    with pytest.raises(TraceError, match=r"trace\.json: is compressed more than 3 times over\. Decompress it first\."):
        read(store(tmp_path, data))


def test_remote_paths_are_read_in_the_same_way() -> None:
    fsspec.filesystem("memory").pipe("/folder/trace.json.gz", PACKED)
    assert read("memory://folder/trace.json.gz")[0] == TEXT
    assert is_remote("s3://bucket/x.json")
    assert not is_remote(Path("folder/x.json"))


def test_the_file_is_closed_when_reading_stops_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[io.BytesIO] = []

    def open_it(self: Path, mode: str) -> io.BytesIO:
        opened.append(io.BytesIO(PACKED))
        return opened[0]

    monkeypatch.setattr(Path, "open", open_it)
    stream = open_bytes(tmp_path / "x.json")
    next(stream.chunks)
    stream.chunks.close()  # type: ignore[attr-defined]
    assert opened[0].closed


def test_what_http_needs_is_told_as_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object) -> None:
        raise ImportError("HTTPFileSystem requires aiohttp")

    monkeypatch.setattr("fsspec.open", lacks)
    with pytest.raises(TraceError, match=r"to read http://, run: .* install requests aiohttp$"):
        list(open_bytes("http://localhost/a.json").chunks)
