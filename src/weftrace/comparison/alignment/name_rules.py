"""When do two names mean the same? Rules from strict to loose; each takes out what a compiler or a tuner put in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: Stands in a key for what a rule took out.
HOLE = "…"

_WORD = re.compile(r"\w+")
_HOLES = re.compile(rf"{HOLE}(?:[\s,_]*{HOLE})+")


@dataclass(frozen=True, slots=True)
class NameRule:
    """Names with the same key differ only in what the rule takes out.

    name: as it is told. key: of a name that the rules before have worked on. counts: what is taken out is a number that
    somebody counts up: where one such name has no partner, all with its key are summed, for the numbers may have moved.
    alone: even where the other run has none without a partner. asks: both must be launched from the same known
    operators, for what is taken out may say what a kernel does.
    """

    name: str
    key: Callable[[str], str]
    counts: bool = False
    alone: bool = False
    asks: bool = False


def keys_of(name: str, rules: tuple[NameRule, ...]) -> tuple[str, ...]:
    """The key of a name by each rule, each on top of those before it."""
    found = []
    for rule in rules:
        name = _HOLES.sub(HOLE, rule.key(name))
        found.append(name)
    return tuple(found)


# ------------------------------------------------------------------------------------------------- hashes and counters

# Names of anonymous namespaces, as nvcc writes them: _GLOBAL__N__8c9e9aa4_21_SoftMax_cu_9978a9c4_12345.
_NAMESPACE = re.compile(r"_GLOBAL__N__?\w+|\(anonymous namespace\)|<unnamed>")
_HASH = re.compile(
    r"(?<![A-Za-z0-9])(?:0x[0-9a-f]{4,}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}|[a-z2-7]{40,})(?![A-Za-z0-9])"
)
# Triton before 3.0 appends the arguments' specialization: _fwd_kernel_0d1d2d34d5de6c.
_SPECIALIZED = re.compile(r"_(?=\d+[dc])0(?:de|d|c)?1[\dcde]*$")
# Inductor counts its kernels: triton_poi_fused_add_3. Without "fused" or a template's name they say nothing else.
_INDUCTOR = re.compile(r"^(triton_(?:\w*fused|tem|mm|bmm|conv|for)\w*?)_\d+$")
_REGION = re.compile(r"(?<=Region: )\d+/\d+|(?<=CompiledFxGraph )\S+|(?<=\): )(?=lambda$)")


# ROCm's names of code objects.
_OBJECT = re.compile(r"(?: \[clone )?\.kd\]?$")


def _without_hash(name: str) -> str:
    name = _NAMESPACE.sub("(anonymous namespace)", _OBJECT.sub("", name))
    return _SPECIALIZED.sub(f"_{HOLE}", _HASH.sub(HOLE, name))


def _without_counter(name: str) -> str:
    return _REGION.sub(HOLE, _INDUCTOR.sub(rf"\1_{HOLE}", name))


# -------------------------------------------------------------------------------------------------------- tile sizes

# Of libraries' GEMMs, between underscores: 128x256, MT16x16x128, tilesize64x64x64, t128x8x256u2, stage3, align8, ldg8.
# A prefix is named, for fp8x2 and int8x4 are types.
_TILE = re.compile(
    r"(?:MT|MI|t|et|m|c|tile|tilesize|warpsize|warpgroupsize|cluster|cga|tensor|sliced)?\d+(?:x\d+)+(?:u\d+)?"
    r"|stages?\d*|align[A-Za-z]{0,2}\d+|ldg\d+|splitK\d*"
)
_INSTRUCTION = re.compile(r"(?<=[a-z])\d+x\d+x\d+(?=[a-z]*gemm)")  # s64x256x16gemm: a wgmma is as wide as its tile
# cuBLAS: nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT. Types and layouts are words of their own, these the schedule.
_SCHEDULE = re.compile(r"h|v|bz|coop[A-Z]*|spl?i?t?k\d*|splitK\d*|\dcta|tma[A-Z]*|align[A-Z]*\d+")
# Tensile: before MT128x64x64 stands the problem (layouts, types, epilogue), behind it tuning, but for ISA.
_TENSILE = re.compile(r"^(.*?Cijk_\w*?)_MT\d+x\d+.*$")
_ISA = re.compile(r"_ISA([0-9a-f]+)")


def _without_tiles(name: str) -> str:
    if tensile := _TENSILE.match(name):
        isa = _ISA.search(name)
        return f"{tensile[1]}_{HOLE}{isa[0] if isa else ''}"
    return _WORD.sub(lambda word: _word_without_tiles(word[0]), name)


def _word_without_tiles(word: str) -> str:
    if not any(letter.isdigit() for letter in word):
        return word
    parts: list[str] = []
    is_cublas = word.startswith("nvjet_")
    for part in word.split("_"):
        is_tile = bool(_TILE.fullmatch(part)) or (is_cublas and bool(_SCHEDULE.fullmatch(part)))
        is_tile |= part.isdigit() and parts[-1:] == [HOLE]  # the number of stages: 128x128x64_2x1x1_0
        parts.append(HOLE if is_tile else _INSTRUCTION.sub(HOLE, part))
    return "_".join(parts)


# ------------------------------------------------------------------------------------------------ template arguments

# A literal among template arguments: 128, 2ul, -2, (int)8; of a mangled name Li128E. A type is coded by numbers of ten
# digits and more (Marlin's), by an enumeration's cast, (deep_gemm::GemmType)0, and by the bytes of an OpaqueType<4>.
_NUMBER = re.compile(
    r"(?<=[<,])(?<!OpaqueType<)\s*(?:\((?:unsigned )?(?:int|long|short|char|unsigned)\))?"
    r"-?\d{1,9}(?:u|l|ul|ull|ll)?\s*(?=[,>])"
)
_MANGLED = re.compile(r"(?<![A-Za-z])L[ijlmstxy]n?\d{1,9}E|(?<=[EIi])L[ijlmstxy]n?\d{1,9}E")
_BOOLEAN = re.compile(r"(?<=[<,])\s*(?:true|false|\(bool\)[01])\s*(?=[,>])|(?<=[EI])Lb[01]E")
_LAMBDA = re.compile(r"(?<=\})?#\d+(?=\})|(?<='lambda)\d*(?=')")
_LITERALS = re.compile(rf",?\s*{HOLE}(?:,\s*{HOLE})*(?=[,>])(?:(?<=<{HOLE}),\s*)?|L{HOLE}E")
_ARRAY = re.compile(r"at::detail::Array<")  # until torch 2.3; std::array since


def _without_numbers(name: str) -> str:
    name = _MANGLED.sub(f"L{HOLE}E", name) if name.startswith("_Z") else name
    return _tidy(_NUMBER.sub(HOLE, _ARRAY.sub("std::array<", name)))


def _without_arguments(name: str) -> str:
    name = _LITERALS.sub("", _LAMBDA.sub("", _BOOLEAN.sub(HOLE, name)))
    return f"{name}{HOLE}"  # a name that no kernel has


def _tidy(name: str) -> str:
    """Spaces before a closing bracket, and how many literals stood side by side, say nothing."""
    name = re.sub(rf"(?:L{HOLE}E)+", f"L{HOLE}E", re.sub(r"\s+>", ">", name))
    return re.sub(rf"{HOLE}(?:,\s*{HOLE})+", HOLE, name)


# -------------------------------------------------------------------------------------------------------- the ladders

#: Of kernels, and of operators, which bear a kernel's name where Inductor launched it.
KERNEL_RULES = (
    NameRule("compile hash", _without_hash),
    NameRule("compile number", _without_counter, counts=True),
    NameRule("tile sizes", _without_tiles),
    NameRule("template numbers", _without_numbers),
    NameRule("template arguments", _without_arguments, asks=True),
)
OPERATOR_RULES = KERNEL_RULES[:2]

# What these words number are parts of a model or of a job: layer 3 is not layer 4.
_PART = r"(?i:layers?|blocks?|stages?|ranks?|experts?|chunks?|heads?|h|micro_?-?batch(?:es)?|mb|level)"
_NUMBERED_PART = re.compile(rf"(?<![A-Za-z]){_PART}[\s._#:=\[(-]*\d+")
_TYPE = re.compile(r"(?:bf|fp|int|float|nf|tf)\d+")
_DIGITS = re.compile(r"\d+")


def _without_digits(name: str) -> str:
    """Numbers of steps, of requests, shapes: all but those of a model's or a job's parts, and of types."""
    kept = {match.end() for match in (*_NUMBERED_PART.finditer(name), *_TYPE.finditer(name))}
    return _DIGITS.sub(lambda digits: digits[0] if digits.end() in kept else HOLE, name)


_COUNTED = re.compile(
    r"(?i)(?<![a-z])(?<!micro[\s_-])((?:iter(?:ation)?|it|step|batch|epoch|request|req|sample)s?[\s._#:=\[(-]*)\d+"
)


def _without_step(name: str) -> str:
    return _COUNTED.sub(rf"\1{HOLE}", name)


PHASE_RULES = (
    KERNEL_RULES[0],
    NameRule("step number", _without_step, counts=True, alone=True),
    NameRule("numbers", _without_digits, counts=True),
)
