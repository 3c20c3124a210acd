"""Test doubles, faults and contract suites for code that uses Playhead, and for new systems.

`ListSource([r0, r1, Abort(), r2])` fails once between `r1` and `r2`. `ListTarget` keeps committed records, and can
fail before or after a commit. So a recovery test reads like its specification: call `replay`, expect `Aborted`,
call it again, compare `target.records`. `ManualClock` is a clock that the test advances. `LinkProxy` forwards and
breaks connections between a client and a real server. `armed("NAME=raise")` fires a named abort point. A new
system must pass `exercise_source` and `exercise_target`; `sample_records` returns the records of both. A server on
which queries are played must pass `exercise_server`.
"""

from playhead.host.faults import Aborted, abort_points, armed
from playhead.testing.abort_item import Abort
from playhead.testing.clock import ManualClock
from playhead.testing.link_proxy import LinkProxy
from playhead.testing.memory import ListSource, ListTarget
from playhead.testing.replay import replay
from playhead.testing.server_contract import exercise_server
from playhead.testing.source_contract import exercise_source, sample_records
from playhead.testing.target_contract import exercise_target

__all__ = [
    "Abort",
    "Aborted",
    "LinkProxy",
    "ListSource",
    "ListTarget",
    "ManualClock",
    "abort_points",
    "armed",
    "exercise_server",
    "exercise_source",
    "exercise_target",
    "replay",
    "sample_records",
]
