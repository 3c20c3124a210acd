"""Separates a slice's rows whose keys the table has, usually few, from the others."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.postgres.merge_sql import KEYS, MergeSql
from playhead.postgres.rows.decode import ORDER, Decoded
from playhead.postgres.session import CopySession

# With a larger share of conflicts, staging all rows costs less.
_MOST_MET = 0.5
# One index lookup for each key: the cost must not grow with the table, and without statistics of
# the temporary table, the planner cannot know that there are few keys.
_BY_INDEX = """
SELECT pg_catalog.set_config('enable_hashjoin', 'off', true), pg_catalog.set_config('enable_mergejoin', 'off', true),
       pg_catalog.set_config('enable_seqscan', 'off', true)
"""


def part(session: CopySession, merge: MergeSql, decoded: Decoded) -> tuple[Decoded, Decoded] | None:
    """Return rows with new keys, and rows with existing ones; None if these are too many."""
    rows = decoded.ready
    session.run(merge.make_keys())
    session.copy_aside(KEYS, rows.select([ORDER, *merge.key]))
    session.run(_BY_INDEX)
    met = pa.array([row[0] for row in session.run(merge.met())], pa.int64())
    if len(met) > _MOST_MET * len(rows):
        return None
    if not len(met):
        return decoded, _with(decoded, rows.slice(0, 0))
    is_met = pc.is_in(rows.column(ORDER), value_set=met)
    return _with(decoded, rows.filter(pc.invert(is_met))), _with(decoded, rows.filter(is_met))


def _with(decoded: Decoded, rows: Any) -> Decoded:
    return replace(decoded, ready=rows)
