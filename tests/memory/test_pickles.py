"""Pickles of plain values are read as `pickle` reads them; all else ends in a sentence, in bounded time and memory."""

from __future__ import annotations

import os
import pickle
import resource
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftrace.errors import WeftraceError
from weftrace.memory import pickles
from weftrace.memory.pickles import PickleError, plain_value

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text() | st.binary(max_size=300),
    lambda of: st.lists(of) | st.lists(of).map(tuple) | st.dictionaries(st.text() | NUMBERS, of),
    max_leaves=20,
)


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    if protocol == 2 and _has_bytes(value):
        return  # protocol 2 writes bytes as a call
    assert plain_value(pickle.dumps(value, protocol), "x") == value


def _has_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_bytes, value.values()))
    return any(map(_has_bytes, value)) if isinstance(value, list | tuple) else isinstance(value, bytes)


class _Runs:
    """What a malicious file holds: a call that leaves a file behind."""

    def __init__(self, left: Path) -> None:
        self.left = left

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.left}",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_calls_the_shell_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    left = tmp_path / "left"
    data = pickle.dumps({"segments": [_Runs(left)]}, protocol)
    with pytest.raises(PickleError, match=r"(STACK_)?GLOBAL at byte \d+ .*Nothing of the file was run"):
        plain_value(data, "evil.pickle")
    assert not left.exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("GLOBAL", b"cos\nsystem\n"), ("INST", b"(Nios\nsystem\n"), ("REDUCE", b")R"), ("OBJ", b"(o"),
        ("NEWOBJ", b")\x81"), ("NEWOBJ_EX", b"\x92"), ("BUILD", b"}b"), ("PERSID", b"Pid\n"), ("BINPERSID", b"Q"),
        ("EXT1", b"\x82\x01"), ("EXT2", b"\x83\x01\x00"), ("EXT4", b"\x84\x01\x00\x00\x00"), ("NEXT_BUFFER", b"\x97"),
        ("BYTEARRAY8", b"\x96"), ("EMPTY_SET", b"\x8f"), ("STRING", b"S'a'\n"), ("opcode 0xff", b"\xff"),
    ],
)  # fmt: skip
def test_every_other_opcode_is_refused_by_its_name(name: str, code: bytes) -> None:
    with pytest.raises(PickleError, match=name.split()[0]):
        plain_value(b"\x80\x04" + code + b".", "x")


def test_what_ends_early_or_does_not_fit_together_is_a_sentence() -> None:
    whole = pickle.dumps({"a": [1, 2.5, "text", (1, 2)], "b": b"x" * 300, "c": 1 << 40}, 4)
    for end in range(len(whole)):
        with pytest.raises(PickleError):
            plain_value(whole[:end], "x")
    for code in (
        b"",
        b"a",
        b"e",
        b"s",
        b"u",
        b"t",
        b"\x85",
        b"h\x00",
        b"\x94",
        b"0",
        b"NN",
        b"(",
        b"(u",
        b"]Ns",
        b"}Na",
    ):
        with pytest.raises(PickleError):
            plain_value(b"\x80\x04" + code + b".", "x")


@given(st.binary(max_size=60))
def test_any_bytes_end_in_a_value_or_a_sentence(junk: bytes) -> None:
    try:
        plain_value(b"\x80\x04" + junk, "x")
    except PickleError as error:
        assert str(error).startswith("x: ")


def test_a_deep_one_and_a_cyclic_one_are_read_and_taken_down_without_recursion() -> None:
    deep = plain_value(b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".", "x")
    assert type(deep) is list
    del deep
    cyclic = plain_value(b"\x80\x04]\x94h\x00a.", "x")
    assert cyclic[0] is cyclic


def test_keys_that_take_long_to_hash_are_refused() -> None:
    """A tuple of the same tuple twice, sixty times over: its hash would take 2^60 steps."""
    laughs = (
        b"\x80\x04}N" + b"\x85" + b"\x94h\x00\x86" + b"".join(b"\x94h" + bytes([n]) + b"\x86" for n in range(1, 60))
    )
    with pytest.raises(PickleError, match="tuple as a key"):
        plain_value(laughs + b"Ns.", "x")


def test_lengths_are_bounded_by_the_file_and_numbers_by_eight_bytes() -> None:
    for code in (b"\x8e", b"\x8d", b"\x95"):
        with pytest.raises(PickleError, match=r"declares 2,147,483,648 bytes; \d are left"):
            plain_value(b"\x80\x04" + code + struct.pack("<Q", 1 << 31) + b".", "x")
    with pytest.raises(PickleError, match="whole number of 100 bytes"):
        plain_value(b"\x80\x04\x8a\x64" + b"\x01" * 100 + b".", "x")


def test_a_memo_that_names_a_far_place_takes_no_memory() -> None:
    """`pickle` makes an array of twice as many places: 2 GiB for these ten bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert plain_value(b"\x80\x04Nr\xff\xff\xff\x07.", "x") is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "_MOST_VALUES", 1_000)
    monkeypatch.setattr(pickles, "_MOST_CONTAINERS", 100)
    for values in (b"N" * 2_000, b"]" * 200):
        with pytest.raises(PickleError, match="Record a shorter history"):
            plain_value(b"\x80\x04" + values + b".", "x")


def test_errors_are_of_the_one_tree() -> None:
    assert issubclass(PickleError, WeftraceError) and PickleError("x").exit_code == 3
