"""Files that deceive, of every kind that a command reads, and every place of a command where a file is named.

python -m tests.hostile_files                         every file in every place: what goes wrong (an hour)
python -m tests.hostile_files twisted 100             whole files with a piece changed, 100 in every place
python -m tests.hostile_files bombs                   those that expand to 3 GiB, in every place
python -m tests.hostile_files "report sources" "deep lists.json"    one of them, with what it prints
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from tests import warm
from tests.tracefile import DISPATCH, GEMM, TraceFile

SECONDS = 60  # of processor time, in which a case is done
SPARE_BYTES = 3 << 30  # of address space, beyond what the process has
MOST_SAID = 4_000  # bytes that a refusal may have: it repeats no file

_PLACE = "--slots 8 --gpus 2"
#: Command and parameter -> the command line, with {} where the file stands, and the names of whole inputs.
PLACES: Mapping[str, str] = {
    "report sources": "report {} -o report.json -o report.html",
    "report --kernels": "report trace.json --kernels {}",
    "report --operators": "report trace.json --by module --operators {}",
    "report --flops": "report trace.json --flops {} --hardware h100",
    "report folder": "report {folder} --workers 1",
    "lanes sources": "lanes {}",
    "lanes --kernels": "lanes trace.json --kernels {}",
    "annotate sources": "annotate {} -o annotated.json",
    "annotate --kernels": "annotate trace.json --kernels {} -o annotated.json",
    "annotate --flops": "annotate trace.json --flops {} --hardware h100 -o annotated.json",
    "convert sources": "convert {} -o converted.parquet",
    "advise sources": "advise {} -o advice.json -o advice.html",
    "advise --flops": "advise trace.json --flops {} --hardware h100",
    "critical-path sources": "critical-path {}",
    "whatif sources": "whatif {} --scale communication=0.5",
    "whatif --placement": "whatif trace.json --placement {}",
    "whatif --placed-as": "whatif trace.json --placement {} --placed-as {}",
    "stragglers sources": "stragglers {}",
    "diff before": "diff {} trace.json",
    "diff after": "diff trace.json {} -o diff.md",
    "diff --kernels": "diff trace.json trace.json --kernels {}",
    "memory file": "memory {} -o memory.json -o memory.svg",
    "query arguments": "query {} 'select * from events'",
    "query --sql-file": "query trace.json --sql-file {}",
    "query --kernels": "query trace.json 'select * from events' --kernels {}",
    "experts balance loads": f"experts balance {{}} {_PLACE}",
    "experts balance --from": f"experts balance loads.json {_PLACE} --from {{}}",
    "experts replay loads": f"experts replay {{}} {_PLACE}",
    "flops count model": "flops count {}",
    "flops count --config": "flops count model.py --config {}",
    "flops diff before": "flops diff {} flops.json",
    "flops diff after": "flops diff flops.json {}",
    "flops show reports": "flops show {} -o flops-page.html",
    "pipeline compare --costs": "pipeline compare --stages 2 --micro-batches 4 --schedule 1f1b --costs {}",
    "pipeline recommend --trace": "pipeline recommend --devices 2 --micro-batches 4 --trace {}",
    "pipeline recommend --costs": "pipeline recommend --devices 2 --micro-batches 4 --costs {}",
    "pipeline recommend --flops":
        "pipeline recommend --devices 2 --micro-batches 4 --flops {} --hardware h100 --chunks 2",
    "pipeline show schedule": "pipeline show {} -o schedule.svg",
    "pipeline export schedule": "pipeline export {} --to megatron",
    "pipeline show --costs": "pipeline show 1f1b --stages 2 --micro-batches 4 --costs {}",
    "pipeline step --trace": "pipeline step --stages 2 --micro-batches 4 --ranks 4 --trace {}",
    "pipeline step --costs": "pipeline step --stages 2 --micro-batches 4 --ranks 4 --costs {}",
    "pipeline step --flops":
        "pipeline step --stages 2 --micro-batches 4 --ranks 4 --flops {} --hardware h100 --chunks 2",
    "pipeline slip plan": "pipeline slip {} trace.json",
    "pipeline slip measured": "pipeline slip pipeline.json {}",
    "profile train --overlap": "profile train --layers 3 --overlap {}",
    "profile train --costs": "profile train --layers 3 --costs {}",
    "profile train --loads": "profile train --layers 3 --loads {}",
    "profile prefill --overlap": "profile prefill --layers 3 --overlap {}",
    "profile prefill --costs": "profile prefill --layers 3 --costs {}",
    "profile prefill --loads": "profile prefill --layers 3 --loads {}",
    "profile decode --overlap": "profile decode --layers 3 --overlap {}",
    "profile decode --costs": "profile decode --layers 3 --costs {}",
    "profile decode --loads": "profile decode --layers 3 --loads {}",
    "profile pays --costs": "profile pays decode --batch 8 --costs {}",
    "profile pays --overlap": "profile pays decode --batch 8 --overlap {}",
    "profile calibrate trace": "profile calibrate {}",
    "profile validate simulated": "profile validate {} trace.json",
    "profile validate measured": "profile validate trace.json {}",
}  # fmt: skip
#: Place -> whole files that its command takes there, which are then twisted; of others, the trace.
SOUND: Mapping[str, str] = {
    "--kernels": "kernels.toml", "--operators": "operators.toml", "--flops": "flops.json", "--overlap": "overlap.toml",
    "--costs": "costs.json by-hand.json", "--loads": "gpu_loads.json", "--placement": "placement.json",
    "--placed-as": "placement.json",
    "--from": "placement.json", "--sql-file": "question.sql", "flops count model": "llama.json",
    "flops count --config": "deepspeed.json", "flops diff before": "flops.json", "flops diff after": "flops.json",
    "flops show reports": "flops.json", "diff before": "report.json", "diff after": "report.json",
    "memory file": "snapshot.pickle", "pipeline slip plan": "pipeline.json",
    "pipeline show schedule": "schedule.csv schedule.txt pipeline.json",
    "pipeline export schedule": "schedule.csv schedule.txt pipeline.json",
    **{f"experts {name} loads": "loads.json loads.csv loads.npz loads.npy vllm.json sglang.json history.json "
       "counts.safetensors" for name in ("balance", "replay")},
}  # fmt: skip
#: What a parameter that names a file is called in the help.
NAMES_A_FILE = re.compile(
    r"\b(TRACE|FILE|JSON|TOML|LOADS|REPORT|A|B|PLAN|BEFORE|AFTER|SIMULATED|MEASURED|MODEL)\b(?!S)"
)


def sound(place: str) -> list[str]:
    """Names of whole files that a place takes."""
    return SOUND.get(place, SOUND.get(place.rpartition(" ")[2], "trace.json")).split()


# --- files ------------------------------------------------------------------------------------------------------------


_TEXTS = {
    "kernels.toml": '[[rule]]\nname = "mine"\nkind = "compute"\nfamily = "mine"\nmatch = "x"\nsource = "test"\n',
    "operators.toml": '[[operator]]\nname = "mine"\nmatch = "^my::gemm$"\nkind = "gemm"\narguments = "a b out!"\n'
                      'source = "test"\n',
    "overlap.toml": 'title = "t"\nkinds = ["train", "prefill", "decode"]\nnum_chunks = 1\nall_sms = true\n'
                    'notes = ["a"]\n[[operation]]\nname = "a"\nwork = "attention"\nmicro_batch = 0\n[[operation]]\n'
                    'name = "b"\nwork = "dispatch"\nafter = ["a"]\nshare = 0.5\n',
    "by-hand.json": '{"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}',
    "gpu_loads.json": json.dumps({"loads": [[float(gpu + layer + 1) for gpu in range(64)] for layer in range(3)]}),
    "question.sql": "select name, dur_ns / 2.5 as d from work where kind = 'compute' order by d desc limit 5",
    "llama.json": '{"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, '
                  '"intermediate_size": 32, "vocab_size": 50, "torch_dtype": "bfloat16"}',
    "deepspeed.json": '{"train_batch_size": 4, "flops_profiler": {"enabled": true, "profile_step": 1, "module_depth":'
                      ' -1, "top_modules": 1, "detailed": true, "output_file": null}}',
    "schedule.txt": "0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n",
    "loads.csv": "layer,expert,load\n" + "".join(f"{i // 8},{i % 8},{i + 1}\n" for i in range(16)),
    "vllm.json": json.dumps({"expert_load_window": [[[1, 2, 3, 4]] * 2] * 3,
                             "physical_to_logical_map": [[0, 1, 2, 3]] * 2}),
    "sglang.json": json.dumps({"records": [{"forward_pass_id": i, "rank": 0, "global_physical_count": [[1, 2, 3, 4]]}
                                           for i in range(3)], "last_physical_to_logical_map": [[0, 1, 2, 3]]}),
    "history.json": json.dumps({"load_history": [{"logical_expert_load": [[1, 2, 3, 4]] * 2}] * 3}),
}  # fmt: skip


def write_whole(folder: Path) -> None:
    """Small inputs that commands take, by the names that `PLACES` has."""
    import weftrace as wt
    from tests.flops.small_reports import TINY
    from tests.memory.snapshots import snapshot
    from weftrace.experts import placement_report
    from weftrace.pipeline import Costs, generate, simulate

    file = TraceFile().kernel(GEMM, 100, 100, blocks=112).kernel(DISPATCH, 150, 100, stream=27)
    file.write(folder / "trace.json")
    (folder / "loads.json").write_text(json.dumps({"loads": [[[5, 1, 2, 8, 3, 1, 1, 4]] * 2] * 6}))
    for name, text in _TEXTS.items():
        (folder / name).write_text(text)
    loads = np.arange(1, 97).reshape(6, 2, 8)
    np.save(folder / "loads.npy", loads)
    np.savez(folder / "loads.npz", loads=loads, layers=np.arange(2))
    head = {
        f"{row // 2}_{row % 2}": {"dtype": "I64", "shape": [8], "data_offsets": [64 * row, 64 * row + 64]}
        for row in range(12)
    }
    header = json.dumps(head).encode()
    (folder / "counts.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + loads.tobytes())
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot(), 4))
    wt.save(wt.analyze(wt.open(folder / "trace.json")), folder / "report.json")
    placed = placement_report(wt.balance(loads[0], num_slots=8, num_gpus=2), loads[0])
    wt.save(placed, folder / "placement.json")
    wt.save(Costs.units(), folder / "costs.json")
    wt.save(simulate(generate("1f1b", num_ranks=2, num_micro_batches=3), Costs.units()), folder / "schedule.csv")
    (folder / "model.py").write_text("import torch\nbuild = lambda: torch.nn.Linear(2, 2)\n")
    wt.save(TINY, folder / "flops.json")
    wt.save(simulate(generate("1f1b", num_ranks=2, num_micro_batches=3), Costs.units()), folder / "pipeline.json")


_DEEP = 200_000
_DIGITS = "9" * 400
_BOMB = 3 << 30


def _texts() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "spaces", b" \n\t" * 100
    yield "zeros.bin", bytes(10_000)
    yield "noise.bin", np.random.default_rng(0).bytes(50_000)
    yield "noise.json", b"{" + np.random.default_rng(1).bytes(50_000)
    yield "utf-16.json", '{"schema": "weftrace.report/1"}'.encode("utf-16")
    yield "bom.json", b"\xef\xbb\xbf{}"
    yield "latin-1.json", b'{"schema": "\xe9"}'
    for name, text in (
        ("null", "null"), ("number", "1"), ("text", '"x"'), ("list", "[]"), ("object", "{}"), ("lists", "[[[1]]]"),
        ("two", "{}{}"), ("cut", '{"schema": "weft'), ("huge", f'{{"schema": {_DIGITS}}}'), ("digits", "9" * 5_000),
        ("infinite", '{"a": 1e999, "b": -1e999}'), ("nan", '{"a": NaN}'), ("surrogate", '{"schema": "\\ud800"}'),
        ("twice", '{"schema": 1, "schema": 2}'), ("loads", f'{{"loads": [[{_DIGITS}, 1e999, -0.0]]}}'),
        ("gpu_load", '{"schema": "weftrace.placement/1", "gpu_load": [1]}'),
        ("records", '{"records": [{"forward_pass_id": 1e999, "global_physical_count": [[1]]}], "phy2log": [[0]]}'),
        ("history", '{"load_history": [{"logical_expert_load": [["\\ud800"]]}]}'),
        ("ragged", '{"loads": [[1, 2], [3]]}'), ("dicts", '{"loads": [{"a": 1}]}'), ("texts", '{"loads": [["1e5"]]}'),
        ("columns", '{"as_columns": {"as_columns": 1}}'),
        ("torch", '{"model_type": "llama", "hidden_size": -1, "num_attention_heads": 1e999}'),
        ("events", '{"traceEvents": {"a": 1}}'), ("schema", '{"schema": ["weftrace.report/1"]}'),
        ("schemas", '{"schema": {"weftrace.report/1": 1}}'), ("zero", '{"schema": "weftrace.report/1\\u0000"}'),
        ("flops_profiler", '{"flops_profiler": {"enabled": true, "profile_step": 1e999, "top_modules": "x"}}'),
    ):  # fmt: skip
        yield f"{name}.json", text.encode()
    deep = {
        "lists": ("[", "]"), "objects": ('{"a":', "}"), "columns": ('{"as_columns":{"a":', "}}"),
        "both": ('[{"a":', "}]"),
    }  # fmt: skip
    for name, (begin, end) in deep.items():
        yield f"deep {name}.json", (begin * _DEEP + "1" + end * _DEEP).encode()
        yield f"deep {name} 900.json", (begin * 900 + "1" + end * 900).encode()
    yield "deep open.json", b"[" * 5_000_000
    for schema, field in (("report", "ranks"), ("placement", "gpu_load"), ("plan", "ops"), ("flops", "modules")):
        nested = f'"schema": "weftrace.{schema}/1", "{field}": {"[" * _DEEP}{"]" * _DEEP}'
        yield f"deep {schema}.json", f"{{{nested}}}".encode()
    for key in ("loads", "layers", "load_history", "records", "traceEvents", "flops_profiler", "model_type"):
        yield f"deep {key}.json", f'{{"{key}": {"[" * _DEEP}{"]" * _DEEP}}}'.encode()
    yield "wide.json", b'{"loads": [' + b"[]," * 100_000 + b"[]]}"
    yield "long.json", b'{"schema": "' + b"x" * 20_000_000 + b'"}'
    yield "keys.json", b"{" + b",".join(b'"%d":1' % number for number in range(200_000)) + b"}"


def _bombs() -> Iterator[tuple[str, bytes]]:
    for name, byte in (("zeros", b"\0"), ("spaces", b" "), ("digits", b"9"), ("open", b"[")):
        block = byte * (1 << 20)
        bomb = io.BytesIO()
        packer = zstandard.ZstdCompressor(level=1).stream_writer(bomb, closefd=False)
        for _ in range(_BOMB >> 20):
            packer.write(block)
        packer.close()  # type: ignore[no-untyped-call]
        yield f"bomb of {name}.json.zst", bomb.getvalue()
    bomb = io.BytesIO()
    with gzip.open(bomb, "wb", 1) as packed:
        packed.write(b'{"schema": "')
        for _ in range(_BOMB >> 20):
            packed.write(b"x" * (1 << 20))
    yield "bomb.json.gz", bomb.getvalue()
    yield "bomb of bombs.json.gz", gzip.compress(bomb.getvalue())
    held = io.BytesIO()
    np.savez_compressed(held, loads=np.zeros(_BOMB, np.uint8))
    yield "bomb.npz", held.getvalue()


def _packed() -> Iterator[tuple[str, bytes]]:
    whole = gzip.compress(json.dumps({"schema": "weftrace.report/1", "ranks": list(range(10_000))}).encode())
    yield "cut.json.gz", whole[: len(whole) // 2]
    yield "bent.json.gz", whole[:100] + bytes([whole[100] ^ 8]) + whole[101:]
    yield "checksum.json.gz", whole[:-8] + b"\0" * 8
    yield "trailing.json.gz", whole + b"x" * 100
    yield "head.json.gz", whole[:3]
    yield "head.json.zst", b"\x28\xb5\x2f\xfd"
    yield "window.json.zst", b"\x28\xb5\x2f\xfd\x00\xf8" + b"\1\0\0" * 10
    yield "nested.json.gz", _times(gzip.compress, b"{}", 10)


def _times(function: Callable[[bytes], bytes], value: bytes, number: int) -> bytes:
    for _ in range(number):
        value = function(value)
    return value


def _tables() -> Iterator[tuple[str, bytes]]:
    for name, text in (
        ("head", "layer,expert,load\n"), ("ragged", "1,2,3\n4,5\n6,7,8,9\n"), ("quotes", '1,"2\n3,4' * 1000),
        ("infinite", "1,inf\nnan,-1\n"), ("huge", f"{_DIGITS},1\n1e999,2\n"), ("nul", "1,\0,3\n4,5,6\n"),
        ("texts", "a,b\nc,d\n"), ("long", "layer,expert,load\n" + f"{2**63 - 1},{2**63 - 1},1\n" * 3),
        ("negative", "layer,expert,load\n-1,-1,-5\n"), ("empty lines", "\n" * 1000), ("tabs", "1\t2\n3\t4\n"),
        ("sparse", f"layer,expert,load\n0,{10**9},1\n"), ("layers", f"layer,expert,load\n{10**9},0,1\n"),
        ("schedule", "0F0,0B0\n" * 3), ("torch", "0F0,,0F99999999999999999999\n"), ("stages", "F" * 100_000 + "\n"),
    ):  # fmt: skip
        yield f"{name}.csv", text.encode()
    yield "wide.csv", b",".join(b"1" for _ in range(500_000)) + b"\n"
    yield "cell.csv", b"1," + b"9" * 20_000_000 + b"\n2,3\n"
    for name, text in (
        ("schedule", "0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n"), ("stages", "99999999999999999999: F0\n"),
        ("numbers", "0: F99999999999999999999 B0\n"), ("lines", "0:\n" * 100_000), ("sql", "select " + "(" * 10_000),
        ("sql chain", "select " + "1+" * 100_000 + "1 from events"), ("sql null", "select '\0' from events"),
        ("sql not", "select " + "not " * 50_000 + "true from events"), ("sql huge", f"select {_DIGITS} from events"),
        ("sql union", " union all ".join(["select 1"] * 5_000)), ("sql digits", "select '" + "x" * 10_000_000 + "'"),
        ("sql nested", "select * from (" * 3_000 + "events" + ")" * 3_000),
        ("sql case", "select " + "case when true then " * 2_000 + "1" + " end" * 2_000 + " from events"),
    ):  # fmt: skip
        yield f"{name}.txt", text.encode()


def _tomls() -> Iterator[tuple[str, bytes]]:
    rule = '[[rule]]\nname="n"\nkind="compute"\nfamily="f"\nsource="s"\n'
    for name, text in (
        ("open", "[["), ("deep", f"a = {'[' * 10_000}{']' * 10_000}"),
        ("tables", f"a = {'{a=' * 10_000}1{'}' * 10_000}"),
        ("digits", f"a = {'9' * 5_000}"), ("dots", "a" + ".a" * 3_000 + " = 1"), ("date", "a = 2020-02-30T99:99:99"),
        ("infinite", "rule = inf"), ("rules", 'rule = "x"'), ("heads", "[" + "a." * 3_000 + "a]"),
        ("match", f'{rule}match="("'), ("backtracking", f'{rule}match="(a+)+$"'), ("number", f"{rule}match=1"),
        ("large", f'{rule}match="(((a{{9}}){{999}}){{999}}){{999}}"'),
        ("many", rule + 'match="' + "a|" * 200_000 + 'a"'),
        ("groups", rule + 'match="' + "(" * 50_000 + ")" * 50_000 + '"'), ("null", rule + 'match="\\u0000"'),
        ("surrogate", rule + 'match="\\ud800"'), ("behind", rule + 'match="(?<=a*)b"'), ("twice", "a=1\na=2"),
        ("op", '[[op]]\nname="a"\narguments=["x"]\n'),
        ("operator", f'[[operator]]\nname="x::y"\nflops="{"(" * 9_000}"'),
        ("operation", "[[operation]]\nname=1\n"), ("lists", 'kinds=[["train"]]\n[[operation]]\nname="a"\n'),
        ("work", '[[operation]]\nname="a"\nwork=["x"]\n'), ("works", '[[operation]]\nname="a"\nwork={a=1}\n'),
        ("chunks", f'num_chunks={10**18}\n[[operation]]\nname="a"\nwork="attention"\n'),
        ("after", '[[operation]]\nname="a"\nwork="attention"\nafter=["a"]\n'), ("of", 'operations_of="of.toml"\n'),
        ("share", '[[operation]]\nname="a"\nwork="attention"\nshare=nan\n'), ("names", f'name="{"n" * 100_000}"\n'),
        ("itself", 'operations_of="{folder}/itself.toml"\n'),
    ):  # fmt: skip
        yield f"{name}.toml", text.encode()


def _arrays() -> Iterator[tuple[str, bytes]]:
    def npy(header: str) -> bytes:
        text = header.encode().ljust(118) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text

    for name, header in (
        ("huge", "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000, 1000)}"),
        ("negative", "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 8)}"),
        ("objects", "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
        ("dtype", "{'descr': 'xyz', 'fortran_order': False, 'shape': (1,)}"),
        ("none", "{'descr': '|V0', 'fortran_order': False, 'shape': (2, 8)}"),
        ("fields", "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (0, 8)}"),
        ("syntax", "{'descr': '<f8', 'fortran_order': False, 'shape': (((((((((((((((("),
        ("keys", "{'descr': '<f8'}"), ("list", "[1, 2]"),
    ):  # fmt: skip
        yield f"{name}.npy", npy(header)
    yield "head.npy", b"\x93NUMPY"
    yield "header.npy", b"\x93NUMPY\x03\x00\xff\xff\xff\xff" + b"(" * 100_000
    for name, array in (
        ("none", np.zeros((0, 2, 8))), ("one", np.array(5.0)), ("nan", np.full((2, 8), np.nan)),
        ("texts", np.full((2, 8), "x")), ("times", np.zeros((2, 8), "M8[s]")), ("complex", np.ones((2, 8), complex)),
        ("dimensions", np.zeros((1,) * 32)), ("large", np.full((2, 8), 1e308)), ("bytes", np.full((2, 8), b"1")),
        ("wide", np.zeros((1, 1, 3_000_000), np.uint8)), ("truths", np.ones((2, 8), bool)),
    ):  # fmt: skip
        held = io.BytesIO()
        np.save(held, array)
        yield f"saved {name}.npy", held.getvalue()
        held = io.BytesIO()
        np.savez_compressed(held, loads=array)
        yield f"{name}.npz", held.getvalue()
    held = io.BytesIO()
    np.savez_compressed(held, loads=np.arange(100_000), layers=np.array(["x"]))
    yield "bent.npz", held.getvalue()[:500] + b"\xff" + held.getvalue()[501:]
    yield "cut.npz", held.getvalue()[:1000]
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("a/data.pkl", b"\x80\x02cos\nsystem\nX\x05\x00\x00\x00false\x85R.")
        members.writestr("a/version", b"3\n")
    yield "runs.pt", held.getvalue()
    for name, shape in (("shape", [2**62, 4]), ("negative", [-2, -4])):
        head = json.dumps({"0_0": {"dtype": "I64", "shape": shape, "data_offsets": [0, 64]}}).encode()
        yield f"{name}.safetensors", len(head).to_bytes(8, "little") + head + bytes(64)
    yield "names.safetensors", b"\2\0\0\0\0\0\0\0{}" + bytes(8)
    yield "deep.safetensors", _DEEP.to_bytes(8, "little") + b'{"a":' + b"[" * _DEEP


def _pickles() -> Iterator[tuple[str, bytes]]:
    begin = b"\x80\x04"
    yield "runs.pickle", pickle.dumps(os.getcwd, 4)
    yield "cut.pickle", pickle.dumps({"segments": [{}] * 100}, 4)[:200]
    yield "mark.pickle", begin + b"(" * 1_000_000
    yield "deep.pickle", begin + b"]" * _DEEP + b"a" * (_DEEP - 1) + b"."
    yield "tuples.pickle", begin + b")" + b"\x85" * _DEEP + b"."
    yield "itself.pickle", begin + b"]\x94h\x00a."
    yield "declares.pickle", begin + b"\x8d" + b"\xff" * 8
    yield "memo.pickle", begin + b"h\x05."
    for name, value in (
        ("texts", {"segments": "abc"}), ("none", {"segments": None}), ("list", [1]), ("keys", {"segments": {1: 2}}),
        ("sizes", {"segments": [{"device": 2**63, "total_size": -(2**63), "blocks": [{}]}]}),
        ("floats", {"segments": [{"device": float("nan"), "total_size": float("inf"), "blocks": []}]}),
        ("traces", {"segments": [], "device_traces": [[{"action": [], "size": 1e308, "time_us": -(2**63)}]]}),
        ("names", {"segments": [{"total_size": 2**62, "segment_type": "\ud800", "blocks": []}] * 3}),
        ("doubled", _doubled(40)),
    ):  # fmt: skip
        yield f"snapshot {name}.pickle", pickle.dumps(value, 4)


def _doubled(number: int) -> dict[str, Any]:
    """A value that takes 2 ** number steps to walk and `number` to write."""
    value: list[Any] = []
    for _ in range(number):
        value = [value, value]
    return {"segments": value, "device_traces": value}


def _parquets() -> Iterator[tuple[str, bytes]]:
    import polars as pl

    for name, frame in (
        ("none", pl.DataFrame()), ("rows", pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)})),
        ("nested", pl.DataFrame({"a": [[1, 2], [3]], "b": [{"c": 1}, {"c": None}]})),
        ("nulls", pl.DataFrame({"layer": [None, 1], "expert": [0, None], "load": [1, 2]})),
        ("large", pl.DataFrame({"layer": [0], "expert": [2**62], "load": [2**63 - 1]})),
    ):  # fmt: skip
        held = io.BytesIO()
        frame.write_parquet(held)
        yield f"{name}.parquet", held.getvalue()
    yield "head.parquet", b"PAR1"
    yield "ends.parquet", b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1"


def twisted(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """A whole file with one or two pieces changed, and what was done: a number, a text, a line, a bit, its end."""
    done: list[str] = []
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.choice(("number", "number", "text", "name", "line", "bit", "cut"))
        pattern = {"number": _NUMBER, "text": _TEXT, "name": _NAME, "line": _LINE}.get(kind)
        found = list(pattern.finditer(data)) if pattern is not None else []
        at = rng.randrange(len(data) or 1)
        if found:
            each = rng.choice(found)
            new = rng.choice(_STRANGE if kind != "line" else (b"", each[0] + b"\n" + each[0], each[0][::-1]))
            data = data[: each.start()] + new + data[each.end() :]
            done.append(f"{each[0][:40]!r} to {new[:40]!r} at {each.start()}")
        elif kind == "cut":
            data = data[:at]
            done.append(f"cut at {at}")
        elif data:
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            done.append(f"bit of {at}")
    return data, ", ".join(done)


_NUMBER, _TEXT = re.compile(rb"-?\d+(?:\.\d+)?"), re.compile(rb'"[^"\n]*"(?!\s*[:=])|true|false|null')
_NAME, _LINE = re.compile(rb'"?\w+"?(?=\s*[:=])'), re.compile(rb"[^\n]+")
_STRANGE = tuple(
    text.encode("latin-1")
    for text in (
        "0", "-1", "1", "2", "1.5", "1e308", "-1e308", "1e999", "5e-324", "nan", "NaN", "inf", "null", "true", "[]",
        "{}", "[[]]", "[1, 2]", "4294967296", "100000000",
        *(str(number) for number in (2**63 - 1, -(2**63), 2**64, 10**12, -(10**19), 10**30)), "9" * 400, "9" * 5_000,
        "", '""', '"x"', '"12"', '{"a": 1}', '"\\ud800"', '"\\u0000"', "\xff", "\0", "[" * 500 + "]" * 500,
        f'"{"x" * 5_000}"',
    )
)  # fmt: skip


def write_hostile(folder: Path, *, bombs: bool = False) -> dict[str, Path]:
    """Name -> a file that is no input for most commands, or a wrong one. bombs: only those, which expand to 3 GiB."""
    found: dict[str, Path] = {}
    if bombs:
        for name, data in _bombs():
            found[name] = folder / name
            found[name].write_bytes(data)
        return found
    for family in (_texts, _packed, _tables, _tomls, _arrays, _pickles, _parquets):
        for name, data in family():
            path = folder / name
            path.write_bytes(data.replace(b"{folder}", os.fsencode(folder)))
            found[name] = path
    (folder / "a folder").mkdir()
    (folder / "dangling.json").symlink_to("nowhere")
    (folder / "circle.json").symlink_to("circle.json")
    for name in ("a folder", "dangling.json", "circle.json", "missing.json"):
        found[name] = folder / name
    return found | {"null device": Path("/dev/null"), "long name": folder / ("n" * 5_000)}


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit status, or 128 and the number of the signal that ended it; what it said."""

    place: str
    file: str
    status: int
    said: str
    seconds: float

    @property
    def wrong(self) -> str:
        """What no file may do, "" where it did not."""
        if self.status not in range(4):
            last = [line for line in self.said.splitlines() if line.strip()] or ["nothing was said"]
            where = re.findall(r'File ".*/src/(weftrace/[^"]+)", line (\d+)', self.said)
            at = ":".join(where[-1]) if where else ""
            return f"exits with status {self.status} {at} {last[-1][:200]}"
        if self.status and "Traceback" in self.said:
            return "says a traceback"
        if self.status in (2, 3) and not re.search("weftrace: |Error|Usage", self.said):
            return f"is refused without a word: {self.said[:200]!r}"
        if len(self.said) > MOST_SAID:
            return f"says {len(self.said):,} characters: {self.said[:200]!r}"
        return ""


class Cases:
    """Commands in one folder, each a process of its own with limits. program: `weftrace` of tests/warm.py."""

    def __init__(self, folder: Path, program: Path, *, bombs: bool = False) -> None:
        self.folder, self.program = folder, program
        write_whole(folder)
        (folder / "hostile").mkdir()
        self.files = write_hostile(folder / "hostile", bombs=bombs)

    def twisted(self, place: str, seed: str) -> Ended:
        """How a command ends with a whole file that was twisted. The seed says how."""
        rng = random.Random(f"{place} {seed}")
        name = rng.choice(sound(place))
        data, done = twisted((self.folder / name).read_bytes(), rng)
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            path = Path(own, name)
            path.write_bytes(data)
            return replace(self._ended(place, path), file=f"{name}, {done} (seed {seed})")

    def ended(self, place: str, name: str) -> Ended:
        """How a command ends with a hostile file."""
        return replace(self._ended(place, self.files[name]), file=name)

    def _ended(self, place: str, path: Path) -> Ended:
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            for each in self.folder.glob("*.*"):
                if each.is_file():
                    os.link(each, Path(own, each.name))
            if "{folder}" in PLACES[place]:
                ranks = Path(own, "ranks")
                ranks.mkdir()
                os.link(self.folder / "trace.json", ranks / "trace.json")
                with suppress(OSError):
                    (ranks / path.name).symlink_to(path)
            given = {"{}": str(path), "{folder}": "ranks"}
            words = [given.get(word, word) for word in shlex.split(PLACES[place])]
            limits = {warm.SECONDS: str(SECONDS), warm.SPARE_BYTES: str(SPARE_BYTES), "COLUMNS": "200"}
            begin = time.monotonic()
            done = subprocess.run(
                [self.program, *words], cwd=own, env={**os.environ, **limits}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
            )  # fmt: skip
            said = done.stderr.decode("utf-8", "replace").replace(str(path), path.name[:40])
            return Ended(place, path.name, done.returncode, said, time.monotonic() - begin)


def main(places: list[str], names: list[str], *, bombs: bool = False) -> None:
    """Print what goes wrong, and which cases take longest."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "warm").mkdir()
        held = warm._start(Path(folder) / "warm")
        (Path(folder) / "cases").mkdir()
        cases = Cases(Path(folder) / "cases", Path(folder) / "warm" / "weftrace", bombs=bombs)
        twist = names[:1] == ["twisted"]
        given = [str(number) for number in range(int(names[1]))] if twist else names or list(cases.files)
        check = cases.twisted if twist else cases.ended
        asked = [(place, name) for place in places or PLACES for name in given]
        random.Random(0).shuffle(asked)
        ended = []
        with ThreadPoolExecutor(2) as pool:
            for each in pool.map(lambda case: check(*case), asked):
                ended.append(each)
                if len(asked) == 1:
                    print(each.status, each.said)
                if each.wrong:
                    print(f"{each.place} < {each.file}: {each.wrong} ({each.seconds:.1f} s)", flush=True)
        os.close(held)
    slow = sorted(ended, key=lambda each: each.seconds)[:-11:-1]
    print(f"{len(ended)} cases, {sum(bool(each.wrong) for each in ended)} wrong; slowest:")
    print("\n".join(f"  {each.seconds:.1f} s {each.place} < {each.file}" for each in slow))


if __name__ == "__main__":
    if sys.argv[1:2] == ["bombs"]:
        main(sys.argv[2:], [], bombs=True)
    elif sys.argv[1:2] == ["twisted"]:
        main(sys.argv[3:], sys.argv[1:3])
    else:
        main(sys.argv[1:2], sys.argv[2:])
