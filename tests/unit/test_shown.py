"""Plans and proofs print as people read them, in a terminal and in a notebook, and foreign text does no harm."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from playhead.pace import ScheduleError
from playhead.plan import Plan
from playhead.proof import PartitionProof, Proof
from playhead.shown import sample_lines
from tests.unit.replaying import partition_plan, plan_of, request

HOSTILE = "<script>alert(1)</script>\x1b[2J\n  warn forged &"
COUNTS = {
    "planned": 100,
    "written": 60,
    "filtered": 20,
    "outside": 0,
    "dead": 5,
    "skipped": 5,
    "absent": 0,
    "unexplained": 0,
    "missing": 10,
    "duplicate": 0,
    "foreign": 0,
    "late": 0,
}


def proof(topic: str = "laps") -> Proof:
    return Proof("r", "kafka:laps", "postgres:laps", (PartitionProof(topic, 0, 0, 100, **COUNTS),))


def plan(topic: str = "laps") -> Plan:
    whole = partition_plan(25, 50, earliest=0, stable_end=100, high_watermark=100)
    return plan_of(replace(whole, topic=topic), samples=({"value": HOSTILE},))


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html)  # noqa: S314 - ours


def bars(html: str) -> list[tuple[str, float, float]]:
    """Class, begin and width of each bar, from what a browser would draw."""
    found = parsed(html).iter("{http://www.w3.org/2000/svg}rect")
    return [
        (str(bar.get("class")), float(bar.get("x", 0)), float(bar.get("width", 0))) for bar in found
    ]


def test_a_plan_prints_its_span_its_offsets_and_its_samples() -> None:
    lines = str(plan()).splitlines()
    assert lines[0].startswith("replay ")
    assert any(line.endswith("25 in 1 partition") for line in lines)
    assert any("as the target would store them" in line for line in lines)


def test_a_plan_of_named_offsets_does_not_say_that_it_is_of_the_whole_log() -> None:
    named = str(plan_of(partition_plan(25, 50), request=request(span="laps:0:25-50")))
    assert "  span     the offsets that were named\n" in named
    assert "  span     [start, end)\n" in str(plan_of(partition_plan(25, 50)))


def test_a_plan_without_samples_says_whether_a_filter_left_them_out() -> None:
    whole, none = partition_plan(25, 50), partition_plan(25, 25)
    for where, partition, reason in (
        ("value:amont > 5", whole, "none of the sampled records passes --where"),
        ("value:amont > 5", none, "the span has no records"),
        (None, none, "the span has no records"),
    ):
        asked = request(where=where)
        assert sample_lines(plan_of(partition, request=asked)) == [f"  samples  none: {reason}"]


def test_a_plan_says_how_many_partitions_it_does_not_list() -> None:
    there = [replace(partition_plan(0, 5), partition=n) for n in range(18)]
    none = [replace(partition_plan(0, 0), partition=18 + n) for n in range(2)]
    assert "           and 2 more partitions\n" in str(plan_of(*there, *none))
    assert "           2 partitions without offsets of the span\n" in str(plan_of(*there, *none))
    assert "without offsets" not in str(plan_of(*there))
    assert "           and 1 more partition\n" in str(plan_of(*there[:17]))


def test_a_proof_says_in_words_how_well_a_pace_was_kept() -> None:
    pace = ScheduleError()
    for n in range(1_000):
        pace.note(late_ns=2_000_000 if n == 500 else 60_000, due_ns=n * 1_000_000)
    kept = replace(proof(), pace={"pace": "1000/s", **pace.summary()})
    [line] = [each for each in str(kept).splitlines() if each.startswith("  pace ")]
    told = "late by at most 0.06 ms (half), 0.06 ms (99 %), 2 ms (all); 0 early"
    assert line == f"  pace     1000/s; 1,000 records/s of 1,000 wanted; {told}"
    unplayed = replace(proof(), pace={"pace": "2x", **ScheduleError().summary()})
    assert "  pace     2x: no record was played now" in str(unplayed).splitlines()


def test_a_proof_prints_its_verdict_first() -> None:
    assert str(proof()).startswith("NOT PROVED: 100 offsets = 60 written + 20 filtered out")
    assert "WRONG    laps:0" in str(proof())


def test_the_picture_of_a_plan_has_the_span_within_the_log() -> None:
    assert bars(plan()._repr_html_()) == [("log", 220.0, 640.0), ("span", 380.0, 160.0)]


def test_the_picture_of_a_proof_has_a_part_for_each_outcome() -> None:
    assert bars(proof()._repr_html_()) == [
        ("written", 220.0, 384.0),
        ("left-out", 604.0, 128.0),
        ("refused", 732.0, 64.0),
        ("wrong", 796.0, 64.0),
    ]


@pytest.mark.parametrize("shown", [plan(HOSTILE), proof(HOSTILE)])
def test_foreign_text_is_text(shown: Plan | Proof) -> None:
    html = shown._repr_html_()
    assert "<script" not in html
    assert "\x1b" not in html + str(shown)
    assert not any(line.startswith("  warn") for line in str(shown).splitlines())
    names = {element.tag.rpartition("}")[2] for element in parsed(html).iter()}
    assert names <= {"div", "pre", "svg", "style", "rect", "text", "title"}


def test_a_plan_of_many_partitions_and_one_of_none_are_drawn() -> None:
    many = [replace(partition_plan(0, 5), partition=number) for number in range(40)]
    assert len(bars(plan_of(*many)._repr_html_())) == 32
    assert bars(plan_of()._repr_html_()) == []
