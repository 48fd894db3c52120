"""Collectives: bytes that the call reads and writes on this rank, and the sums of a reduction."""

from __future__ import annotations

from typing import Any

from weftrace.costs.cost import Cost, Kind
from weftrace.costs.registry import Call, Key, dtype_name, rule
from weftrace.costs.tensors import tensors_in

C10D = """
    allreduce_ allreduce_coalesced_ reduce_ broadcast_ allgather_ _allgather_base_ allgather_coalesced_
    allgather_into_tensor_coalesced_ reduce_scatter_ _reduce_scatter_base_ reduce_scatter_tensor_coalesced_ alltoall_
    alltoall_base_ gather_ scatter_ send recv_ recv_any_source_
"""
FUNCTIONAL = """
    all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_ all_gather_into_tensor all_gather_into_tensor_out
    all_gather_into_tensor_coalesced reduce_scatter_tensor reduce_scatter_tensor_out reduce_scatter_tensor_coalesced
    all_to_all_single broadcast broadcast_ isend irecv batch_p2p_ops
"""
OTHERS = """
    _dtensor::shard_dim_alltoall symm_mem::one_shot_all_reduce symm_mem::one_shot_all_reduce_out
    symm_mem::two_shot_all_reduce_ symm_mem::multimem_all_reduce_ symm_mem::multimem_one_shot_all_reduce
    symm_mem::multimem_all_gather_out symm_mem::reduce_scatter_out
"""
NAMES = (
    *(f"c10d::{name}" for name in C10D.split()),
    *(f"_c10d_functional::{name}" for name in FUNCTIONAL.split()),
    *(f"_c10d_functional_autograd::{name}" for name in FUNCTIONAL.split()),
    *OTHERS.split(),
)
WAITS = (
    "_c10d_functional::wait_tensor",
    "_c10d_functional_autograd::wait_tensor",
    "_c10d_functional::_wrap_tensor_autograd",
    "c10d::barrier",
    "c10d::monitored_barrier_",
    "c10d::check_for_nan",
)


def _bytes(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in((tensors,)))


@rule(*NAMES)
def _collective(call: Call) -> Cost:
    """c10d's operators name what they write: outputs first and inputs after; functional ones return what they write.

    The sums of a reduction are made by the network's library as it receives; they are not counted as vector FLOPs.
    """
    written, read = 0, 0
    for name, value, marked in call.named_arguments():
        if marked or name.startswith(("output", "out")):  # c10d's lists of lists carry no mark
            written += _bytes(value)
        else:
            read += _bytes(value)
    written = written or _bytes(call.out)
    read = read or written  # in place: an all-reduce reads what it overwrites
    first = next(tensors_in((call.args, call.kwargs, call.out)), None)
    return Cost(
        read_bytes=read,
        written_bytes=written,
        dtype="" if first is None else dtype_name(first.dtype),
        kind=Kind.COMM,
    )


@rule(*WAITS, key=Key.NAME)
def _wait(call: Call) -> Cost:
    return Cost(kind=Kind.FREE)
