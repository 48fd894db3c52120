"""Recordings of every kind come in as the same array, or as an error that names the file and helps; what is saved is
read back equal."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weftrace.errors import LoadsError, OutputError
from weftrace.experts.recorded.generator import generate_loads
from weftrace.experts.recorded.read import as_history, read_loads, save_loads, windows_of

# Two steps, two layers, three experts: checked by eye everywhere below.
LOADS = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]
# Four slots: the third and the fourth hold the same expert, so that their counts are added.
MAP = [[0, 1, 2, 2], [2, 0, 1, 2]]
PHYSICAL = [[[1, 2, 1, 2], [4, 4, 5, 2]], [[7, 8, 4, 5], [6, 10, 11, 6]]]


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(array))
    return buffer.getvalue()


def _pt(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _safetensors(arrays: dict[str, Any]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"made": "by hand"}}
    data = b""
    for name, values in arrays.items():
        raw = np.array(values, dtype="<i8").tobytes()
        header[name] = {"dtype": "I64", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _records(counts: Any, rank: int = 0) -> dict[str, Any]:
    return {
        "records": [
            {"forward_pass_id": index, "rank": rank, "global_physical_count": torch.tensor(count)}
            for index, count in enumerate(counts)
        ],
        "last_physical_to_logical_map": torch.tensor(MAP),
    }


_LONG = "step,layer,expert,count\n" + "".join(
    f"{step},{layer},{expert},{LOADS[step][layer][expert]}\n"
    for step in range(2)
    for layer in range(2)
    for expert in range(3)
)

FILES: dict[str, tuple[str, bytes]] = {
    "list.json": ("arrays", json.dumps(LOADS).encode()),
    "object.json": ("arrays", json.dumps({"what": "mine", "loads": LOADS}).encode()),
    "bom.json": ("arrays", b"\xef\xbb\xbf" + json.dumps(LOADS).encode()),
    "packed.json.gz": ("arrays", gzip.compress(json.dumps(LOADS).encode())),
    "adrs.json": (
        "load-history",
        json.dumps({"load_history": [{"logical_expert_load": step} for step in LOADS]}).encode(),
    ),
    "stat.json": ("sglang", json.dumps({"logical_count": LOADS}).encode()),
    "window.json": (
        "vllm",
        json.dumps({"expert_load_window": PHYSICAL, "physical_to_logical_map": MAP}).encode(),
    ),
    "array.npy": ("arrays", _npy(LOADS)),
    "small.npy": ("arrays", _npy(np.array(LOADS, dtype=np.uint8))),
    "array.npz": ("arrays", _npz(anything=LOADS)),
    "window.npz": ("vllm", _npz(expert_load_window=PHYSICAL, physical_to_logical_map=MAP)),
    "tensor.pt": ("arrays", _pt(torch.tensor(LOADS, dtype=torch.bfloat16))),
    "stat.pt": ("sglang", _pt({"rank": 0, "logical_count": torch.tensor(LOADS), "average_utilization": None})),
    "pass.pt": ("sglang", _pt(_records(PHYSICAL))),
    "window.pt": (
        "vllm",
        _pt({"expert_load_window": torch.tensor(PHYSICAL), "physical_to_logical_map": torch.tensor(MAP)}),
    ),
    "long.csv": ("table", _LONG.encode()),
    "long.csv.gz": ("table", gzip.compress(_LONG.encode())),
    "wide.csv": ("table", b"step,layer,e0,e1,e2\n1,1,10,11,12\n0,0,1,2,3\n0,1,4,5,6\n1,0,7,8,9\n"),
    "wide.tsv": ("table", b"step\ta\tb\tc\n0\t1\t2\t3\n0\t4\t5\t6\n1\t7\t8\t9\n1\t10\t11\t12\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_gives_the_same_loads(name: str, tmp_path: Path) -> None:
    format, data = FILES[name]
    path = tmp_path / name
    path.write_bytes(data)
    for history in (read_loads(path), read_loads(str(path), format=format), read_loads([path])):
        np.testing.assert_array_equal(history.load_TLN, LOADS)
        assert history.load_TLN.dtype == np.float64
        assert history.layers == (0, 1)
        assert history.source == str(path)
    other = "vllm" if format != "vllm" else "sglang"
    with pytest.raises(LoadsError, match=f"holds {format} loads, and format says {other}"):
        read_loads(path, format=other)


def test_one_window_of_a_csv_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "loads.csv").write_text("1,2,3\n4,5,6\n")
    np.testing.assert_array_equal(read_loads(tmp_path / "loads.csv").load_TLN, LOADS[:1])


def test_sglangs_csv_has_no_step_and_names_only_what_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("layer_id,expert_id,count\n3,0,5\n3,0,1\n7,2,4\n")
    history = read_loads(tmp_path / "a.csv", num_experts=4)
    np.testing.assert_array_equal(history.load_TLN, [[[6, 0, 0, 0], [0, 0, 4, 0]]])
    assert history.layers == (3, 7)


def test_ranks_of_a_pass_are_added_and_files_of_steps_follow_one_another(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"recorder_{rank}.pt").write_bytes(_pt(_records(PHYSICAL, rank)))
    ranks = read_loads(tmp_path)
    np.testing.assert_array_equal(ranks.load_TLN, 2 * np.array(LOADS))
    assert any("last map" in note for note in ranks.notes)
    steps = tmp_path / "steps"
    steps.mkdir()
    for name, step in (("step_10.npy", 1), ("step_9.npy", 0)):  # natural order, not that of the alphabet
        (steps / name).write_bytes(_npy(LOADS[step]))
    (steps / "README.md").write_text("not loads")
    history = read_loads(steps)
    np.testing.assert_array_equal(history.load_TLN, LOADS)
    assert any("1 files of the folder" in note for note in history.notes)
    with pytest.raises(LoadsError, match="pass 0 of rank 0 occurs twice"):
        read_loads([tmp_path / "recorder_0.pt", tmp_path / "recorder_0.pt"])


def test_tensorrts_folder_adds_ranks_and_leaves_out_broken_iterations(tmp_path: Path) -> None:
    (tmp_path / "meta_info.json").write_text('{"num_experts": 3, "num_experts_per_token": 2}')
    part = {f"{100 + step}_{3 + layer}": LOADS[step][layer] for step in range(2) for layer in range(2)}
    (tmp_path / "rank0.safetensors").write_bytes(_safetensors(part))
    (tmp_path / "rank1.safetensors").write_bytes(_safetensors({**part, "102_3": [1, 1, 1]}))
    (tmp_path / "rank0_raw.safetensors").write_bytes(b"of no use")
    history = read_loads(tmp_path, format="tensorrt-llm")
    np.testing.assert_array_equal(history.load_TLN, 2 * np.array(LOADS))
    assert history.layers == (3, 4)
    assert any("1 iterations that lack a layer" in note for note in history.notes)
    assert any("raw choices" in note for note in history.notes)
    whole = (tmp_path / "rank0.safetensors").read_bytes()
    (tmp_path / "rank0.safetensors").write_bytes(whole[:-8])
    with pytest.raises(LoadsError, match="does not fit its bytes"):
        read_loads(tmp_path)


def test_tokens_are_counted_by_layer_and_iteration(tmp_path: Path) -> None:
    # 4 tokens, top-2 of 4 experts; expert 3 is never chosen
    chosen = {
        ("0540", 2): [[0, 1], [0, 1], [0, 2], [1, 0]],
        ("0540", 3): [[2, 1], [2, 1], [2, 0], [2, 0]],
        ("1080", 2): [[1, 2]] * 4,
        ("1080", 3): [[0, 1]] * 4,
    }
    for (step, layer), rows in chosen.items():
        folder = tmp_path / f"iter_{step}"
        folder.mkdir(exist_ok=True)
        frame = pl.DataFrame(
            {"scores": [[0.5, 0.5]] * 4, "indices": rows}, schema_overrides={"indices": pl.List(pl.Int16)}
        )
        frame.write_parquet(folder / f"layer_0{layer}.parquet")
    history = read_loads(tmp_path)
    np.testing.assert_array_equal(history.load_TLN, [[[4, 3, 1], [2, 2, 4]], [[0, 4, 4], [4, 4, 0]]])
    assert history.layers == (2, 3)
    assert any("say num_experts" in note for note in history.notes)
    halves = read_loads(tmp_path, tokens_per_window=2, num_experts=4)
    np.testing.assert_array_equal(halves.load_TLN[0], [[2, 2, 0, 0], [0, 2, 2, 0]])
    np.testing.assert_array_equal(halves.load_TLN[1], [[2, 1, 1, 0], [2, 0, 2, 0]])
    assert halves.num_windows == 4
    thirds = read_loads(tmp_path, tokens_per_window=3)
    assert thirds.num_windows == 2
    assert any("4 token rows" in note for note in thirds.notes)
    with pytest.raises(LoadsError, match="names expert 2, and num_experts is 2"):
        read_loads(tmp_path, num_experts=2)
    (tmp_path / "iter_1080" / "layer_03.parquet").unlink()
    with pytest.raises(LoadsError, match="window 1 has no token of layer 3"):
        read_loads(tmp_path)


def test_parquet_tables(tmp_path: Path) -> None:
    pl.read_csv(_LONG.encode()).write_parquet(tmp_path / "long.parquet")
    np.testing.assert_array_equal(read_loads(tmp_path / "long.parquet", format="table").load_TLN, LOADS)


def test_empty_steps_and_dense_layers_are_left_out_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(_npy([[[0, 0], [1, 2]], [[0, 0], [0, 0]], [[0, 0], [3, 4]]]))
    history = read_loads(tmp_path / "a.npy")
    np.testing.assert_array_equal(history.load_TLN, [[[1, 2]], [[3, 4]]])
    assert history.layers == (1,)
    assert history.notes == (
        "1 steps without a token are left out",
        "layers without a token, dense ones perhaps, are left out: 0",
    )


def test_windows_add_steps_up() -> None:
    history = as_history(np.arange(10.0).reshape(5, 1, 2))
    np.testing.assert_array_equal(windows_of(history, 2).load_TLN, [[[2, 4]], [[10, 12]]])
    assert windows_of(history, 2).notes == ("the last 1 steps fill no window of 2 and are left out",)
    with pytest.raises(LoadsError, match="5 steps do not fill a window of 6"):
        windows_of(history, 6)
    with pytest.raises(LoadsError, match="at least 1"):
        windows_of(history, 0)


@pytest.mark.parametrize("name", ["loads.npz", "loads.json", "loads.json.gz"])
def test_saved_loads_keep_the_numbers_of_their_layers(name: str, tmp_path: Path) -> None:
    """A model whose first three layers are dense: its experts' layers are 3 and 4, and stay so through a file."""
    lines = "".join(f"{step},{layer},{expert},{1 + step}\n" for step in (0, 1) for layer in (3, 4) for expert in (0, 1))
    (tmp_path / "recorded.csv").write_text("step,layer,expert,count\n" + lines)
    history = read_loads(tmp_path / "recorded.csv")
    assert history.layers == (3, 4)
    save_loads(history, tmp_path / name)
    again = read_loads(tmp_path / name)
    assert again.layers == (3, 4)
    np.testing.assert_array_equal(again.load_TLN, history.load_TLN)
    assert windows_of(again, 2).layers == (3, 4)


def test_wrong_loads_are_named_by_their_layers_number(tmp_path: Path) -> None:
    (tmp_path / "loads.csv").write_text("layer,expert,count\n3,0,1\n4,0,2\n4,1,-5\n")
    with pytest.raises(LoadsError, match=r"expert 1 in layer 4, window 0 is negative: -5\.0"):
        read_loads(tmp_path / "loads.csv")


@pytest.mark.parametrize("layers", [[3], [3, 3], [3, "a"], [3, -1], [0.5, 1]])
def test_numbers_of_layers_that_are_none_are_refused(layers: object, tmp_path: Path) -> None:
    (tmp_path / "loads.json").write_text(json.dumps({"loads": LOADS, "layers": layers}))
    with pytest.raises(LoadsError, match=r"loads\.json: layers must be 2 different whole numbers"):
        read_loads(tmp_path / "loads.json")


def test_arrays_lists_and_tensors_as_history() -> None:
    for given_loads in (LOADS, np.array(LOADS), torch.tensor(LOADS), torch.tensor(LOADS, dtype=torch.bfloat16)):
        np.testing.assert_array_equal(as_history(given_loads).load_TLN, LOADS)
    history = as_history(LOADS[0])
    assert (history.num_windows, history.num_layers, history.num_experts) == (1, 2, 3)
    assert as_history(history) is history
    with pytest.raises(ValueError, match="read-only"):
        history.load_TLN[0, 0, 0] = 1


class _Hostile:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, ("raise SystemExit('this was executed')",)


def _objects() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([_Hostile()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


BAD: dict[str, tuple[bytes, str]] = {
    "empty.json": (b" \n", "is empty"),
    "cut.json": (json.dumps(LOADS).encode()[:-3], "not JSON"),
    "nan.json": (b"[[1, NaN]]", "not JSON"),
    "text.json": (b'[["a", "b"]]', "not an array of numbers"),
    "ragged.json": (b"[[1, 2], [3]]", "not an array of numbers"),
    "number.json": (b"{}", "no loads among its fields"),
    "sglang.json": (
        json.dumps({"physical_to_logical_map": MAP}).encode(),
        r"physical_to_logical_map says which expert is in which slot: this is a placement.*make_placement",
    ),
    "phy2log.npz": (_npz(phy2log=MAP), "phy2log says which expert is in which slot: this is a placement"),
    "counts.pt": (
        _pt({"logical_to_all_physical_map": torch.tensor(MAP), "rank": 0}),
        "logical_to_all_physical_map says which slots hold which expert: this is a placement",
    ),
    "other.json": (b'{"a": 1, "b": 2}', "no loads among its fields \\(a, b\\)"),
    "flat.json": (b"[1, 2]", r"\[steps, layers, experts\] or \[layers, experts\], not \[2\]"),
    "history.json": (b'{"load_history": [{}]}', r"load_history\[0\] has no logical_expert_load"),
    "history2.json": (
        b'{"load_history": [{"logical_expert_load": [[1]]}, {"logical_expert_load": [[1, 2]]}]}',
        r"load_history\[1\]",
    ),
    "history3.json": (b'{"load_history": 7}', "a list of steps was expected"),
    "negative.json": (b"[[[1, 2], [3, -4]]]", "expert 1 in layer 1, window 0 is negative: -4.0"),
    "zero.json": (b"[[0, 0]]", "all loads are 0"),
    "infinite.npy": (_npy([[1.0, np.inf]]), "expert 1 in layer 0, window 0 is not finite: inf"),
    "objects.npy": (_objects(), "Python objects, which are not unpickled"),
    "cut.npy": (_npy(LOADS)[:-9], "not a readable .npy"),
    "cut.npz": (_npz(a=LOADS)[:-40], "not a readable .npz"),
    "map.npz": (_npz(expert_load_window=PHYSICAL, physical_to_logical_map=[[0, 1]]), "the map of slots is"),
    "cut.json.gz": (gzip.compress(json.dumps(LOADS).encode())[:-12], "copy or record it again"),
    "hostile.pt": (_pt(_Hostile()), "torch.load\\(weights_only=True\\) refuses it"),
    "old.pt": (b"\x80\x02" + pickle.dumps(_Hostile(), protocol=2)[2:], "refuses it"),
    "nomap.pt": (_pt({"records": []}), "without last_physical_to_logical_map"),
    "norecord.pt": (
        _pt({"records": [{"rank": 0}], "last_physical_to_logical_map": torch.tensor(MAP)}),
        "record 0 has no global_physical_count",
    ),
    "none.pt": (_pt({"records": [], "last_physical_to_logical_map": torch.tensor(MAP)}), "there are none"),
    "words.csv": (b"a,b\nx,y\n", "column 'a' is String, not numbers"),
    "hole.csv": (b"layer,expert,count\n0,1,\n", "row 0 of the table has no value for 'count'"),
    "rows.csv": (b"step,layer,e0\n0,0,1\n0,1,2\n1,0,3\n", "3 rows for 2 steps of 2 layers"),
    "half.csv": (b"layer,expert,count\n0,0.5,1\n", "column 'expert' must be whole numbers"),
    "minus.csv": (b"layer,expert,count\n0,-1,1\n", "expert -1; experts are numbered from 0"),
    "huge.csv": (b"layer,expert,count\n0,999999999999,1\n", "values that fit"),
    "head.csv": (b"layer,expert,count\n", "a table without a row"),
    "binary.bin": (b"\x00\x01\x02\x03" * 9, "not a recording that is known"),
    "cut.parquet": (b"PAR1" + b"\x00" * 40, "not a readable Parquet"),
    "cut.safetensors": (struct.pack("<Q", 9) + b"{" + b"x" * 30, "broken header"),
    "name.safetensors": (_safetensors({"weight": [1]}), "is no count of a layer's experts"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_in_one_line(name: str, tmp_path: Path) -> None:
    data, text = BAD[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(LoadsError, match=text) as raised:
        read_loads(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_not_there_or_not_asked_right(tmp_path: Path) -> None:
    with pytest.raises(LoadsError, match="no such file"):
        read_loads(tmp_path / "nothing.json")
    with pytest.raises(LoadsError, match="a folder without recorded loads"):
        read_loads(tmp_path)
    with pytest.raises(LoadsError, match="no file of loads"):
        read_loads([])
    with pytest.raises(LoadsError, match="choose from sglang, vllm"):
        read_loads(tmp_path, format="csv")
    with pytest.raises(LoadsError, match="tokens_per_window"):
        read_loads(tmp_path, tokens_per_window=0)
    (tmp_path / "a.json").write_text("[[1, 2]]")
    (tmp_path / "b.json").write_text("[[1, 2, 3]]")
    with pytest.raises(LoadsError, match=r"b.json: 1 layers of 3 experts, and .*a.json 1 of 2"):
        read_loads(tmp_path)
    with pytest.raises(LoadsError, match="limit"):
        read_loads(tmp_path / "a.json", max_bytes=3)


def test_a_checkpoint_without_torch_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pt").write_bytes(FILES["tensor.pt"][1])
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "weftrace.experts.runtime.checkpoint", raising=False)
    with pytest.raises(LoadsError, match=r"pip install .*torch"):
        read_loads(tmp_path / "a.pt")


@given(data=st.binary(max_size=200), head=st.sampled_from([b"", b"{", b"[", b"PK\x03\x04", b"\x93NUMPY", b"PAR1"]))
def test_whatever_the_bytes_only_loads_errors_come_out(
    data: bytes, head: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "file"
    path.write_bytes(head + data)
    try:
        read_loads(path)
    except LoadsError as error:
        assert "\n" not in str(error)


def test_a_folder_that_may_not_be_searched_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: Path, _pattern: str) -> list[Path]:
        raise PermissionError(13, "Permission denied", str(tmp_path / "secret"))

    monkeypatch.setattr(Path, "rglob", refuse)
    with pytest.raises(LoadsError, match=r"cannot be searched for recordings: .*secret: Permission denied"):
        read_loads(tmp_path)


@pytest.mark.parametrize("name", ["loads.npz", "loads.json", "loads.json.gz"])
@pytest.mark.parametrize("tokens", [1000, None])
def test_saved_loads_are_read_back(name: str, tokens: int | None, tmp_path: Path) -> None:
    history = generate_loads("real", 3, 2, 8, tokens=tokens)
    save_loads(history, tmp_path / name)
    np.testing.assert_array_equal(read_loads(tmp_path / name).load_TLN, history.load_TLN)


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"loads are written as .npz or .json"):
        save_loads([[1, 2]], tmp_path / "loads.xls")


def test_windows_are_added_up() -> None:
    history = as_history(LOADS)
    np.testing.assert_array_equal(history.total(), [[8, 10, 12], [14, 16, 18]])
    np.testing.assert_array_equal(history.total(last=1), LOADS[1])
    for last in (0, 3, 1.5):
        with pytest.raises(LoadsError, match=f"there are 2 windows, not {last}"):
            history.total(last)  # type: ignore[arg-type]
