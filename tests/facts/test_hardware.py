"""Hardware figures: lookup by any name, and numbers that must agree with each other."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, shared_data_folder
from weftrace.errors import WeftraceError
from weftrace.facts import DTYPES, Hardware, hardware, hardware_of_device, known_hardware, load_hardware

DATA = shared_data_folder()


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("H800 SXM", "H800 SXM"),
        ("h800", "H800 SXM"),
        ("NVIDIA H800", "H800 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("H100", "H100 SXM"),
        ("h100  sxm", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA A100-PG509-200", "A100 SXM 40GB"),
        ("A100", "A100 SXM 80GB"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe 32GB"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI250X", "MI250X GCD"),
        ("mi250", "MI250 GCD"),
        ("NVIDIA B200", "B200 SXM"),
        ("NVIDIA GB200", "GB200 NVL72"),
        ("gb300", "GB300 NVL72"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("mi325x", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
    ],
)
def test_lookup(asked: str, found: str) -> None:
    assert hardware(asked).name == found


@pytest.mark.parametrize(
    "asked",
    [
        "NVIDIA H100 NVL",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA B300",
        "NVIDIA H20-3e",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA A10",
        "AMD Radeon Graphics",
        "Tesla V100",
        "",
    ],
)
def test_what_is_not_known_is_not_guessed(asked: str) -> None:
    with pytest.raises(WeftraceError, match=r"known: H800 SXM, H100 SXM, .*docs/hardware\.md"):
        hardware(asked)


def test_known_names() -> None:
    assert set(known_hardware()) >= {"H800 SXM", "H100 SXM", "H200 SXM", "A100 SXM 80GB", "B200 SXM", "MI300X"}


def test_h800_has_the_figures_that_deepseek_used() -> None:
    """132 SMs, 3.35 TB/s, dense FP8 1979 and BF16 989 TFLOP/s, NVLink about 160 GB/s, NIC 50 GB/s."""
    h800 = hardware("H800")
    assert (h800.num_sms, h800.gpus_per_node) == (132, 8)
    assert (h800.peak("fp8"), h800.peak("bf16")) == (1979e12, 989e12)
    assert (h800.hbm_bytes_per_s, h800.link_bytes_per_s, h800.nic_bytes_per_s) == (3.35e12, 160e9, 50e9)
    assert h800.hbm_bytes == 80 * 2**30


def test_dense_not_sparse() -> None:
    # the data sheets' large print, with sparsity, is twice these
    assert hardware("H100").peak("bf16") == 989.4e12
    assert hardware("H200").peak("fp8") == 1978.9e12
    assert hardware("A100").peak("bf16") == 312e12
    assert hardware("B200").peak("fp4") == 9e15
    assert hardware("MI300X").peak("fp8") == 2614.9e12
    assert hardware("GB200").peak("fp8") == 5e15
    assert hardware("GB300").peak("fp4") == 15e15


@pytest.mark.parametrize("name", ["GB200", "GB300"])
def test_a_rack_is_one_domain_of_nvlink(name: str) -> None:
    rack, server = hardware(name), hardware("B200")
    assert (rack.gpus_per_node, server.gpus_per_node) == (72, 8)
    assert rack.link_bytes_per_s == server.link_bytes_per_s == 900e9


@pytest.mark.parametrize("device", load_hardware(), ids=lambda device: device.name)
def test_numbers_agree_with_each_other(device: Hardware) -> None:
    peak = device.peak_flops
    assert set(peak) <= set(DTYPES)
    assert peak.get("bf16", peak["fp16"]) == peak["fp16"]  # older tensor cores have no BF16
    order = [peak[dtype] for dtype in ("fp32", "tf32", "fp16", "fp8", "fp4") if dtype in peak]
    assert order == sorted(order)
    if "fp8" in peak:  # half the bits, twice the rate, to the digits that vendors print
        assert peak["fp8"] / peak["bf16"] == pytest.approx(2, rel=0.03)  # L40S: 733 and 362.05
    assert 2**34 <= device.hbm_bytes <= 2**39
    assert device.hbm_bytes % 2**30 == 0
    assert 3e11 <= device.hbm_bytes_per_s < 1e13
    assert device.pcie_bytes_per_s is not None
    assert 16e9 <= device.pcie_bytes_per_s <= device.link_bytes_per_s
    assert device.nic_bytes_per_s < device.link_bytes_per_s < device.hbm_bytes_per_s
    assert device.sources.keys() == {
        *("num_sms", "hbm_bytes", "hbm_bytes_per_s", "link_bytes_per_s", "nic_bytes_per_s", "gpus_per_node"),
        "pcie_bytes_per_s",
        *(f"peak_flops.{dtype}" for dtype in peak),
    }
    assert all(device.sources.values())


def test_a_missing_peak_lists_those_there_are() -> None:
    with pytest.raises(WeftraceError, match="A100 SXM 80GB has no peak for 'fp8'; it has fp64, fp32"):
        hardware("A100").peak("fp8")


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        hardware("H100").num_sms = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        hardware("H100").peak_flops["bf16"] = 1.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "num_sms", "gib", "found", "why"),
    [
        ("NVIDIA H100 80GB HBM3", None, None, "H100 SXM", ""),
        ("", 304, 191.98, "MI300X", "taken for MI300X by its 304 SMs or CUs and 192.0 GiB"),
        ("AMD Radeon Graphics", 304, 255.9, "MI325X", "taken for MI325X by its 304 SMs or CUs and 255.9 GiB"),
        ("AMD Radeon Graphics", 110, 63.98, "MI250X GCD", "taken for MI250X GCD by its 110 SMs or CUs and 64.0 GiB"),
        # one die alone on a card, and two on one: the same peaks
        (
            "AMD Radeon Graphics",
            104,
            63.98,
            "MI250 GCD",
            "taken for MI250 GCD or MI210 by its 104 SMs or CUs and 64.0 GiB",
        ),
    ],
)
def test_a_device_without_a_telling_name(
    name: str, num_sms: int | None, gib: float | None, found: str, why: str
) -> None:
    device, taken = hardware_of_device(name, num_sms, None if gib is None else int(gib * 2**30))
    assert (device.name, taken) == (found, why)


@pytest.mark.parametrize(
    ("num_sms", "memory", "says"),
    [
        (132, 79 * 2**30, "H800 SXM, H100 SXM have these"),  # which differ
        (304, 64 * 2**30, "304 SMs or CUs and 64.0 GiB do not either. Name it"),  # a part of a partitioned MI300X
        (304, None, "unknown memory"),
        (None, 192 * 2**30, "an unknown number of SMs"),
    ],
)
def test_a_nameless_device_that_several_fit_or_none_is_not_guessed(
    num_sms: int | None, memory: int | None, says: str
) -> None:
    with pytest.raises(WeftraceError, match=says):
        hardware_of_device("", num_sms, memory)


GUIDE = (ROOT / "docs" / "hardware.md").read_text("utf-8")


@pytest.mark.parametrize("device", load_hardware(), ids=lambda device: device.name)
def test_the_guides_table_holds_the_numbers_of_the_file(device: Hardware) -> None:
    row = next(line for line in GUIDE.splitlines() if line.startswith(f"| {device.name} |"))
    bf16, fp8 = device.peak_flops.get("bf16"), device.peak_flops.get("fp8")
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        device.name,
        f"{bf16 / 1e12:,.10g}" if bf16 else "–",
        "–" if fp8 is None else f"{fp8 / 1e12:,.10g}",
        f"{device.hbm_bytes // 2**30} GiB",
        f"{device.hbm_bytes_per_s / 1e12:.10g}",
        f"{device.num_sms}",
        f"{device.link_bytes_per_s / 1e9:.10g}",
        f"{device.nic_bytes_per_s / 1e9:.10g}",
        f"{(device.pcie_bytes_per_s or 0) / 1e9:.10g}",
    ]


def test_the_guides_example_file_works(tmp_path: Path) -> None:
    path = tmp_path / "my_hardware.toml"
    path.write_text(GUIDE.split("```toml\n")[1].split("```")[0], "utf-8")
    assert hardware("ACME Loom-1 64GB", path).peak("bf16") == 400e12


MINE = """
[[hardware]]
name = "Loom 1"
match = 'Loom[- ]?1\\b'
num_sms = { value = 64, source = "data sheet" }
hbm_bytes = { value = 68_719_476_736, source = "data sheet" }
hbm_bytes_per_s = { value = 2e12, source = "data sheet" }
link_bytes_per_s = { value = 200e9, source = "data sheet" }
nic_bytes_per_s = { value = 25e9, source = "our cluster" }
gpus_per_node = { value = 4, source = "our cluster" }

[hardware.peak_flops]
bf16 = { value = 400e12, source = "data sheet, dense" }
"""


def test_a_users_file_extends_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE, "utf-8")
    assert hardware("ACME Loom-1 64GB", path).peak_flops == {"bf16": 400e12}
    assert known_hardware(path)[0] == "Loom 1"
    assert hardware("ACME Loom-1 64GB", path).pcie_bytes_per_s is None  # older files do not say
    assert len(known_hardware(path)) == len(known_hardware()) + 1
    path.write_text(MINE.replace("Loom 1", "h800 sxm").replace("Loom[- ]?1", "H800"), "utf-8")
    assert hardware("NVIDIA H800", path).num_sms == 64
    assert len(known_hardware(path)) == len(known_hardware())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[[hardware]]", "[[hardwares]]", "unknown key 'hardwares'"),
        ('name = "Loom 1"', "", "accelerator 1: 'name' is missing"),
        ("match = 'Loom[- ]?1\\b'", "match = '(Loom'", r"accelerator 1 \(Loom 1\): bad regex"),
        ("num_sms", "num_cus", "unknown key 'num_cus'"),
        ("{ value = 64, source", "{ value = 0, source", "num_sms: value must be a number above 0, not 0"),
        ("{ value = 64, source", "{ value = 64.5, source", "num_sms must be a whole number"),
        ("{ value = 64, source", "{ value = true, source", "not True"),
        ("{ value = 64, source", "{ value = nan, source", "above 0, not nan"),
        ('{ value = 64, source = "data sheet" }', "64", "num_sms must be given as { value"),
        ('{ value = 64, source = "data sheet" }', '{ value = 64, source = "" }', "source must say where"),
        ("bf16 =", "bfloat16 =", "unknown dtype 'bfloat16'"),
        ('bf16 = { value = 400e12, source = "data sheet, dense" }', "", "'peak_flops' is missing"),
        ("gpus_per_node = ", "gpus_per_node ", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_and_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    assert old in MINE
    path.write_text(MINE.replace(old, new), "utf-8")
    with pytest.raises(WeftraceError, match=f"mine.toml.*{says}"):
        hardware("H100", path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(WeftraceError, match=r"nowhere\.toml: cannot be read"):
        load_hardware(tmp_path / "nowhere.toml")


def test_real_traces_report_the_numbers_we_state() -> None:
    """SM count and memory of each device that a trace names and we know: the profiler sees up to 5 % less memory."""
    paths = sorted(DATA.rglob("*.json.gz"))
    if not paths:
        pytest.skip(f"no traces in {DATA}; set WEFTRACE_DATA")
    seen = set()
    for path in paths:
        document = json.loads(gzip.decompress(path.read_bytes()), strict=False)
        for device in document.get("deviceProperties", []) if isinstance(document, dict) else []:
            known, _ = hardware_of_device(device["name"], device["numSms"], device["totalGlobalMem"])
            seen.add(known.name)
            assert device["numSms"] == known.num_sms
            assert 0.95 < device["totalGlobalMem"] / known.hbm_bytes <= 1
    assert seen == {"H800 SXM", "H100 SXM", "A100 SXM 40GB", "V100 SXM2 32GB", "MI300X", "MI250 GCD"}


def test_an_accelerator_travels_to_other_processes() -> None:
    assert all(copy.deepcopy(device) == device for device in load_hardware())
