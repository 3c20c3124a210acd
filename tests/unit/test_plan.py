"""A plan survives a file whole, and a file that is no plan is refused by its name."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import UsageError
from playhead.note import Note
from playhead.plan import Estimate, PartitionPlan, Plan
from playhead.record import Slice
from playhead.replay.journal import Journal
from playhead.source import SourceFacts, TopicFacts
from playhead.target import Inspection
from tests.unit.replaying import partition_plan, plan_of, request

words = st.text(max_size=8)
numbers = st.integers(0, 2**62)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
notes = st.lists(st.builds(Note, words, words, st.sampled_from(["info", "warn"])), max_size=2).map(
    tuple
)
topics = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.builds(
        TopicFacts,
        st.none() | words,
        st.booleans(),
        st.booleans(),
        st.none() | numbers,
        st.dictionaries(st.integers(0, 50), numbers, max_size=3),
    ),
    max_size=3,
)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionPlan:
    start, span_end, to = sorted(draw(st.tuples(numbers, numbers, numbers)))
    return PartitionPlan("laps", draw(st.integers(0, 99)), start, span_end, to, 0, to, to)


plans = st.builds(
    Plan,
    replay_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True),
    request=st.just(request(key=("car", "ts"), headers=("keep",))),
    made_at_ms=numbers,
    from_ms=st.none() | numbers,
    to_ms=st.none() | numbers,
    partitions=st.lists(partitions(), max_size=3, unique_by=lambda each: each.place).map(tuple),
    source=st.builds(SourceFacts, words, topics, notes),
    target=st.builds(
        Inspection, words, notes, st.lists(words, max_size=2).map(tuple),
        st.dictionaries(words, values, max_size=3),
    ),
    estimate=st.builds(Estimate, numbers, st.none() | numbers, st.none() | st.just(1.5), words),
    notes=notes,
    samples=st.lists(
        st.dictionaries(words, values | st.binary() | st.dates() | st.decimals(), max_size=3),
        max_size=2,
    ).map(tuple),
)  # fmt: skip


@given(plans)
def test_it_comes_back_from_a_file_as_it_was(plan):
    text = plan.as_json()
    text.encode()
    again = Plan.from_json(text, where="a file")
    assert again == plan
    assert again.as_json() == text


def test_samples_are_kept_as_a_person_reads_them():
    row = {
        "value": b"44 \xff",
        "price": Decimal("1.10"),
        "at": datetime(2021, 8, 4, tzinfo=UTC),
        "times": (1, float("nan")),
        "half": "\ud800",
    }
    [shown] = plan_of(samples=(row,)).samples
    assert shown == {
        "value": r"44 \xff",
        "price": "1.10",
        "at": "2021-08-04 00:00:00+00:00",
        "times": [1, "nan"],
        "half": r"\ud800",
    }


def test_slices_and_span_ends():
    plan = plan_of(partition_plan(5, 9, span_end=7), partition_plan(3, 3, partition=1))
    assert plan.slices() == [Slice("laps", 0, 5, 9)]
    assert plan.span_ends() == {("laps", 0): 7, ("laps", 1): 3}
    assert (plan.planned, plan.as_document()["planned"]) == (4, 4)


@pytest.mark.parametrize("offsets", [(5, 4, 6), (5, 6, 4)])
def test_offsets_stand_in_order(offsets):
    with pytest.raises(ValueError, match="needed from_offset <= span_end <= to_offset"):
        PartitionPlan("laps", 0, *offsets, 0, 9, 9)


@pytest.mark.parametrize("replay_id", ["", "../up", "a/b", "a b", ".hidden", "x" * 65])
def test_an_id_is_fit_for_a_files_name(replay_id):
    with pytest.raises(ValueError, match="replay id"):
        replace(plan_of(), replay_id=replay_id)


def canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True)


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """A document with the digest of what it says now; said here once more, as anybody could."""
    rest = json.loads(
        json.dumps({key: value for key, value in document.items() if key != "sha256"})
    )
    return {**rest, "sha256": sha256(canonical(rest).encode()).hexdigest()}


def test_a_file_that_was_changed_is_refused_with_the_way_out():
    text = plan_of(partition_plan(0, 5)).as_json()
    assert Plan.from_file(text, where="p.json")
    laid_out_anew = json.dumps(dict(reversed(json.loads(text).items())))
    assert Plan.from_file(laid_out_anew, where="p.json")
    with pytest.raises(UsageError, match="changed after it was made") as caught:
        Plan.from_file(text.replace('"to_offset": 5', '"to_offset": 6'), where="p.json")
    assert "--plan FILE" in (caught.value.hint or "")
    without = json.loads(text)
    del without["sha256"]
    with pytest.raises(UsageError, match="it has no 'sha256'"):
        Plan.from_file(json.dumps(without), where="p.json")


def test_a_plan_of_before_is_read_where_nobody_else_writes_and_refused_as_a_file():
    plan = plan_of(partition_plan(0, 5))
    document = {**plan.as_document(), "version": 1}
    del document["sha256"]
    assert Plan.from_json(json.dumps(document), where="the journal") == plan
    with pytest.raises(UsageError, match=r"p\.json is a plan of an earlier version"):
        Plan.from_file(json.dumps(document), where="p.json")


def test_a_plan_of_another_version_says_so():
    document = {**plan_of(partition_plan(0, 5)).as_document(), "version": 3}
    with pytest.raises(UsageError, match="a plan of version 3; this Playhead knows 2"):
        Plan.from_json(json.dumps(document), where="p.json")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", "null", '"plan"', '{"version": 1}', "[" * 100_000, "\0"],
    ids=["empty", "cut", "list", "number", "null", "text", "nothing in it", "deep", "zero"],
)
def test_what_is_no_plan_is_refused_by_its_name(text):
    with pytest.raises(UsageError, match=r"^p\.json is not a plan: |a plan of version") as caught:
        Plan.from_json(text, where="p.json")
    assert caught.value.hint


@pytest.mark.parametrize(
    "place", ["partitions", "notes", "samples", "estimate", "source", "target"]
)
@pytest.mark.parametrize("held", [5, True, None, "x", [5], {"x": 5}])
def test_a_part_of_another_kind_is_not_told_in_pythons_words(place, held):
    document = plan_of(partition_plan(0, 5)).as_document()
    with pytest.raises(UsageError) as caught:
        Plan.from_json(json.dumps(sealed(document | {place: held})), where="p.json")
    assert not re.search(
        r"\*\*|argument|iterable|attribute|subscriptable|\(\)", caught.value.message
    )


def test_what_it_lacks_is_named():
    document = plan_of(partition_plan(0, 5)).as_document()
    del document["partitions"]
    document = sealed(document)
    with pytest.raises(UsageError, match="it has no 'partitions'"):
        Plan.from_json(json.dumps(document), where="p.json")


def places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document."""
    held: Any = ()
    if isinstance(document, dict | list):
        held = document.items() if isinstance(document, dict) else enumerate(document)
    inner = [place for name, value in held for place in places(value, (*at, name))]
    return [*([at] if at else []), *inner]


def put(document: Any, at: tuple[Any, ...], value: Any) -> None:
    for name in at[:-1]:
        document = document[name]
    document[at[-1]] = value


@given(st.data(), values)
def test_an_edited_plan_is_refused_or_is_a_plan(data, value):
    """Never another error, and what is accepted can be carried out: its slices and its file exist."""
    plan = plan_of(
        partition_plan(0, 5),
        request=request(key=("car",)),
        samples=({"a": 1},),
        notes=(Note("c", "t"),),
    )
    document = json.loads(plan.as_json())
    put(document, data.draw(st.sampled_from(places(document))), value)
    if canonical(document) != canonical(json.loads(plan.as_json())):
        with pytest.raises(UsageError) as caught:
            Plan.from_file(json.dumps(document), where="p.json")
        assert caught.value.hint
    # Whoever means harm makes the digest anew.
    try:
        edited = Plan.from_json(json.dumps(sealed(document)), where="p.json")
    except UsageError:
        return
    edited.slices()
    edited.as_json()


def test_a_sample_that_is_no_text_in_utf_8_does_not_keep_a_plan_from_its_file(tmp_path):
    plan = plan_of(partition_plan(0, 5), samples=({"a\udc00": "\ud800b"},))
    text = plan.as_json().encode().decode()
    assert Plan.from_json(text, where="f") == plan
    Journal(tmp_path / "journal.db").keep(plan, {})
