"""How missing records are written: by the rules of the table, so that no row is older than it should be."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from playhead.errors import Refused
from playhead.gaps import filling
from playhead.gaps.deleted_later import (
    Deleting,
    _applied,
    _runs,
    _starts,
    _to_the_end,
    _Tombstones,
    last_of_keys,
    without_deleted,
)
from playhead.gaps.filling import FillRules, fill_rules, may_share_keys
from playhead.gaps.lost_from_log import Committed
from playhead.gaps.missing import MissingOffsets
from playhead.gaps.row_lookup import RecordKey
from playhead.gaps.written_by import (
    UNKNOWN,
    OtherRule,
    WrittenTable,
    writers,
    writing_rules,
)
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.request import Request, TableRules
from playhead.source import Bounds
from playhead.terms import Terms, Whereto

TOPIC = "laps"
REQUEST = Request(source="kafka:laps", target="postgres:laps", key=("car",))


def rules(
    inferred: str | None = None,
    *,
    placed: bool = False,
    by_rows: bool = True,
    first_stays: bool = False,
    **table: Any,
) -> FillRules:
    return fill_rules(
        TableRules(**table),
        lambda: inferred,
        lambda: placed,
        by_rows=by_rows,
        first_stays=first_stays,
    )


def test_missing_records_are_written_by_the_rule_of_the_table():
    assert rules(on_conflict="newer", version_column="at") == FillRules("newer", "at")
    assert rules(on_conflict="ignore") == FillRules("ignore")
    assert rules("newer") == FillRules("newer")
    assert rules(None) == FillRules(None)


def test_under_update_no_missing_record_replaces_a_later_one():
    assert rules(on_conflict="update", placed=True) == FillRules("newer", "_offset")
    assert rules(on_conflict="update") == FillRules("ignore", only_last=True)
    assert rules(on_conflict="update", key=("_topic", "_partition", "_offset")).on_conflict == (
        "update"
    )


def test_of_an_unknown_table_the_last_record_of_a_key_is_written_and_not_the_first():
    assert rules("ignore") == FillRules("ignore", only_last=True)
    assert rules("ignore", first_stays=True) == FillRules("ignore")
    assert rules("newer", first_stays=True) == FillRules("ignore")


def test_tombstones_are_not_among_records_that_were_looked_for_by_key():
    assert rules(on_conflict="update", tombstones="delete", placed=True).tombstones == "skip"
    assert rules(on_conflict="newer", tombstones="delete") == FillRules("newer", None, "delete")
    for rule in ("update", "ignore", None):
        with pytest.raises(Refused, match="delete rows of later records") as caught:
            rules("ignore", on_conflict=rule, tombstones="delete", by_rows=False)
        assert "--key COLS" in (caught.value.hint or "")


def test_too_many_gaps_to_replay_one_by_one_are_refused(monkeypatch):
    monkeypatch.setattr(filling, "_MOST_REPLAYED", 2)
    apart = [Slice(TOPIC, 0, n, n + 1) for n in (1, 3, 5)]
    joined = [Slice(TOPIC, 0, n, n + 1) for n in (1, 2, 3)]
    assert filling.filling(REQUEST, FillRules(None), joined).span == "laps:0:1-4"
    for found, words in [
        (FillRules("newer", "_offset"), "--on-conflict newer --version-column _offset"),
        (FillRules("ignore", only_last=True), "--on-conflict update, while nothing else writes"),
    ]:
        with pytest.raises(Refused, match="3 gaps would be as many transactions") as caught:
            filling.filling(REQUEST, found, apart)
        assert words in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("key", "may"),
    [((), False), (("_topic", "_partition", "_offset"), False), (("car", "_partition"), True)],
)
def test_a_place_is_the_key_of_one_record_only(key, may):
    assert may_share_keys(key) is may


# --- by whom the table is written


def committed(name: str, written: int, **said: Any) -> Committed:
    terms = Terms("" if "." in name else "d", "k", {TOPIC: "id"}, "p", said)
    return Committed(name, terms, [Entry(Slice(TOPIC, 0, 0, 1000), written, written)])


def test_the_rules_of_most_rows_are_those_of_the_table():
    found = writing_rules(
        [
            committed("live.laps", 70, on_conflict="newer", tombstones="delete"),
            committed("r1", 20, on_conflict="ignore"),
            committed("fill", 500, on_conflict="ignore", span="laps:0:3-9"),
        ]
    )
    assert found is not None
    request, notes = found.adopted(REQUEST)
    assert (request.on_conflict, request.tombstones) == ("newer", "delete")
    assert "--on-conflict newer --tombstones delete, as pipeline laps" in notes[0].text
    said = Request(
        source="kafka:laps", target="postgres:laps", on_conflict="newer", tombstones="skip"
    )
    assert found.adopted(said) == (said, [])


def test_a_column_that_newer_compares_belongs_to_the_rule():
    found = writing_rules([committed("r1", 5, on_conflict="newer", version_column="at")])
    assert found is not None
    for said in (None, "newer"):
        request, _ = found.adopted(replace(REQUEST, on_conflict=said))
        assert (request.on_conflict, request.version_column) == ("newer", "at")
    other = replace(REQUEST, on_conflict="newer", version_column="seen")
    assert found.adopted(other)[0] == other


def test_a_ledger_without_rows_tells_no_rule():
    assert writing_rules([]) is None
    assert writing_rules([committed("r1", 0, on_conflict="update")]) is None


def test_a_replay_that_left_rows_alone_may_be_beside_another_program():
    replay = writing_rules([committed("r1", 5, on_conflict="ignore")])
    pipeline = writing_rules([committed("live.laps", 5, on_conflict="ignore")])
    assert replay is not None
    assert pipeline is not None
    assert replay.adopted(REQUEST)[0].on_conflict is None
    assert pipeline.adopted(REQUEST)[0].on_conflict == "ignore"
    assert WrittenTable(replay).first_stays


def test_another_rule_than_that_of_the_table_fills_no_gap():
    written = WrittenTable(writing_rules([committed("r1", 5, on_conflict="newer")]))
    with pytest.raises(OtherRule, match="replay r1 wrote most rows of this table") as caught:
        written.refuse_another_rule(Request(**REQUEST.said() | {"on_conflict": "ignore"}))
    assert "leave --on-conflict out" in (caught.value.hint or "")
    written.refuse_another_rule(Request(**REQUEST.said() | {"on_conflict": "newer"}))
    written.refuse_another_rule(REQUEST)
    UNKNOWN.refuse_another_rule(Request(**REQUEST.said() | {"on_conflict": "ignore"}))


# --- what a tombstone deletes


def key(offset: int, number: int | None, time_ms: int = 0, partition: int = 0) -> RecordKey:
    return RecordKey(TOPIC, partition, offset, number, time_ms)


def test_a_later_tombstone_of_the_partition_deletes_a_record():
    tombstones = _Tombstones(False, {})
    assert not tombstones
    tombstones.add(key(5, 1))
    tombstones.add(key(3, 1))
    tombstones.add(key(9, None))
    assert tombstones
    assert tombstones.delete(key(4, 1, time_ms=99))
    assert not tombstones.delete(key(6, 1))
    assert not tombstones.delete(key(4, 2))
    assert not tombstones.delete(key(4, None))
    assert not tombstones.delete(key(4, 1, partition=1))


def test_under_newer_the_later_time_decides_in_all_partitions():
    here, there = Whereto("laps", "1"), Whereto("others", "2")
    tombstones = _Tombstones(True, {TOPIC: here, "same": here, "other": there})
    tombstones.add(key(5, 1, time_ms=50))
    tombstones.add(key(7, 1, time_ms=40))
    assert tombstones.delete(key(9, 1, time_ms=49))
    assert tombstones.delete(key(4, 1, time_ms=50))
    assert not tombstones.delete(key(9, 1, time_ms=50))
    assert not tombstones.delete(key(4, 1, time_ms=51))
    assert not tombstones.delete(key(4, 1, time_ms=50, partition=1))
    assert tombstones.delete(key(4, 1, time_ms=49, partition=1))
    assert tombstones.delete(key(4, 1, time_ms=49)._replace(topic="same"))
    assert not tombstones.delete(key(4, 1, time_ms=49)._replace(topic="other"))


def test_of_an_unknown_rule_the_time_decides_for_a_tombstone_of_another_partition():
    here = Whereto("laps", "1")
    tombstones = _Tombstones(None, {TOPIC: here, "same": here, "other": Whereto("others", "2")})
    tombstones.add(key(5, 1, time_ms=50))
    tombstones.add(key(4, 1, time_ms=60))
    assert tombstones.delete(key(4, 1, time_ms=70))
    assert not tombstones.delete(key(5, 1, time_ms=40))
    assert not tombstones.delete(key(9, 1, time_ms=40))
    assert tombstones.delete(key(9, 1, time_ms=59, partition=1))
    assert not tombstones.delete(key(3, 1, time_ms=61, partition=1))
    assert not tombstones.delete(key(3, None, time_ms=1, partition=1))
    assert tombstones.delete(key(9, 1, time_ms=59)._replace(topic="same"))
    assert not tombstones.delete(key(3, 1, time_ms=1)._replace(topic="other"))


def test_tombstones_are_read_from_the_first_record_on_by_offset_and_by_time():
    log: Any = SimpleNamespace(offsets_at=lambda ms: {(TOPIC, 0): ms, (TOPIC, 1): 7})
    slices, records = [Slice(TOPIC, 0, 20, 30)], [key(20, 1, 25), key(21, 1, 24)]
    assert _starts(log, slices, records, False) == {(TOPIC, 0): 20}
    assert _starts(log, slices, records, True) == {(TOPIC, 0): 24, (TOPIC, 1): 7}
    assert _starts(log, slices, records, None) == {(TOPIC, 0): 20, (TOPIC, 1): 7}
    early = [key(20, 1, 15)]
    assert _starts(log, slices, early, None) == {(TOPIC, 0): 15, (TOPIC, 1): 7}


class Rows:
    """Rows of a table, and the log with their records."""

    def __init__(self, tombstones: Sequence[RecordKey]) -> None:
        self.tombstones, self.asked = tombstones, list[str]()
        target = SimpleNamespace(whereto=lambda topics: dict.fromkeys(topics, Whereto("laps", "1")))
        self.ends = SimpleNamespace(source=Log(), target=target)

    def keys(self, _: object, __: object, of: str) -> list[RecordKey]:
        self.asked.append(of)
        return [*self.tombstones] if of == "tombstones" else [key(20, 1), key(21, 2)]


@pytest.mark.parametrize("is_known", [True, False])
def test_without_a_tombstone_no_missing_record_is_read_again(is_known: bool) -> None:
    found = MissingOffsets([Slice(TOPIC, 0, 20, 22)], "offsets", None, [])
    asked: Any = ("car",), Deleting(False, is_known), [Slice(TOPIC, 0, 0, 90)], []
    rows: Any = Rows([])
    assert without_deleted(rows, found, *asked) == (found, [])
    assert rows.asked == ["tombstones"]
    rows = Rows([key(30, 2)])
    left, held = without_deleted(rows, found, *asked)
    assert rows.asked == ["tombstones", "records"]
    assert (left.slices, held) == (
        ([Slice(TOPIC, 0, 20, 21)], []) if is_known else (found.slices, [Slice(TOPIC, 0, 21, 22)])
    )


def test_runs_end_at_a_record_that_was_deleted():
    records = [key(n, 1) for n in (2, 3, 5, 8, 9)] + [key(2, 1, partition=1)]
    left = {key(2, 1), key(5, 1), key(8, 1), key(2, 1, partition=1)}
    runs = [Slice(TOPIC, 0, 2, 6), Slice(TOPIC, 0, 8, 10), Slice(TOPIC, 1, 2, 3)]
    assert dict(_runs(runs, records, left)) == {
        Slice(TOPIC, 0, 2, 3): 1,
        Slice(TOPIC, 0, 5, 6): 1,
        Slice(TOPIC, 0, 8, 9): 1,
        Slice(TOPIC, 1, 2, 3): 1,
    }


def test_the_last_record_of_each_key_is_found_for_each_partition():
    records = [key(1, 7), key(4, 7), key(2, 8), key(3, None), key(0, 7, partition=1)]
    assert last_of_keys([*records, key(0, None)]) == [
        Slice(TOPIC, 0, 0, 1),
        Slice(TOPIC, 0, 2, 3),
        Slice(TOPIC, 0, 3, 4),
        Slice(TOPIC, 0, 4, 5),
        Slice(TOPIC, 1, 0, 1),
    ]


class Log:
    def bounds(self) -> dict[tuple[str, int], Bounds]:
        return {(TOPIC, 0): Bounds(10, 90, 95)}


def test_tombstones_are_read_up_to_the_end_of_the_log():
    log: Any = Log()
    assert _to_the_end(log, {(TOPIC, 0): 15, (TOPIC, 3): 1}) == [Slice(TOPIC, 0, 15, 90)]
    assert _to_the_end(log, {(TOPIC, 0): 2}) == [Slice(TOPIC, 0, 10, 90)]
    assert _to_the_end(log, {(TOPIC, 0): 90}) == []


def test_a_tombstone_after_the_span_counts_if_a_writer_that_deletes_has_committed_it():
    span = [Slice(TOPIC, 0, 5, 50)]
    of = [
        committed("live.laps", 60, tombstones="delete"),
        replace(
            committed("r1", 9, tombstones="skip"),
            entries=[Entry(Slice(TOPIC, 0, 1000, 2000), 9, 9)],
        ),
    ]
    is_applied = _applied(span, of)
    assert [is_applied(key(n, 1)) for n in (49, 999, 1000)] == [True, True, False]
    assert [_applied(span, of[1:])(key(n, 1)) for n in (5, 49, 50)] == [True, True, False]
    assert _applied(span, [])(key(1000, 1))
    assert is_applied(key(1000, 1, partition=1))


def test_a_tombstone_that_a_writer_perhaps_filtered_or_read_beside_its_span_is_not_applied():
    slice_, of = (
        Slice(TOPIC, 0, 0, 1000),
        committed("r1", 9, tombstones="delete", where="key = 'a'"),
    )
    unlisted = replace(of, entries=[Entry(slice_, 9, 5, outside=4, outside_at=None)])
    assert not _applied([], [unlisted])(key(7, 1))
    listed = replace(of, entries=[Entry(slice_, 9, 5, outside=4, outside_at=((0, 4),))])
    assert [_applied([], [listed])(key(n, 1)) for n in (3, 7)] == [False, True]
    filtered = replace(of, entries=[Entry(slice_, 9, 5, filtered=4)])
    assert not _applied([], [filtered])(key(7, 1))
    assert _applied([], [filtered], "key = 'a'")(key(7, 1))
    by_trigger = replace(of, entries=[Entry(slice_, 9, 5, filtered=4, details={"not_kept": 4})])
    assert _applied([], [by_trigger])(key(7, 1))


def test_a_replay_of_named_offsets_is_no_writer():
    fill = committed("fill", 5, span="laps:0:3-9")
    newer = committed("later", 5, span="what a later version says")
    assert writers([fill, newer]) == [newer]
    assert writers([committed("live.laps", 5)]) != []


def test_rules_of_a_writer_that_leaves_other_records_out_are_not_taken():
    found = writing_rules([committed("r1", 5, on_conflict="newer", where="value:car = 'A'")])
    assert found is not None
    request, notes = found.adopted(REQUEST)
    assert request == REQUEST
    assert "another --where or --select" in notes[0].text
    same = replace(REQUEST, where="value:car = 'A'")
    assert found.adopted(same)[0].on_conflict == "newer"


def test_that_rows_were_refused_is_no_rule_of_a_table():
    found = writing_rules([committed("live.laps", 5, on_conflict="error")])
    assert found is not None
    assert found.adopted(REQUEST) == (REQUEST, [])
    WrittenTable(found).refuse_another_rule(replace(REQUEST, on_conflict="ignore"))


def test_a_replay_of_nothing_is_refused():
    with pytest.raises(Refused, match="nothing is left to replay"):
        filling.filling(REQUEST, FillRules("newer"), [])
