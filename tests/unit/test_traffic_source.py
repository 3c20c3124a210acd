"""Captures pass the suite of sources: every record once, where it was, and nothing silently left."""

import copy
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead.errors import Refused
from playhead.record import Record, Slice, TimestampType
from playhead.source import UNREAD
from playhead.testing import exercise_source, sample_records
from playhead.traffic.source import OtherCapture, TrafficSource
from tests.capturing import SNAPSHOT, everything, fetch, markdown, pair, save, set_of

RECORDS = sample_records()
FIRST, SECOND = RECORDS[:5], RECORDS[5:]


LAWS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
MANY = settings(LAWS, max_examples=2_000)


def record(offset: int, value: str = "v", *, partition: int = 0, ms: int = 1_000) -> Record:
    kind = TimestampType.CREATE_TIME
    return Record("t", partition, offset, ms, kind, b"k", f"{value}{offset}".encode())


def source_of(folder: Path, *pairs: dict[str, Any], **more: Any) -> TrafficSource:
    return TrafficSource("rrpair", str(save(folder / "raw.jsonl", pairs)), **more)


def notes(source: TrafficSource, code: str) -> list[str]:
    return [note.text for note in source.facts().notes if note.code == code]


# --- the contract


def _whole(first: Sequence[Record], second: Sequence[Record]) -> list[dict[str, Any]]:
    return [fetch(("contract", 0, first), ("contract", 1, second))]


def _apart(first: Sequence[Record], second: Sequence[Record]) -> list[dict[str, Any]]:
    """In three Fetches, out of order, and the middle one twice."""
    middle = fetch(("contract", 1, second), ("contract", 0, first[2:4]))
    ends = [fetch(("contract", 0, first[4:])), fetch(("contract", 0, first[:2]))]
    return [ends[0], middle, ends[1], middle]


def _overlapping(first: Sequence[Record], second: Sequence[Record]) -> list[dict[str, Any]]:
    """Each Fetch lacks what another one has."""
    odd, even = fetch(("contract", 0, first[::2])), fetch(("contract", 0, first[1::2]))
    return [fetch(("contract", 1, second)), odd, even]


@pytest.mark.parametrize("make", [_whole, _apart, _overlapping])
@pytest.mark.parametrize("form", ["lines", "packed", "pretty", "markdown"])
def test_contract(tmp_path: Path, make, form: str) -> None:
    pairs = make(FIRST, SECOND)
    file = save(tmp_path / "raw.jsonl", pairs)
    if form == "packed":
        file = tmp_path / "packed.jsonl.gz"
        file.write_bytes(gzip.compress((tmp_path / "raw.jsonl").read_bytes()))
    if form == "pretty":
        file.write_text("\n".join(json.dumps(each, indent=1) for each in pairs))
    if form == "markdown":
        file = tmp_path / "recorded"
        file.mkdir()
        for number, each in enumerate(pairs):
            (file / f"{number}.md").write_text(markdown(each))
    exercise_source(lambda: TrafficSource("rrpair", str(file)), RECORDS)


def test_the_sample_has_all_its_records() -> None:
    source = TrafficSource("rrpair", str(SNAPSHOT))
    found = [(each.topic, each.partition, each.offset) for each in everything(source)]
    id_ = "c84d6bab-44bc-459d-9cd1-fd9ae66f15f7"
    assert found == [
        (id_, 2, 100),
        ("order-events", 0, 210),
        ("order-events", 0, 211),
        ("order-events", 3, 77),
        ("orders", 0, 41),
        ("orders", 0, 42),
        ("orders", 0, 43),
        ("orders", 1, 7),
        ("payments", 0, 5),
        ("payments", 0, 6),
    ]
    assert id_ in notes(source, "topic-id")[0]
    assert source.bounds()["order-events", 1].stable_end == 0
    fetched = TrafficSource("rrpair", str(SNAPSHOT), "(command IS Fetch)")
    assert len(everything(fetched)) == 7
    assert notes(fetched, "filter") == ['only pairs that match (command IS "Fetch")']


# --- shapes


def _partition(found: dict[str, Any]) -> dict[str, Any]:
    held: dict[str, Any] = found["kafka"]["response"]["FetchResponse"]["topics"][0]["partitions"][0]
    return held


def test_other_names_of_the_same_things(tmp_path: Path) -> None:
    wanted = [record(0), record(1), record(2)]
    usual = fetch(("t", 0, wanted))
    listed = copy.deepcopy(usual)
    _partition(listed)["records"] = [set_of(wanted[:2]), set_of(wanted[2:])]
    nested = copy.deepcopy(usual)
    _partition(nested)["records"] = {"batches": [set_of(wanted)]}
    bare = copy.deepcopy(usual)
    _partition(bare)["records"] = [
        {"offset": str(each.offset), "timestamp": "1000", "keyBase64": "aw==", "valueBytes": value}
        for each, value in zip(wanted, ("djA=", "djE=", "djI="), strict=True)
    ]
    renamed = copy.deepcopy(usual)
    body = renamed["kafka"]["response"]["FetchResponse"]
    body["responses"] = body.pop("topics")
    topic = body["responses"][0]
    topic["topic"] = topic.pop("name")
    topic["partitions"] = [{"partitionIndex": "0", "records": set_of(wanted)}]
    for form in (usual, listed, nested, bare, renamed):
        source = source_of(tmp_path, form)
        assert everything(source) == wanted
        assert not notes(source, UNREAD)


def test_headers_as_a_map_and_times_of_the_broker(tmp_path: Path) -> None:
    found = fetch(("t", 0, [record(0)]))
    set_ = _partition(found)["records"]
    set_["attributes"] = ["ATTRIBUTE_LOG_APPEND_TIME"]
    set_["maxTimestamp"] = "5000"
    set_["records"][0]["headers"] = {"a": "1", "b": None}
    (only,) = everything(source_of(tmp_path, found))
    assert only.headers == (("a", b"1"), ("b", None))
    assert (only.timestamp_ms, only.timestamp_type) == (5_000, TimestampType.LOG_APPEND_TIME)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p.update(records="AAAA" * 30), "not decoded"),
        (lambda p: p["records"].update(records="AAAA"), "not a list"),
        (lambda p: p["records"].pop("records") and p["records"].update(x=[1]), "'x'"),
        (
            lambda p: p["records"]["records"][0].update(value="no base64!", valueString=None),
            "neither a string",
        ),
        (lambda p: p["records"]["records"][0].update(valueString=7), "is not a string"),
        (lambda p: p["records"]["records"][0].update(value="AA=="), "twice"),
        (lambda p: p["records"]["records"][0].update(headers=7), "headers"),
        (lambda p: p["records"]["records"][0].update(offsetDelta="x"), "needed a number"),
        (lambda p: p["records"].update(records=[{"offsetDelta": "9" * 5_000}]), "needed a number"),
        (lambda p: p["records"]["records"][1].update(offsetDelta=0), "the same offset"),
        (lambda p: p["records"].update(baseOffset="-9"), "offset -9"),
        (lambda p: p["records"].update(baseTimestamp=str(1 << 63)), "the time"),
        (lambda p: p["records"]["records"].append(7), "not an object"),
        (lambda p: p.update(index=10_000), "partition 10000"),
        (lambda p: p.pop("records") and p.update(blob={"x": 1}), "'blob'"),
    ],
)
def test_a_shape_that_is_not_known_is_named_with_its_line(tmp_path: Path, change, says) -> None:
    strange = fetch(("t", 0, [record(0), record(1)]))
    change(_partition(strange))
    source = source_of(tmp_path, fetch(("t", 1, [record(0, partition=1)])), strange)
    assert everything(source) == [record(0, partition=1)]
    (told,) = notes(source, UNREAD)
    assert "raw.jsonl:2:" in told
    assert says in told


@pytest.mark.parametrize("is_ascii", [True, False])
def test_bytes_that_the_capture_replaced_are_noted_and_half_a_character_stays(
    tmp_path: Path, is_ascii: bool
) -> None:
    half = fetch(("t", 0, [record(0), record(1)]))
    _partition(half)["records"]["records"][0]["valueString"] = "\ud800!"
    whole = fetch(
        ("t", 1, [record(0, "é", partition=1)]), ("t", 2, [record(0, "\ufffd", partition=2)])
    )
    file = tmp_path / "raw.jsonl"
    lines = (json.dumps(half), json.dumps(whole, ensure_ascii=is_ascii))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source = TrafficSource("rrpair", str(file))
    assert next(each.value for each in everything(source)) == b"\xed\xa0\x80!"
    [note] = notes(source, "replaced-bytes")
    assert note.startswith("1 pairs contain the character U+FFFD")


@pytest.mark.parametrize(
    ("command", "kafka", "says"),
    [
        ("Fetch", {"response": {"fetch": {"topics": []}}}, "instead of FetchResponse"),
        ("Produce", {"request": {"undecodedBase64": "AAAA"}}, "instead of ProduceRequest"),
        ("ShareFetch", {"response": {"ShareFetchResponse": {"topics": [1]}}}, "not supported"),
        ("Fetch", {"response": {"FetchResponse": {"things": [1]}}}, "'things'"),
        (
            "Fetch",
            {"response": {"FetchResponse": {"topics": [{"partitions": []}]}}},
            "neither a name",
        ),
    ],
)
def test_a_body_that_is_not_known_is_named(tmp_path: Path, command, kafka, says) -> None:
    (told,) = notes(source_of(tmp_path, pair(command, kafka)), UNREAD)
    assert says in told


def test_markers_of_transactions_are_no_records(tmp_path: Path) -> None:
    marker = fetch(("t", 0, [record(1)]))
    _partition(marker)["records"]["attributes"] = ["ATTRIBUTE_TRANSACTIONAL", "ATTRIBUTE_CONTROL"]
    source = source_of(tmp_path, fetch(("t", 0, [record(0)])), marker, fetch(("t", 0, [record(2)])))
    assert everything(source) == [record(0), record(2)]
    assert "1 markers of transactions" in notes(source, "captured")[0]


@pytest.mark.parametrize(
    "marker", [{"controlType": "ABORT"}, {"key": "AAAAAA=="}, {"keyString": "\0\0\0\0"}]
)
def test_what_was_aborted_the_application_never_saw(tmp_path: Path, marker: dict[str, str]) -> None:
    """As Kafka's client passes over it: from the first offset named to the producer's marker."""
    sets = [set_of([record(n)]) for n in range(6)]
    transactional = ["ATTRIBUTE_TRANSACTIONAL"]
    for number in (1, 2, 4):
        sets[number] |= {"attributes": transactional, "producerId": "7"}
    sets[3] |= {"attributes": [*transactional, "ATTRIBUTE_CONTROL"], "producerId": "7"}
    sets[3]["records"] = [marker]
    sets[5] |= {"attributes": transactional, "producerId": "8"}
    aborted = [{"producerId": "7", "firstOffset": "1"}]
    first, *others = [{"records": each} for each in sets]
    partitions = [first | {"abortedTransactions": aborted}, *others]
    body = {"topics": [{"name": "t", "partitions": partitions}]}
    source = source_of(tmp_path, pair("Fetch", {"response": {"FetchResponse": body}}))
    assert [each.offset for each in everything(source)] == [0, 4, 5]
    assert "1 markers of transactions, 2 records of aborted" in notes(source, "captured")[0]


# --- what was produced


def _produce(*sets: dict[str, Any], **answer: Any) -> dict[str, Any]:
    for each in sets:
        each.pop("baseOffset", None)
    request = {"topics": [{"name": "t", "partitions": [{"records": each} for each in sets]}]}
    kafka: dict[str, Any] = {"request": {"ProduceRequest": request}}
    if answer:
        topics = [{"name": "t", "partitions": [answer]}]
        kafka["response"] = {"ProduceResponse": {"topics": topics}}
    return pair("Produce", kafka)


def test_what_was_produced_has_the_offsets_of_the_answer(tmp_path: Path) -> None:
    wanted = [record(70), record(71), record(72)]
    two = _produce(set_of(wanted[:2]), set_of(wanted[2:]), baseOffset="70")
    assert everything(source_of(tmp_path, two)) == wanted
    # The same records fetched, later: they are there once.
    source = source_of(tmp_path, two, fetch(("t", 0, wanted)))
    assert everything(source) == wanted
    assert "3 offsets were captured more than once" in notes(source, "captured-twice")[0]


def test_what_the_broker_refused_is_counted(tmp_path: Path) -> None:
    refused = _produce(set_of([record(0)]), errorCode=7)
    source = source_of(tmp_path, refused, _produce(set_of([record(0)]), baseOffset="9"))
    assert [each.offset for each in everything(source)] == [9]
    assert "1 sets of records that the broker refused" in notes(source, "captured")[0]


def test_records_without_an_offset_are_numbered_as_they_came(tmp_path: Path) -> None:
    unanswered = [_produce(set_of([record(0, "a"), record(1, "a")])), _produce(set_of([record(0)]))]
    source = source_of(tmp_path, *unanswered, fetch(("t", 0, [record(7)])))
    found = everything(source)
    assert [each.offset for each in found] == [0, 1, 2, 3]
    assert [each.value for each in found] == [b"a0", b"a1", b"v0", b"v7"]
    assert "captured without an offset" in notes(source, "numbered")[0]


def test_different_records_at_one_offset_are_all_there(tmp_path: Path) -> None:
    """Two clusters, or a topic that was made again."""
    source = source_of(
        tmp_path, fetch(("t", 0, [record(5, "a")])), fetch(("t", 0, [record(5, "b")]))
    )
    assert [each.value for each in everything(source)] == [b"a5", b"b5"]
    assert "different records" in notes(source, "numbered")[0]


@pytest.mark.parametrize("kinds", ["ff", "pp", "pf", "fp"])
@pytest.mark.parametrize("second", [["b5"], ["a5", "b6"], ["a5", "b6", "b7"], ["b6"], ["b6", "b7"]])
def test_no_record_is_lost_to_another_one_at_its_offset(
    tmp_path: Path, kinds: str, second: list[str]
) -> None:
    """Wherever their sets begin, and whether a consumer or a producer showed them."""
    sets = []
    for kind, values in zip(kinds, [["a5", "a6"], second], strict=True):
        records = [record(int(value[1]), value[0]) for value in values]
        base = records[0].offset
        made = _produce(set_of(records, base=base), baseOffset=str(base))
        sets.append(made if kind == "p" else fetch(("t", 0, records)))
    source = source_of(tmp_path, *sets)
    found = [(each.value or b"").decode() for each in everything(source)]
    assert found == ["a5", "a6", *second]
    assert "different records" in notes(source, "numbered")[0]
    assert not notes(source, "captured-twice")


def test_topics_by_id_get_the_name_that_another_pair_has(tmp_path: Path) -> None:
    named = pair(
        "Metadata",
        {
            "response": {
                "MetadataResponse": {
                    "topics": [{"name": "laps", "topicId": "yE1rq0S8RZ2c0f2a5m8V9w=="}]
                }
            }
        },
    )
    fetched = fetch(("laps", 0, [record(0)]))
    topic = fetched["kafka"]["response"]["FetchResponse"]["topics"][0]
    del topic["name"]
    for id_ in (
        "yE1rq0S8RZ2c0f2a5m8V9w==",
        "yE1rq0S8RZ2c0f2a5m8V9w",
        "c84d6bab-44bc-459d-9cd1-fd9ae66f15f7",
    ):
        topic["topicId"] = id_
        source = source_of(tmp_path, fetched, named)
        assert {each.topic for each in everything(source)} == {"laps"}


# --- identity, times


def test_a_capture_that_was_changed_is_another_one(tmp_path: Path) -> None:
    source = source_of(tmp_path, fetch(("t", 0, [record(0)])))
    planned = replace(source, expect_identity=source.facts().identity)
    assert everything(planned) == [record(0)]
    moved = source_of(tmp_path / "elsewhere", fetch(("t", 0, [record(0)])))
    assert moved.facts().identity == source.facts().identity
    source_of(tmp_path, fetch(("t", 0, [record(1)])))
    with pytest.raises(OtherCapture, match="has changed since it was planned"):
        planned.bounds()


def test_the_time_of_the_pair(tmp_path: Path) -> None:
    pairs = [fetch(("t", 0, [record(n)]), at=f"10:00:0{n}") for n in range(3)]
    source = source_of(tmp_path, *pairs, times="pair")
    first = 1_772_445_600_000
    assert [each.timestamp_ms - first for each in everything(source)] == [0, 1_000, 2_000]
    assert source.offsets_at(first + 1) == {("t", 0): 1}


def test_a_filter_goes_with_pairs_only() -> None:
    with pytest.raises(Refused, match="needs RRPairs"):
        TrafficSource("gor", "x.gor", "(command IS Fetch)")


# --- laws

_TEXT = st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=6).map(str.encode))
_HEADERS = st.lists(st.tuples(st.text(max_size=3), _TEXT), max_size=2).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """A partition's log with absent offsets."""
    offsets = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=15)))
    kind = TimestampType.CREATE_TIME
    return [
        Record(
            "t",
            0,
            offset,
            draw(st.integers(-1, 3_000)),
            kind,
            draw(_TEXT),
            draw(_TEXT),
            draw(_HEADERS),
        )
        for offset in offsets
    ]


@given(log=logs(), data=st.data())
@settings(LAWS)
def test_however_a_log_is_fetched_it_is_the_same_log(tmp_path: Path, log, data) -> None:
    """Any runs of it, in any order, some of them twice."""
    cuts = sorted({0, len(log), *data.draw(st.lists(st.integers(0, len(log)), max_size=4))})
    runs = [log[a:b] for a, b in pairwise(cuts)]
    more = data.draw(
        st.lists(st.tuples(st.integers(0, len(log)), st.integers(0, len(log))), max_size=2)
    )
    runs += [log[a:b] for a, b in more if a < b]
    shuffled = data.draw(st.permutations(runs))
    source = source_of(tmp_path, *(fetch(("t", 0, run)) for run in shuffled))
    assert everything(source) == log
    start, end = source.bounds()["t", 0].earliest, source.bounds()["t", 0].stable_end
    middle = data.draw(st.integers(start, end - 1))
    with source.open() as reader:
        found = [each for run in reader.read(Slice("t", 0, middle, end)) for each in run]
    assert found == [each for each in log if each.offset >= middle]


# --- fuzz

_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.just(1 << 70), st.floats(), st.text(max_size=4),
    st.just([]), st.just({}), st.just([[]]), st.just({"records": {}}), st.just({"records": [{}]}),
)  # fmt: skip


def _places(found: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        found.items()
        if isinstance(found, dict)
        else enumerate(found)
        if isinstance(found, list)
        else ()
    )
    return [place for key, value in items for place in ((*at, key), *_places(value, (*at, key)))]


def _mutated(draw: Any, whole: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        places = _places(found)
        *way, last = draw(st.sampled_from(places))
        holder = found
        for step in way:
            holder = holder[step]
        how = draw(st.sampled_from(["replace", "delete", "rename", "repeat"]))
        if how == "replace":
            # A copy: what comes next may change it, and the strategy gives the same one each time.
            holder[last] = copy.deepcopy(draw(_JUNK))
        elif how == "delete" or isinstance(holder, list):
            del holder[last]
        elif how == "rename":
            holder[str(last)[:-1] + "Z"] = holder.pop(last)
        else:
            holder["records"] = copy.deepcopy(holder[last])
    return found


@given(data=st.data())
@settings(LAWS)
def test_damaged_pairs_are_read_or_named(tmp_path: Path, data) -> None:
    _reads_or_names(tmp_path, data)


@pytest.mark.torture
@given(data=st.data())
@settings(MANY)
def test_very_many_damaged_pairs_are_read_or_named(tmp_path: Path, data) -> None:
    _reads_or_names(tmp_path, data)


def _reads_or_names(tmp_path: Path, data) -> None:
    """Every line is a pair that was understood, or is named; and what is counted can be read."""
    whole = [json.loads(line) for line in SNAPSHOT.read_text().splitlines()]
    which = data.draw(st.integers(1, 5))
    pairs = [
        _mutated(data.draw, each) if index == which else each for index, each in enumerate(whole)
    ]
    lines = [json.dumps(each) for each in pairs]
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(1, len(lines[which]) - 1))
        lines[which] = lines[which][:cut]
    file = tmp_path / "raw.jsonl"
    file.write_text("\n".join(lines))
    source = TrafficSource("rrpair", str(file))
    counts = source._index().catalog.counts
    assert counts["lines"] == len(lines) == counts["pairs"] + counts.get("unread", 0)
    assert counts["pairs"] == counts.get("kafka", 0) + counts.get("other", 0)
    troubles = notes(source, UNREAD)
    assert bool(troubles) == bool(
        counts.get("unread", 0) or counts.get("strange", 0)
    ) or "msgType" in str(troubles)
    found = everything(source)
    twice = sum(lane.twice for lane in source._index().lanes.values() if lane)
    assert len(found) <= counts.get("records", 0) <= len(found) + twice
    with source.open() as reader:
        for each in found[:3]:
            slice_ = Slice(each.topic, each.partition, each.offset, each.offset + 1)
            assert [one for run in reader.read(slice_) for one in run] == [each]
