"""What may a trace file ask for? Within these limits, time and memory grow as with the text of an ordinary file.

docs/reading.md shows them all, with what happens beyond each.
"""

from __future__ import annotations

from typing import Final

from weftrace.units import MIB

#: Bytes of one event; of what stands before the list of events, and of what follows it; of damaged text that waits for
#: more, to find the next event.
EVENT_BYTES: Final = 8 * MIB
OUTSIDE_BYTES: Final = 64 * MIB
DAMAGE_BYTES: Final = 1 * MIB
#: Lists of events in one file: a file that was put together of several has some.
EVENT_LISTS: Final = 1_000

#: Characters of a name: of an event, a category, a thread, a process, a collective or a group. The longest names of
#: kernels, of C++ templates, have some ten thousand. Likewise of a list among the
#: arguments, which of a foreach operator may have a thousand tensors; of any other argument.
NAME_CHARS: Final = 1 << 16
LIST_CHARS: Final = 1 << 16
ARGUMENT_CHARS: Final = 4096
#: Plain facts that a file states of itself, none longer than a name; devices that it lists.
FACTS: Final = 1_000

#: Devices of one process, each of which is analysed for itself, with all of the host's events; more in a file of few
#: events; of still more, each must have so many events.
DEVICES: Final = 16
DEVICES_OF_FEW_EVENTS: Final = 64
FEW_EVENTS: Final = 100_000
EVENTS_PER_DEVICE: Final = 20_000
#: Modules or functions that lie in each other, as time by module and by line tells them: of those further in, the time
#: is the last one's.
CODE_DEPTH: Final = 1_000
#: Threads that launch work, of which the report says why the device waited for them: those that ended most gaps.
IDLE_THREADS: Final = 256
#: Threads that launch work, up to which a trace is replayed: each may wait for each other one.
REPLAYED_THREADS: Final = 256
#: Ranks of one plain Chrome trace; and those of them that a report analyses, one by one: of more, each must have so
#: many events.
RANKS: Final = 8_192
REPORTED_RANKS: Final = 512
EVENTS_PER_RANK: Final = 100
