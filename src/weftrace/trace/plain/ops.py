"""What is each range of a plain trace, told from its name: which operation, of which micro-batch, stage and step?"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import polars as pl

from weftrace.trace.kernels import OTHER, KernelRules, classify, load_rules

_RULES = Path(__file__).with_name("ops.toml")

# Numbers within a name, by the word before them.
_NUMBERED = {
    "micro_batch": r"(?:micro[ _-]?batch|mb|ubatch)",
    "pp": r"(?:stage|pp)",
    "chunk": r"(?:model[ _-]?chunk|chunk|vstage|vpp)",
    "step": r"(?:step|iteration|iter)",
    "rank": r"(?:rank)",
}
_NUMBER = {
    field: re.compile(rf"[ _\-:,.(\[]*(?<![A-Za-z]){word}[ _\-#:=]*(\d{{1,9}})(?!\d)[)\]]*", re.IGNORECASE)
    for field, word in _NUMBERED.items()
}
# F0, b12, 0F4 (stage before, micro-batch behind), forward_3, Fwd 3.
_PHASES = r"F|B|I|W|fwd|bwd|(?:forward|backward)(?:[-_ ]compute)?|wgrad|dgrad"
_SHORT = re.compile(rf"(\d{{0,4}})\s*({_PHASES})[ _\-#]?(\d{{1,6}})", re.IGNORECASE)
_COUNTED = re.compile(r"[ _\-#.]+\d{1,9}$|(?<=[a-z])\d{1,9}$", re.IGNORECASE)

#: Nothing that a rank does: some writers draw the time between as a range.
WAITING = r"^(?:idle|bubble|wait|waiting|stall|empty)$"
#: Ranges around others, in which all of a step stands.
WHOLE = (
    r"^(?:train(?:ing)? ?)?(?:step|iteration|iter|batch|epoch|loop)(?: \d+)?$"
    r"|^forward backward$|^(?:fwd|f) ?(?:bwd|b)$|^schedule$"
)


def parsed_names(names: pl.Series) -> pl.DataFrame:
    """A row a name: name, phase (the name without its numbers), words (the phase as the rules match it), and the
    numbers: micro_batch, pp, chunk, step, rank; null where there is none."""
    rows = [_parsed(name) for name in names.cast(pl.String).unique().drop_nulls().to_list()]
    numbers = {field: pl.Int64() for field in _NUMBER}
    return pl.DataFrame(rows, schema={"name": pl.String(), "phase": pl.String(), "words": pl.String(), **numbers})


def _parsed(name: str) -> dict[str, str | int | None]:
    found: dict[str, str | int | None] = dict.fromkeys(_NUMBER)
    if short := _SHORT.fullmatch(name.strip()):
        before, phase, number = short.groups()
        found |= {"pp": int(before) if before else None, "micro_batch": int(number)}
        return {"name": name, "phase": phase, "words": words(phase), **found}
    phase = name
    for field, pattern in _NUMBER.items():
        if match := pattern.search(phase):
            found[field] = int(match[1])
            phase = phase[: match.start()] + " " + phase[match.end() :]
    phase = " ".join(phase.split()).strip(" _-:,;|/") or name
    return {"name": name, "phase": phase, "words": words(phase), **found}


def words(text: str) -> str:
    """A name in lower case, its words parted by single blanks: "forwardSend" and "forward-send" are "forward send"."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def classes(parsed: pl.DataFrame, categories: pl.Series) -> pl.DataFrame:
    """The class of each name in its category, row by row: kind, family, collective, role, rule.

    parsed: name, phase and words of each; categories: what the file calls each. A rule for the words counts first, then
    one for kernels of that name, then one for the words of the category.
    """
    by_words, kernel_rules = _operations(), load_rules()
    tried = [
        classify(parsed.get_column("words"), by_words),
        classify(parsed.get_column("name"), kernel_rules),
        classify(pl.Series([words(cat or "") for cat in categories.to_list()], dtype=pl.String), by_words),
    ]
    columns = ("kind", "family", "collective", "role", "rule")
    picked = [frame.get_column("rule").is_not_null() for frame in tried]
    unknown = {"kind": "compute", "family": OTHER, "collective": None, "role": None, "rule": None}
    found = {}
    for column in columns:
        values = pl.Series(column, [unknown[column]], dtype=pl.String).new_from_index(0, parsed.height)
        for frame, known in reversed(list(zip(tried, picked, strict=True))):
            values = values.zip_with(~known, frame.get_column(column))
        found[column] = values.alias(column)
    return pl.DataFrame(found)


def without_count(phase: str) -> str:
    """A communication's name without the number at its end: each call has another."""
    return _COUNTED.sub("", phase) or phase


@lru_cache(maxsize=1)
def _operations() -> KernelRules:
    return KernelRules(rules=tuple(rule for rule in load_rules(_RULES).rules if rule.file == str(_RULES)))
