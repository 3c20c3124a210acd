"""What an archive promises beyond the contract: gaps, overlaps, damage, links, other formats, typed columns."""

import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.account import Account, ErrorRule, RecordRefused
from playhead.errors import BadValue
from playhead.files import local, names
from playhead.files.source import FilesSource
from playhead.files.target import FilesTarget
from playhead.files.trouble import (
    AccessDenied,
    ArchiveGap,
    Damaged,
    LinkInside,
    NotAnArchive,
    OtherFormat,
    OtherRecords,
    StoreFailed,
    StoreUnavailable,
)
from playhead.files.typed import filled, inferred
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.source import Bounds, OutOfBounds, SourceFacts, TopicFacts
from playhead.target import AlreadyCommitted, Look
from playhead.testing import Aborted, armed, sample_records
from playhead.testing.target_case import look
from tests.fix_archives import archive, commit, everything


def record(offset: int, *, ms: int = 5, value: bytes | None = b"v", partition: int = 0) -> Record:
    return Record("t", partition, offset, ms, TimestampType.CREATE_TIME, None, value)


def slice_(start: int, end: int, partition: int = 0) -> Slice:
    return Slice("t", partition, start, end)


def read(root: Path, wanted: Slice) -> list[Record]:
    with FilesSource(str(root)).open() as reader:
        return [each for run in reader.read(wanted) for each in run]


def data_files(root: Path) -> list[Path]:
    return sorted(root.glob("topic=*/partition=*/[!.]*"))


# --- descriptions and names -------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "s3://", "gs://bucket/x", "a\0b"])
def test_roots_that_mean_nothing(root: str) -> None:
    for description in (FilesTarget, FilesSource):
        with pytest.raises(BadValue, match="needed: "):
            description(root)


def test_formats_that_nobody_knows() -> None:
    with pytest.raises(BadValue, match="needed: parquet or json or csv"):
        FilesTarget("/x", "avro")
    with pytest.raises(BadValue, match="needed: parquet, for typed columns"):
        FilesTarget("/x", "csv", typed=True)


def test_a_root_means_the_same_wherever_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = pickle.loads(pickle.dumps(FilesTarget("sub/../here")))  # noqa: S301 - our own bytes
    monkeypatch.chdir("/")
    assert target.root == str(tmp_path / "here")
    assert FilesTarget(f"file://{tmp_path}/here") == target
    (tmp_path / "way").symlink_to(tmp_path / "here")
    assert FilesSource(str(tmp_path / "way")).root == target.root


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.integers(0, 2**31))
def test_names_can_be_read_back_and_lead_nowhere_else(topic, replay_id, offset):
    place = Slice(topic, 3, offset, offset + 5)
    path = names.entry_path(replay_id, place)
    assert names.entry_name(path) == names.EntryName(replay_id, place, path)
    for each in (path, names.data_path(place, "csv"), names.about_path(replay_id)):
        assert os.path.normpath(each) == each
        assert not each.startswith(("/", ".."))
        assert each.isascii()


@pytest.mark.parametrize("topic", ["..", ".", "../../up", "a/b", "/etc", "a=b", "ü", "-", "x" * 80])
def test_topics_with_names_that_could_lead_out(tmp_path: Path, topic: str) -> None:
    root = tmp_path / "archive"
    wanted = Slice(topic, 0, 0, 1)
    with FilesTarget(str(root)).open("../r") as writer:
        commit(writer, wanted, [replace(record(0), topic=topic)])
    assert [each.name for each in tmp_path.iterdir()] == ["archive"]
    assert read(root, wanted) == [replace(record(0), topic=topic)]
    assert list(FilesSource(str(root)).bounds()) == [(topic, 0)]


# --- bounds, gaps and times -------------------------------------------------------------------


def test_a_gap_is_named_and_not_read_over(tmp_path: Path) -> None:
    with FilesTarget(str(tmp_path)).open("r") as writer:
        commit(writer, slice_(10, 20), [record(12)])
        commit(writer, slice_(30, 40), [])
        commit(writer, slice_(50, 60), [record(50)])
    source = FilesSource(str(tmp_path))
    assert source.bounds() == {("t", 0): Bounds(10, 60, 60)}
    assert read(tmp_path, slice_(10, 20)) == [record(12)]
    assert read(tmp_path, slice_(30, 40)) == []
    with pytest.raises(ArchiveGap, match="nothing was archived of t:0:20-30") as caught:
        read(tmp_path, slice_(15, 55))
    assert isinstance(caught.value, OutOfBounds)
    assert caught.value.gap == slice_(20, 30)
    (note,) = source.facts().notes
    assert note.code == "archive.gap"
    assert "t:0:20-30, t:0:40-50" in note.text


def test_a_partition_that_was_empty_is_still_one(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    topics = {"t": TopicFacts(sets_log_append_time=True, is_compacted=True)}
    target.prepare("r", target.inspect(Look(SourceFacts("k", topics), {"t": 3}, [])))
    with target.open("r") as writer:
        commit(writer, slice_(4, 9, 1), [record(4, partition=1)])
    source = FilesSource(str(tmp_path))
    empty = Bounds(0, 0, 0)
    assert source.bounds() == {("t", 0): empty, ("t", 1): Bounds(4, 9, 9), ("t", 2): empty}
    assert source.offsets_at(0) == {("t", 0): 0, ("t", 1): 4, ("t", 2): 0}
    facts = source.facts().topics["t"]
    assert (facts.sets_log_append_time, facts.is_compacted) == (True, True)
    (file,) = data_files(tmp_path)
    assert facts.bytes_by_partition == {0: 0, 1: file.stat().st_size, 2: 0}


def test_a_reader_that_stays_open_sees_what_is_archived_later(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    with target.open("r") as writer:
        commit(writer, slice_(0, 5), [record(1)])
        with FilesSource(str(tmp_path)).open() as reader:
            assert [len(run) for run in reader.read(slice_(0, 5))] == [1]
            commit(writer, slice_(5, 9), [record(8)])
            assert [len(run) for run in reader.read(slice_(0, 9))] == [1, 1]


TIMES = st.lists(st.integers(-5, 30), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(TIMES, st.integers(1, 4), st.integers(-7, 32))
def test_offsets_by_time(tmp_path_factory, times, length, instant):
    root = tmp_path_factory.mktemp("times")
    records = [record(2 * n, ms=ms) for n, ms in enumerate(times)]
    with FilesTarget(str(root), "json").open("r") as writer:
        for start in range(0, 2 * len(times), length):
            part = slice_(start, start + length)
            commit(writer, part, [each for each in records if each in part])
    source = FilesSource(str(root), "json")
    due = [each.offset for each in records if each.timestamp_ms >= instant]
    end = source.bounds()["t", 0].stable_end
    assert source.offsets_at(instant) == {("t", 0): due[0] if due else end}


# --- several replays in one archive -----------------------------------------------------------

CUTS = st.lists(st.integers(1, 19), max_size=4, unique=True).map(
    lambda cuts: [0, *sorted(cuts), 20]
)
LOG = [record(offset, value=b"%d" % offset) for offset in range(20) if offset % 5]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(CUTS, st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(0, 19),
    st.integers(1, 20),
)
def test_each_offset_is_read_once(tmp_path_factory, replays, start, length):
    """Of overlapping replays, which all left something out, what any of them kept is read, once."""
    root = tmp_path_factory.mktemp("overlaps")
    kept_by_any = set()
    for number, (cuts, nth) in enumerate(replays):
        kept = [each for each in LOG if each.offset % nth == 0]
        with FilesTarget(str(root)).open(f"r{number}") as writer:
            for part in map(slice_, cuts, cuts[1:]):
                here = [each for each in kept if each in part]
                filtered = len([each for each in LOG if each in part]) - len(here)
                try:
                    commit(writer, part, here, filtered=filtered)
                except OtherRecords:
                    continue
                kept_by_any |= {each.offset for each in here}
    wanted = slice_(start, min(start + length, 20))
    try:
        found = read(root, wanted)
    except OutOfBounds:
        return
    assert found == [each for each in LOG if each.offset in kept_by_any and each in wanted]


def test_a_slice_that_left_nothing_out_is_enough(tmp_path: Path) -> None:
    """So that a file which was compacted or selected from need not be read for nothing."""
    with FilesTarget(str(tmp_path)).open("a-selected") as writer:
        commit(writer, slice_(0, 10), [record(3, value=b"selected")], filtered=1)
    with FilesTarget(str(tmp_path)).open("whole") as writer:
        commit(writer, slice_(0, 20), [record(3), record(4)])
    data_files(tmp_path)[0].unlink()
    assert read(tmp_path, slice_(0, 20)) == [record(3), record(4)]


def test_other_records_under_the_same_name_are_refused(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    with target.open("one") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    before = data_files(tmp_path)[0].read_bytes()
    with (
        target.open("two") as writer,
        pytest.raises(OtherRecords, match="in which replay one keeps"),
    ):
        commit(writer, slice_(0, 10), [record(2)], filtered=1)
    assert data_files(tmp_path)[0].read_bytes() == before
    assert target.entries("two") == []


def test_other_bytes_of_the_same_records_are_left_as_they_are(tmp_path: Path) -> None:
    """As another version of the library writes them."""
    target = FilesTarget(str(tmp_path))
    with target.open("one") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    (file,) = data_files(tmp_path)
    pq.write_table(pq.read_table(file), file, compression="none")
    rewrite_ledger(tmp_path, file)
    before = file.read_bytes()
    with target.open("two") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    assert file.read_bytes() == before
    assert read(tmp_path, slice_(0, 10)) == [record(1), record(2)]
    assert [entry.details["sha256"] for entry in target.entries("two")] == [
        entry.details["sha256"] for entry in target.entries("one")
    ]


def rewrite_ledger(root: Path, file: Path) -> None:
    """As it would be had the file been written so."""
    import hashlib

    (entry,) = root.glob("_playhead/replay=*/topic=*/*/*.json")
    document = json.loads(entry.read_text())
    data = file.read_bytes()
    document["details"] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    entry.write_text(json.dumps(document))


# --- damage -----------------------------------------------------------------------------------


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def turn_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(cut_short, "bytes, and was written with"), (turn_a_bit, "SHA-256"), (Path.unlink, "gone")],
)
def test_a_damaged_file_is_named(tmp_path: Path, format_: str, spoil, reason: str) -> None:
    archive(str(tmp_path), format_)
    file = data_files(tmp_path)[0]
    spoil(file)
    with pytest.raises(Damaged, match=f"{file} is damaged: .*{reason}"):
        everything(str(tmp_path), format_)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', "\xff", '{"version":1,"slice":2}']
)
def test_a_damaged_ledger_is_named(tmp_path: Path, text: str) -> None:
    archive(str(tmp_path))
    entry = next(iter(sorted(tmp_path.glob("_playhead/replay=*/topic=*/*/*.json"))))
    entry.write_text(text, encoding="latin-1")
    with pytest.raises(Damaged, match=f"{entry} is damaged"):
        FilesSource(str(tmp_path)).bounds()


def test_an_entry_under_another_name_is_not_believed(tmp_path: Path) -> None:
    archive(str(tmp_path))
    one, two, *_ = sorted(tmp_path.glob("_playhead/replay=*/topic=*/*/*.json"))
    two.write_bytes(one.read_bytes())
    with pytest.raises(Damaged, match="it is the entry of contract:0:0-5"):
        FilesSource(str(tmp_path)).bounds()


def test_data_without_an_entry_is_not_read(tmp_path: Path) -> None:
    archive(str(tmp_path))
    extra = data_files(tmp_path)[0].with_name(f"{10:020d}-{20:020d}.parquet")
    extra.write_bytes(data_files(tmp_path)[0].read_bytes())
    assert everything(str(tmp_path)) == sample_records()


def test_what_a_dead_writer_left_is_gone_when_its_offsets_are_written(tmp_path: Path) -> None:
    """So that other tools do not see records twice, however the resume cuts."""
    target = FilesTarget(str(tmp_path))
    with target.open("dead") as writer, armed("files.data_published=raise"), pytest.raises(Aborted):
        commit(writer, slice_(0, 10), [record(1), record(9)])
    with target.open("dead") as writer:
        commit(writer, slice_(5, 20), [record(9)])
        commit(writer, slice_(0, 5), [record(1)])
    with target.open("other") as writer:
        commit(writer, slice_(0, 20), [record(1), record(9)])
    found = [
        names.data_slice(str(file.relative_to(tmp_path)), "parquet")
        for file in data_files(tmp_path)
    ]
    assert found == [slice_(0, 5), slice_(0, 20), slice_(5, 20)]
    assert read(tmp_path, slice_(0, 20)) == [record(1), record(9)]


def test_of_writers_that_overlap_at_the_same_time_one_wins(tmp_path: Path) -> None:
    target, start = FilesTarget(str(tmp_path)), threading.Barrier(6)

    def attempt(n: int) -> bool:
        with target.open("r") as writer:
            start.wait(30)
            try:
                commit(writer, slice_(n, n + 10), [record(9)])
            except AlreadyCommitted:
                return False
        return True

    with ThreadPoolExecutor(6) as threads:
        won = list(threads.map(attempt, range(6)))
    assert won.count(True) == 1
    (entry,) = target.entries("r")
    assert entry.slice == slice_(won.index(True), won.index(True) + 10)
    assert read(tmp_path, entry.slice) == [record(9)]


def test_a_writer_that_stands_still_does_not_keep_the_others_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_PATIENCE_S", 0.2)
    archive_of = FilesTarget(str(tmp_path))._archive()
    with (
        archive_of.store.alone(names.place_folder("t", 0)),
        FilesTarget(str(tmp_path)).open("r") as writer,
    ):
        commit(writer, slice_(0, 5, 1), [])
        with pytest.raises(StoreUnavailable, match="another writer has it"):
            commit(writer, slice_(0, 5), [])


def test_compare_tells_damage_from_differences(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    records = [record(n) for n in range(5)]
    with target.open("r") as writer:
        commit(writer, slice_(0, 10), records)
        (entry,) = target.entries("r")
        changed = [*records[1:4], record(4, value=None), record(7)]
        found = writer.compare(entry, [Records.of(changed)])
        assert [(each.kind, each.offset, each.text) for each in found.differences] == [
            ("extra", 0, "the archive has a record that was not to be written"),
            ("changed", 4, "differs in value"),
            ("missing", 7, "the archive has no such record"),
        ]
        assert (found.expected, found.found, found.different) == (5, 5, 3)
        turn_a_bit(data_files(tmp_path)[0])
        found = writer.compare(entry, [Records.of(records)])
    assert (found.found, found.different) == (0, 5)
    assert "is damaged: its SHA-256" in found.differences[0].text


# --- what is there already --------------------------------------------------------------------


def test_a_folder_that_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "some.parquet").write_bytes(b"")
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotAnArchive, match=f"{root} is no archive of Playhead") as caught:
            FilesSource(str(root)).bounds()
        assert "_playhead" in caught.value.hint
    (note,) = FilesTarget(str(tmp_path)).inspect(look()).notes
    assert (note.code, note.weight) == ("files.not-empty", "warn")


def test_an_archive_in_another_format(tmp_path: Path) -> None:
    archive(str(tmp_path), "json")
    for attempt in (
        lambda: FilesTarget(str(tmp_path)).inspect(look()),
        lambda: FilesTarget(str(tmp_path)).open("r").__enter__(),
        lambda: FilesSource(str(tmp_path)).bounds(),
    ):
        with pytest.raises(OtherFormat, match="is an archive in json, not in parquet"):
            attempt()


def test_an_archive_of_a_later_version(tmp_path: Path) -> None:
    archive(str(tmp_path))
    (tmp_path / names.ABOUT).write_text('{"version": 2, "format": "parquet"}')
    with pytest.raises(NotAnArchive, match="its version is 2, and 1 is known here"):
        FilesSource(str(tmp_path)).bounds()


def test_what_a_look_says(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "archive"
    target = FilesTarget(str(root))
    first = target.inspect(look())
    assert first.creates == (f"an archive in parquet at {root}",)
    assert first.notes == ()
    assert not root.exists()
    archive(str(root))
    again = target.inspect(look())
    assert again.creates == ()
    assert [note.code for note in again.notes] == ["files.other-replays"]
    assert "from replay one;" in again.notes[0].text
    vast = SourceFacts("k", {"contract": TopicFacts(bytes_by_partition={0: 10**18})})
    notes = target.inspect(replace(look(), source=vast)).notes
    assert {note.code for note in notes} == {"files.other-replays", "files.little-room"}


def test_a_root_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="it is a file, and a folder is needed"):
        FilesTarget(str(tmp_path / "file")).inspect(look())
    with pytest.raises(AccessDenied, match="cannot be written to"):
        FilesTarget(str(tmp_path / "file" / "below")).inspect(look())


@pytest.mark.parametrize("where", ["topic=t", "topic=t/partition=00000", "_playhead"])
def test_links_inside_an_archive_are_not_followed(tmp_path: Path, where: str) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "archive" / where
    elsewhere.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    target = FilesTarget(str(tmp_path / "archive"))
    with pytest.raises(LinkInside, match="inside the archive"), target.open("r") as writer:
        commit(writer, slice_(0, 5), [record(1)])
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    archive(str(tmp_path / "archive"))
    file = data_files(tmp_path / "archive")[0]
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.raises(LinkInside):
        everything(str(tmp_path / "archive"))


# --- typed columns ----------------------------------------------------------------------------

VALUES = [
    b'{"car": 7, "speed": 301, "pit": false, "team": "r\xc3\xa9d", "tyres": [1, 2], "mixed": 1}',
    b'{"speed": 299.5, "mixed": "x", "gone": null}',
    None,
]
MISFITS = {
    b"no JSON": "is not JSON",
    b"[1]": "JSON, and not an object",
    b'{"car": 1.5}': "field 'car' of the value: needed a whole number",
    b'{"car": true}': "field 'car'",
    b'{"car": 9223372036854775808}': "field 'car'",
    b'{"speed": "fast"}': "field 'speed' of the value: needed a number",
    b'{"speed": 1' + b"0" * 400 + b"}": "field 'speed'",
    b'{"pit": 0}': "field 'pit' of the value: needed true or false",
    b'{"team": 1}': "field 'team' of the value: needed a string",
    b'{"team": "\\ud800"}': "field 'team'",
    b"[" * 100_000: "is not JSON",
    b"\xff": "is not JSON",
}


def typed_target(root: Path) -> FilesTarget:
    target = FilesTarget(str(root), typed=True)
    samples = [Records.of(record(n, value=value) for n, value in enumerate(VALUES))]
    inspection = target.inspect(Look(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples))
    (note,) = inspection.notes
    assert "value_car int64, value_mixed json, value_pit bool, value_speed double" in note.text
    target.prepare("r", inspection)
    return target


def test_typed_columns(tmp_path: Path) -> None:
    target = typed_target(tmp_path)
    records = [record(n, value=value) for n, value in enumerate(VALUES)]
    with target.open("r") as writer:
        commit(writer, slice_(0, 5), records)
    rows = pq.read_table(data_files(tmp_path)[0]).to_pylist()
    typed = [{k: v for k, v in row.items() if k.startswith("value_")} for row in rows]
    nothing = dict.fromkeys(typed[0])
    assert typed == [
        {
            "value_car": 7,
            "value_mixed": "1",
            "value_pit": False,
            "value_speed": 301.0,
            "value_team": "réd",
            "value_tyres": "[1, 2]",
        },
        nothing | {"value_speed": 299.5, "value_mixed": '"x"'},
        nothing,
    ]
    assert read(tmp_path, slice_(0, 5)) == records


@pytest.mark.parametrize("value", MISFITS, ids=lambda value: value[:20].decode("latin-1"))
def test_a_value_that_does_not_fit_is_refused(tmp_path: Path, value: bytes) -> None:
    target = typed_target(tmp_path)
    records = [record(0, value=VALUES[0]), record(1, value=value), record(2, value=VALUES[1])]
    with target.open("r") as writer, pytest.raises(RecordRefused, match="t:0 offset 1") as caught:
        commit(writer, slice_(0, 5), records)
    assert MISFITS[value] in caught.value.reason
    account = Account(slice_(0, 5), ErrorRule("skip"))
    account.read = 3
    with target.open("r") as writer:
        writer.commit(account, [Records.of(records)])
        (entry,) = target.entries("r")
        assert (entry.written, entry.skipped) == (2, 1)
        assert writer.compare(entry, [Records.of(records)]).different == 0
    assert read(tmp_path, slice_(0, 5)) == [records[0], records[2]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)
DOCUMENTS = st.none() | FIELDS.map(json.dumps).map(str.encode) | st.binary(max_size=4)


@given(
    st.lists(DOCUMENTS, min_size=1, max_size=5),
    st.dictionaries(
        st.sampled_from("abc"),
        st.sampled_from(["int64", "double", "bool", "string", "json"]),
        min_size=1,
    ),
)
def test_what_fits_alone_fits_among_others(values, columns):
    records = Records.of(record(n, value=value) for n, value in enumerate(values))
    account = Account(slice_(0, 10), ErrorRule("skip"))
    fitting, arrays = filled(account, records, columns)
    alone = []
    for each in records:
        one = Account(slice_(0, 10), ErrorRule("skip"))
        alone += filled(one, Records.of([each]), columns)[0]
    assert list(fitting) == alone
    assert account.refused_offsets == {each.offset for each in records} - {e.offset for e in alone}
    for array, (name, type_) in zip(arrays, columns.items(), strict=True):
        for item, each in zip(array.to_pylist(), fitting, strict=True):
            found = json.loads(each.value).get(name) if each.value is not None else None
            needed = json.dumps(found) if type_ == "json" and found is not None else found
            assert item == needed or (item != item and needed != needed) or item == float(needed)


@given(st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_columns_that_were_inferred_fit_what_they_were_inferred_from(values):
    columns = inferred(values)
    objects = [value for value in values if value is None or is_object(value)]
    records = Records.of(record(n, value=value) for n, value in enumerate(values))
    account = Account(slice_(0, 10), ErrorRule("skip"))
    if columns:
        fitting, _ = filled(account, records, columns)
        assert fitting.values == objects


def is_object(value: bytes) -> bool:
    try:
        return isinstance(json.loads(value.decode()), dict)
    except (ValueError, RecursionError):
        return False


def test_a_slice_of_which_no_value_fits(tmp_path: Path) -> None:
    target = typed_target(tmp_path)
    account = Account(slice_(0, 5), ErrorRule("skip"))
    account.read = 1
    with target.open("r") as writer:
        writer.commit(account, [Records.of([record(0, value=b"-")])])
    assert data_files(tmp_path) == []
    assert read(tmp_path, slice_(0, 5)) == []


def test_columns_stay_what_they_were(tmp_path: Path) -> None:
    typed_target(tmp_path)
    samples = [Records.of([record(0, value=b'{"other": 1}')])]
    inspection = FilesTarget(str(tmp_path), typed=True).inspect(
        Look(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples)
    )
    assert "car" in inspection.needs["topics"]["t"]["columns"]
    assert "other" not in inspection.needs["topics"]["t"]["columns"]


def test_values_that_are_no_json_get_no_columns(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path), typed=True)
    samples = [Records.of([record(0)])]
    inspection = target.inspect(Look(SourceFacts("k", {"t": TopicFacts()}), {"t": 1}, samples))
    assert [note.code for note in inspection.notes] == ["files.no-columns"]
    target.prepare("r", inspection)
    with target.open("r") as writer:
        commit(writer, slice_(0, 5), [record(0)])
    assert read(tmp_path, slice_(0, 5)) == [record(0)]
