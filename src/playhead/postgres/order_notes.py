"""What a plan says about which record of a key becomes its row."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from playhead.note import Note
from playhead.postgres.open_table import WriteRules, depends_on_order
from playhead.postgres.rows.column_layout import Layout, has_place
from playhead.postgres.rows.python_json import Documents, objects_of
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.stage.latest_records import is_needed
from playhead.records import Records
from playhead.tables.order_notes import notes_of_order
from playhead.target import InspectRequest

_SHOWN = 4


def order_notes(
    habits: WriteRules,
    topics: Sequence[str],
    look: InspectRequest,
    layout: Layout | None = None,
) -> Iterator[Note]:
    """Return notes on the order of records of one key; without a layout, of a table that is made."""
    partitions = sum(look.partitions[each] for each in topics)
    more = ": only --on-conflict newer compares times"
    if habits.rule == "newer":
        is_beside = layout is not None and is_needed(layout, habits) and not has_place(layout)
        text = "; the keys are also stored beside the ledger, because the table has no _partition and _offset"
        more = text if is_beside and partitions > 1 else ""
    yield from notes_of_order(
        habits.rule,
        partitions=partitions,
        is_ordered=depends_on_order(habits.rule, habits.tombstones, habits.key),
        version=habits.version,
        more=more,
    )
    if habits.rule == "newer" and habits.decode == "json":
        samples = [records for topic in topics for records in look.of(topic)]
        yield from _notes_of_partial_records(samples, layout)


def _notes_of_partial_records(samples: Sequence[Records], layout: Layout | None) -> Iterator[Note]:
    """Say it if records name only some of the columns: `newer` compares rows, and not each column."""
    columns = Documents(layout.values) if layout is not None else None
    named = set[frozenset[str]]()
    for document in objects_of(samples):
        with suppress(Bad):
            named.add(frozenset(columns.spelling(document) if columns is not None else document))
    if left := sorted(frozenset().union(*named) - frozenset.intersection(*named)) if named else []:
        listed = ", ".join(left[:_SHOWN]) + (
            f" and {len(left) - _SHOWN} more" if left[_SHOWN:] else ""
        )
        text = f"some of the sampled records lack {listed}; newer compares whole rows: a record that is older "
        text += "than its row changes nothing in it, not even columns that later records lack"
        yield Note("target-partial-records", text)
