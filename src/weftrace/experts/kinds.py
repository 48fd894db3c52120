"""What can be done with a placement and a replay: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.experts.document import SCHEMA, placement_of
from weftrace.experts.placement import Placement
from weftrace.experts.replays.document import REPLAY_SCHEMA, replay_document
from weftrace.experts.replays.replay import Replay
from weftrace.kinds import Kind

KINDS = (
    Kind(value=Placement, schema=SCHEMA, load=lambda document, what: placement_of(document, what=what)),
    Kind(value=Replay, document=replay_document),
)

SCHEMAS = (REPLAY_SCHEMA,)
