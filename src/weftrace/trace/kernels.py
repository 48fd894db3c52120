"""Kernel classes: from a device event's name to compute, communication, memory or fused, by ordered rules in TOML."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import polars as pl

from weftrace.errors import RulesError, WeftraceError
from weftrace.facts.tables import read_tables
from weftrace.notebook import InNotebook
from weftrace.trace.ascii_patterns import ascii_pattern, is_ascii

Kind = Literal["compute", "communication", "memory", "fused"]
Role = Literal["data", "barrier"]

#: `fused` kernels compute and communicate in one: an expert layer with its dispatch and combine, a GEMM with its
#: all-gather. They are said to be neither, for how much of their time is which cannot be told from outside.
KINDS: tuple[Kind, ...] = ("compute", "communication", "memory", "fused")
ROLES: tuple[Role, ...] = ("data", "barrier")

#: Collectives as weftrace names them. `dispatch` and `combine` are the two all-to-alls of a mixture of experts;
#: `send_recv` is point to point; `coalesced` is a group of operations issued as one.
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send_recv",
    "dispatch",
    "combine",
    "barrier",
    "coalesced",
)

#: Family of a name that no rule matches; its kind is compute.
OTHER = "other"
#: Family of the host's names for collectives: operators of c10d, and ranges of its backends ("nccl:", "gloo:").
HOST_FAMILY = "host"
_RULES_AT_ONCE = 40
_MAX_KNOWN = 200_000  # names remembered; beyond it, all are forgotten

BUILT_IN = Path(__file__).with_name("kernels.toml")

CLASS_SCHEMA: dict[str, pl.DataType] = {
    "name": pl.String(),
    "kind": pl.String(),
    "family": pl.String(),
    "collective": pl.String(),
    "role": pl.String(),
    "persistent": pl.Boolean(),
    "rule": pl.String(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRule(InNotebook):
    """One rule: names that `match` finds are of this class.

    match: a regex in Rust's dialect, searched anywhere in the name.
    source: where the spelling is from.
    collective: one of `COLLECTIVES`, or None where the name does not tell; role: "data" moves payload, "barrier" only
    notifies or waits. Both are None unless kind is communication.
    persistent: one block per SM, so that the number of blocks is the number of SMs held.
    file: the file that states the rule.
    """

    name: str
    kind: Kind
    family: str
    match: str
    source: str
    collective: str | None = None
    role: Role | None = None
    persistent: bool = False
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRules(InNotebook):
    """Rules in the order in which they are tried; the first match wins."""

    rules: tuple[KernelRule, ...]

    def __len__(self) -> int:
        return len(self.rules)

    def rule(self, name: str) -> KernelRule:
        """The rule of that name; raises `RulesError` where there is none."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise RulesError(f"there is no kernel rule called {name!r}; known: {', '.join(r.name for r in self.rules)}")


def load_rules(*paths: str | os.PathLike[str]) -> KernelRules:
    """weftrace's own rules, then the rules of `paths` (TOML files) in turn.

    A file's new rules are tried before all that were loaded earlier. A rule with a known name overrides that rule where
    it stands, and takes from it what it does not state itself (except collective and role when it changes the kind).

    Raises `RulesError`, naming file and rule, where a file cannot be read, is not TOML, or states a rule wrongly.
    """
    rules = _built_in()
    for path in paths:
        rules = _with_file(rules, Path(path))
    return KernelRules(rules=rules)


@lru_cache(maxsize=1)
def _built_in() -> tuple[KernelRule, ...]:
    return _with_file((), BUILT_IN)


def classify(names: pl.Series, rules: KernelRules) -> pl.DataFrame:
    """The class of each name, row by row: name, kind, family, collective, role, persistent, rule (`CLASS_SCHEMA`).

    names: strings or categoricals, repeated or not; each distinct name is matched once. A null rule means that none
    matched: compute, family "other". A null name is treated the same.
    """
    text = names.cast(pl.String).rename("name")
    unique = text.unique(maintain_order=True)
    known = _known_names(rules)
    new = unique.filter(pl.Series([name not in known for name in unique], dtype=pl.Boolean))
    if len(known) + len(new) > _MAX_KNOWN:
        known.clear()
        new = unique
    known.update(zip(new, _first_match(new, rules), strict=True))
    first = pl.Series("rule_index", [known[name] for name in unique], dtype=pl.UInt32)
    table = pl.DataFrame(
        {
            "rule_index": pl.Series(range(len(rules)), dtype=pl.UInt32),
            "kind": [r.kind for r in rules.rules],
            "family": [r.family for r in rules.rules],
            "collective": [r.collective for r in rules.rules],
            "role": [r.role for r in rules.rules],
            "persistent": [r.persistent for r in rules.rules],
            "rule": [r.name for r in rules.rules],
        },
        schema={"rule_index": pl.UInt32(), **{k: t for k, t in CLASS_SCHEMA.items() if k != "name"}},
    )
    classes = (
        pl.DataFrame({"name": unique, "rule_index": first})
        .join(table, on="rule_index", how="left", maintain_order="left")
        .with_columns(
            pl.col("kind").fill_null("compute"),
            pl.col("family").fill_null(OTHER),
            pl.col("persistent").fill_null(False),
        )
        .select(list(CLASS_SCHEMA))
    )
    if len(unique) == len(text):
        return classes
    return text.to_frame().join(classes, on="name", how="left", nulls_equal=True, maintain_order="left")


@lru_cache(maxsize=4)
def _known_names(rules: KernelRules) -> dict[str | None, int | None]:
    """Which rule each name that was met so far matches.

    The ranks of a job run the same kernels, and compiling a hundred regexes takes longer than all else that is done
    with a small trace.
    """
    return {}


def _first_match(names: pl.Series, rules: KernelRules) -> pl.Series:
    """Index of the first rule that matches each name, null where none does. Matched names leave the search."""
    first = pl.Series("rule_index", [None] * len(names), dtype=pl.UInt32)
    rest = pl.DataFrame({"row": pl.int_range(len(names), dtype=pl.UInt32, eager=True), "name": names}).drop_nulls()
    plain = is_ascii(rest.get_column("name"))
    for low in range(0, len(rules), _RULES_AT_ONCE):
        if rest.is_empty():
            break
        some = rules.rules[low : low + _RULES_AT_ONCE]  # whose regexes Polars compiles side by side
        patterns = [ascii_pattern(r.match) if plain and r.file == str(BUILT_IN) else r.match for r in some]
        hits = rest.select(pl.col("name").str.contains(p).alias(str(at)) for at, p in enumerate(patterns)).to_numpy()
        is_hit = pl.Series(hits.any(axis=1))
        if is_hit.any():
            found = pl.Series(low + hits.argmax(axis=1), dtype=pl.UInt32)
            first = first.scatter(rest.filter(is_hit)["row"], found.filter(is_hit))
            rest = rest.filter(~is_hit)
    return first


#: What PyTorch writes as "Collective name" (RECORD_PARAM_COMMS in ProcessGroupNCCL.cpp and its siblings), letters only
#: and in lower case, and the collective it is.
_COLLECTIVE_OF_METADATA = {
    "allreduce": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "allreducesparse": "all_reduce",
    "allgather": "all_gather",
    "allgatherv": "all_gather",
    "allgatherbase": "all_gather",
    "allgathercoalesced": "all_gather",
    "allgatherintotensor": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterv": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallsingle": "all_to_all",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send_recv",
    "recv": "send_recv",
    "isend": "send_recv",
    "irecv": "send_recv",
    "sendrecv": "send_recv",
    "recvanysource": "send_recv",
    "batchisendirecv": "send_recv",
    "barrier": "barrier",
    "allreducebarrier": "barrier",
    "monitoredbarrier": "barrier",
    "coalesced": "coalesced",
}


def class_of_metadata(collective_name: str) -> str | None:
    """The collective that an event's "Collective name" states, one of `COLLECTIVES`; None where weftrace does not know
    it.

    Case, underscores and a backend's prefix ("nccl:") do not count. What the metadata says beats what the kernel's name
    says: a communication library may run one collective under another's kernel. A barrier's role is "barrier".
    """
    return _COLLECTIVE_OF_METADATA.get(re.sub(r"[^a-z]", "", collective_name.lower().rpartition(":")[2]))


def bus_factor(collective: str | None, group_size: int) -> float:
    """busbw / algbw of a collective over `group_size` ranks, as metrics.md and nccl-tests define it.

    All-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all, gather, scatter (n-1)/n; everything else 1: broadcast,
    reduce and send/recv by definition, and where no convention exists (dispatch, combine, barrier, coalesced, None).
    Raises `WeftraceError` where the group has no rank.
    """
    if group_size < 1:
        raise WeftraceError(f"a {collective or 'collective'} needs a group of at least 1 rank, not {group_size}")
    others = (group_size - 1) / group_size
    if collective == "all_reduce":
        return 2 * others
    if collective in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return others
    return 1.0


_FIELDS = tuple(f.name for f in fields(KernelRule) if f.name != "file")
_REQUIRED = ("kind", "family", "match", "source")


def _with_file(rules: tuple[KernelRule, ...], path: Path) -> tuple[KernelRule, ...]:
    """`rules` extended and overridden by the rules of one file."""
    known = {rule.name: rule for rule in rules}
    new: dict[str, KernelRule] = {}
    override: dict[str, KernelRule] = {}
    for number, entry in enumerate(_entries(path), 1):
        where = f"{path}: rule {number}"
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise RulesError(f"{where} has no name; give it one: name = 'my_rule'")
        where = f"{path}: rule {name!r}"
        if name in new or name in override:
            raise RulesError(f"{where} is stated twice; rename or remove one")
        if name in known:
            override[name] = _rule(_inherit(known[name], entry), where, path)
        else:
            new[name] = _rule(entry, where, path)
    return (*new.values(), *(override.get(rule.name, rule) for rule in rules))


def _entries(path: Path) -> list[dict[str, Any]]:
    hint = "; a regex is best put between single quotes"
    return read_tables(path, "rule", what="kernel rules", error=RulesError, hint=hint)


def _inherit(old: KernelRule, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an overriding entry leaves out, from the rule that it overrides."""
    merged = {f: getattr(old, f) for f in _FIELDS if getattr(old, f) is not None}
    if entry.get("kind", old.kind) != old.kind:
        merged.pop("collective", None)
        merged.pop("role", None)
    return {**merged, **entry}


def _rule(entry: Mapping[str, Any], where: str, path: Path) -> KernelRule:
    unknown = sorted(set(entry) - set(_FIELDS))
    if unknown:
        raise RulesError(f"{where}: unknown key {unknown[0]!r}; a rule has {', '.join(_FIELDS)}")
    missing = [key for key in _REQUIRED if key not in entry]
    if missing:
        raise RulesError(f"{where}: {missing[0]!r} is missing; a rule needs name, {', '.join(_REQUIRED)}")
    for key, value in entry.items():
        if key == "persistent":
            if not isinstance(value, bool):
                raise RulesError(f"{where}: 'persistent' must be true or false, not {value!r}")
        elif not isinstance(value, str) or not value:
            raise RulesError(f"{where}: {key!r} must be a text that is not empty, not {value!r}")
    _check_choice(where, "kind", entry["kind"], KINDS)
    if entry["kind"] == "communication":
        _check_choice(where, "collective", entry.get("collective", "barrier"), COLLECTIVES)
        _check_choice(where, "role", entry.get("role", "data"), ROLES)
    else:
        for key in ("collective", "role"):
            if key in entry:
                raise RulesError(f"{where}: {key!r} is for communication, and this rule's kind is {entry['kind']!r}")
    if path != BUILT_IN:  # ours compile, a test says; checking them would double the time to load
        _check_regex(where, entry["match"])
    return KernelRule(
        name=entry["name"],
        kind=entry["kind"],
        family=entry["family"],
        match=entry["match"],
        source=entry["source"],
        collective=entry.get("collective"),
        role=entry.get("role", "data") if entry["kind"] == "communication" else None,
        persistent=entry.get("persistent", False),
        file=str(path),
    )


def _check_choice(where: str, key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise RulesError(f"{where}: unknown {key} {value!r}; choose from {', '.join(choices)}")


def _check_regex(where: str, pattern: str) -> None:
    """Compiles the pattern where it will be used, since Rust's dialect is not Python's."""
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        reason = re.sub(r"\s*This error occurred in.*", "", str(error), flags=re.DOTALL)
        detail = reason.rpartition("error:")[2].strip() or reason
        raise RulesError(f"{where}: bad regex in 'match': {detail}: {pattern}") from error
