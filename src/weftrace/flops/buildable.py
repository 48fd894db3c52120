"""Which of the models that weftrace knows (`weftrace.facts`) does this wing build, and why not the others?"""

from __future__ import annotations

from weftrace.errors import SpecError
from weftrace.facts.models import ModelConfig, load_models


def why_not_built(config: ModelConfig) -> str:
    """Why no code here builds it; "" where it is built."""
    if config.compressed is not None:
        return "its attention compresses keys, and its layers have several residual streams"
    if config.indexer is not None:
        return f"its attention chooses {config.indexer.top_k} keys a query"
    if config.latent is not None and not config.latent.q_rank:
        return "its queries are not compressed"
    return ""


def buildable_models() -> tuple[ModelConfig, ...]:
    """The known models that can be built by name."""
    return tuple(config for config in load_models() if not why_not_built(config))


def refuse_what_is_not_built(config: ModelConfig) -> None:
    """Raises `SpecError`, with the models that are built, where no code builds this one."""
    why = why_not_built(config)
    if why:
        built = ", ".join(other.name for other in buildable_models())
        raise SpecError(f"weftrace does not build {config.name}: {why}; its numbers alone are known; built are {built}")
