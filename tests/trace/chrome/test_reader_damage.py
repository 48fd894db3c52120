"""Damaged files: what is sound is kept, reading resumes at the next event, and what is lost is counted."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest

from tests.fuzz import few
from tests.trace.chrome.files import encoded, event, names, read_text, text_of
from weftrace.errors import TraceError
from weftrace.trace.chrome import cut as chrome_cut
from weftrace.trace.chrome import walk as chrome_walk
from weftrace.trace.model import Trace

FOUR = [event(name, ts=n, args={"stream": 7, "shapes": [{"a": 1}, {"b": [2]}]}) for n, name in enumerate("abcd")]
CHUNKS = [37, 1 << 18]


def dropped(trace: Trace) -> int:
    return trace.quality.num_dropped


@pytest.mark.parametrize("chunk", few(CHUNKS, 1))
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"name"', "name", 1),  # a key without quotes
        lambda text: text.replace('"name"', '"name', 1),
        lambda text: text.replace('"b"', '"b', 1),
        lambda text: text.replace('"b"', 'b"', 1),
        lambda text: text.replace("{", "[", 1),
        lambda text: text.replace("{", "", 1),
        lambda text: text.replace(":", "", 1),
        lambda text: text.replace(":", " = ", 1),
        lambda text: text.replace(",", "", 1),
        lambda text: text.replace("[", "", 1),
        lambda text: text.replace("]", "", 1),
        lambda text: text.replace("]", "}", 1),
        lambda text: text[:-1],
        lambda text: text[:-1] + "|",
        lambda text: text[:-1] + "]",
        lambda text: text[:-2],
        lambda text: text[: len(text) // 2],
        lambda text: text[len(text) // 2 :],
        lambda text: text[: len(text) // 2] + "\0" * 500 + text[len(text) // 2 :],
        lambda text: text.replace('"ts"', '"ts": 1, }"ts"', 1),
        lambda text: text.replace('"dur"', '"\\u12"', 1),
        lambda text: text.replace('"dur"', '"\\x"', 1),
        lambda text: text.replace("7", "07", 1),
        lambda text: text.replace("7", "-", 1),
        lambda text: text.replace("7", "nul", 1),
        lambda text: text.replace("7", "[" * 100_000, 1),
        lambda text: text.replace("7", "[" * 100_000 + "]" * 100_000, 1),
        lambda text: text.replace("7", '{"a":' * 100_000 + "1" + "}" * 100_000, 1),
    ],
)
def test_one_damaged_event_costs_one_event(damage: Any, chunk: int) -> None:
    texts = [encoded(e) for e in FOUR]
    for place in range(4):
        broken = [
            damage(text.replace(f'"{"abcd"[place]}"', '"b"')) if n == place else text for n, text in enumerate(texts)
        ]
        trace = read_text(text_of(*broken, distributedInfo={"rank": 3}), chunk=chunk)
        sound = [name for n, name in enumerate("abcd") if n != place]
        assert [name for name in names(trace) if name in sound] == sound, trace.quality
        assert 1 <= len(trace) - 3 + dropped(trace) <= 3, trace.quality
        assert trace.rank == 3


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(
    "stray", ["|", "x", "}", "]", "[", "]]]", "\x01", "\0" * 600, "\ufffd", "}}", '"', "<b>", "{", "{{"]
)
def test_stray_text_between_events_costs_none(stray: str, chunk: int) -> None:
    texts = [encoded(e) for e in FOUR]
    for before, after in ((",", ","), ("", ","), (",", ""), ("", "")):
        if not before and not after and stray in ("\0" * 600,):
            continue
        text = (
            '{"traceEvents": ['
            + texts[0]
            + before
            + stray
            + after
            + ",".join(texts[1:])
            + '], "distributedInfo": {"rank": 3}}'
        )
        trace = read_text(text, chunk=chunk)
        assert names(trace) == list("abcd"), (before, after, trace.quality)
        assert trace.rank == 3


@pytest.mark.parametrize("separator", ["", " ", "\n", ",,", ", ,", ";", "\0"])
def test_commas_may_be_missing_or_doubled(separator: str) -> None:
    trace = read_text("[" + separator.join(encoded(e) for e in FOUR) + "]")
    assert names(trace) == list("abcd")
    assert dropped(trace) == 0


def test_what_is_no_object_is_counted_one_by_one() -> None:
    trace = read_text(text_of(FOUR[0], '1, "two", null, true, -3.5e1, "a\\"b,{c"', FOUR[1], '"x"'))
    assert names(trace) == ["a", "b"]
    assert trace.quality.dropped == {"not an object": 7}


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_empty_lists_are_counted_one_by_one(chunk: int) -> None:
    trace = read_text(text_of("[]", FOUR[0], "[ ]", "[\n]", FOUR[1], "[]"), chunk=chunk)
    assert names(trace) == ["a", "b"]
    assert trace.quality.dropped == {"not an object": 4} and not trace.quality.repaired
    assert trace.quality.truncated is None


def test_a_list_of_lists_of_events_is_read_flat() -> None:
    first, *others = (encoded(e) for e in FOUR)
    trace = read_text(f"[[{first}],[{','.join(others)}]]")
    assert names(trace) == list("abcd")
    assert trace.quality.truncated is None


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_file_cut_anywhere_keeps_the_events_before_the_cut(chunk: int) -> None:
    events = [*FOUR, {"ph": "i", "name": "mark", "ts": 1, "pid": 0, "tid": 0}]
    text = text_of(*events)[:-1] + ', "traceName": "x"}'
    ends = [text.index(encoded(e)) + len(encoded(e)) for e in events]
    for cut in range(ends[0], len(text)):
        trace = read_text(text[:cut], chunk=chunk)
        num_whole = sum(end <= cut for end in ends)
        assert names(trace) == list("abcd")[:num_whole]
        assert trace.quality.truncated, text[:cut][-40:]
        partial = "" if num_whole == 5 else text[ends[num_whole - 1] : cut]
        assert dropped(trace) == (":" in partial), partial


def test_a_missing_bracket_before_the_last_facts() -> None:
    for text in (text_of(*FOUR).replace("\n]}", ', "distributedInfo": {"rank": 3}}'),):
        trace = read_text(text)
        assert names(trace) == list("abcd")
        assert trace.rank == 3


def test_damage_in_the_last_event_does_not_hide_the_facts_behind_it() -> None:
    for broken in ('"name" "d"', '"name": "d', '"grid": [1,1,1], "x" 5'):
        last = encoded(FOUR[3]).replace('"name": "d"', broken)
        trace = read_text(text_of(*FOUR[:3], last)[:-1] + ', "list": [1, [2]], "distributedInfo": {"rank": 3}}')
        assert names(trace) == list("abc")
        assert trace.quality.num_dropped == 1
        assert trace.rank == 3
        assert trace.quality.truncated is None


def test_damage_before_the_events_costs_facts_not_events() -> None:
    head = '{"schemaVersion" 1, "deviceProperties": [{"id": 0, "name": "H800"}], "distributedInfo": {"rank": 3},'
    trace = read_text(head + text_of(*FOUR)[1:])
    assert names(trace) == list("abcd")
    assert trace.rank == 3
    assert trace.devices[0].name == "H800"
    assert trace.quality.repaired == {"damaged text beside the events left out": 1}


@pytest.mark.parametrize(
    "text",
    [
        text_of(*FOUR).replace("traceEvents", "tracXEvents"),
        text_of(*FOUR)[1:],
        "junk of a log\n" + text_of(*FOUR),
        "".join(encoded(e) + "\n" for e in FOUR),  # JSON lines
        "x" + json.dumps(FOUR),
        '{"a": 1}' + json.dumps(FOUR),
        "</script>" + json.dumps(FOUR),
        '{"x": 1{"ph": 2, ' + text_of(*FOUR)[1:],
        text_of(f'{{"a": [{",".join(map(encoded, FOUR))}]}}'),
        '{"s": ' + "9" * 5000 + "," + text_of(*FOUR)[1:],
        '{"s": 1e99999999999999999999,' + text_of(*FOUR)[1:],
        "[" + text_of(*FOUR),
        "[" + text_of(*FOUR) + "]",
    ],
)
def test_a_list_that_has_lost_its_key_or_beginning_is_found(text: str) -> None:
    for chunk in CHUNKS:
        assert names(read_text(text, chunk=chunk)) == list("abcd")


def test_a_long_damaged_stretch_is_one_loss_and_reading_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    for stretch in (
        "\0" * 3_000_000,
        "x:" * 1_500_000,
        '{"a": ' * 500_000,
        "[" * 3_000_000,
        '"' * 3_000_001,
        "{" * 3_000_000,
    ):
        trace = read_text(text_of(FOUR[0], FOUR[1], stretch + encoded(FOUR[2]), FOUR[3]))
        assert names(trace) in (list("abcd"), list("abd")), stretch[:10]
        assert dropped(trace) <= 20


def test_an_event_beyond_the_limit_is_dropped_and_said_to_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_walk, "EVENT_BYTES", 2000)
    monkeypatch.setattr(chrome_walk, "DAMAGE_BYTES", 1000)
    long = event("long", args={"shapes": [{"dim": n} for n in range(2000)]})
    trace = read_text(text_of(FOUR[0], long, *FOUR[1:]), chunk=300)
    assert names(trace) == list("abcd")
    assert dropped(trace) >= 1
    assert any(reason.startswith("longer than") for reason in trace.quality.dropped)


def test_an_unclosed_list_does_not_swallow_the_events_behind_it() -> None:
    broken = encoded(FOUR[0]).split("]")[0] + ","  # … "shapes": [{"a": 1}, {"b": [2
    for chunk in (100, 1 << 18):
        trace = read_text(text_of(broken, *FOUR[1:]), chunk=chunk)
        assert names(trace) == list("bcd")
        assert dropped(trace) == 1


def test_too_much_text_behind_the_events_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_cut, "OUTSIDE_BYTES", 1000)
    trace = read_text(text_of(*FOUR)[:-1] + f', "x": "{"y" * 5000}"}}', chunk=500)
    assert names(trace) == list("abcd")
    assert trace.quality.truncated is not None
    assert "exceeds 1,000 B" in trace.quality.truncated


def test_reasons_come_with_a_short_printable_example() -> None:
    trace = read_text(text_of(*FOUR, '{"ph": "X", "name": "\x1b[31m\x07 evil" oops, "x": "' + "y" * 500 + '"}'))
    (example,) = trace.quality.examples.values()
    assert example.isprintable()
    assert len(example) < 100


def test_events_beyond_a_stray_closing_bracket_are_kept() -> None:
    text = "[" + ",".join(encoded(e) for e in FOUR[:2]) + '], "x": 1, ' + ",".join(encoded(e) for e in FOUR[2:]) + "]"
    trace = read_text(text)
    assert names(trace) == list("abcd")
    assert trace.quality.repaired


@pytest.mark.parametrize(
    "pattern",
    few([
        '{"', '{"a":{"b":1},', '{"a":1 {"ph":', '{"ph":', '{"ph":{"ph":[', '{"a":[', "],[", '"ph":1,{', '{"ph":1},',
        '{"ph":"X" "', "[", '{"ph":"X","args":{"a":', '{"traceEvents":[', "\\", "},{", '"distributedInfo":{',
        '{"ph":"X","name":"a" b ', '{"ph":"X","name":"a"b","ts":1,', '{"ph":"X","a":inf,',
        '{"ph":"X","name":"\\x', 'inf,', '" "',
        '{"ph":"X","a":["b"c', '{"ph":"X","name":"a", "b" c',
    ], 12),
)  # fmt: skip
def test_hostile_text_takes_time_in_proportion_to_its_length(pattern: str) -> None:
    """So much of each takes a quarter of a second or so; looked at again and again, it would take half a minute. In
    processor time, which a busy machine does not stretch."""
    start = time.process_time()
    for head in ('{"traceEvents":[', "{"):
        with pytest.raises(TraceError):
            read_text(head + pattern * (80_000 // len(pattern)) + "]}")
    assert time.process_time() - start < 7.5


@pytest.mark.parametrize("fraction", few([0.5, 0.01, 1.0], 1))
def test_a_file_full_of_nan_is_read_in_bounded_memory_and_time(fraction: float) -> None:
    """Repair must not keep a column chunk for each event."""
    odd = encoded(event("odd", args={"stream": 7, "x": 0})).replace('"x": 0', '"x": NaN')
    even = encoded(event("even", args={"stream": 7}))
    num_events = 20_000
    texts = [odd if n % round(1 / fraction) == 0 else even for n in range(num_events)]
    text = text_of(*texts)
    tracemalloc.start()
    trace = read_text(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(trace) == num_events
    assert trace.quality.repaired == {"NaN or Infinity left out": num_events * fraction}
    assert peak < 30 << 20
