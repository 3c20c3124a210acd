"""An archive that is damaged, linked, of another format or no archive at all is named, and not read."""

import json
import re
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from playhead.errors import PlayheadError
from playhead.files import archive_index, file_names
from playhead.files.errors import (
    AccessDenied,
    Damaged,
    LinkInside,
    NotAnArchive,
    OtherFormat,
    StoreFailed,
    StoreUnavailable,
)
from playhead.files.formats.csv_format import CsvCodec
from playhead.files.formats.parquet import ParquetCodec
from playhead.files.source import FilesSource
from playhead.files.stores import local
from playhead.files.target import FilesTarget
from playhead.files.terms import kept_terms
from playhead.record import Slice
from playhead.records import Records
from playhead.source import SourceFacts, TopicFacts
from playhead.target import AlreadyCommitted
from playhead.testing import Aborted, armed, sample_records
from playhead.testing.target_case import look
from tests.fix_archives import (
    archive,
    commit,
    data_files,
    everything,
    read,
    record,
    slice_,
    writing,
)
from tests.fix_deep_folders import folder_of_many_levels

# --- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where", [file_names.replay_folder("one"), "topic=contract/partition=00000"]
)
def test_folders_that_others_have_nested_without_an_end_are_an_error_of_ours(tmp_path, where):
    root = str(tmp_path / "a")
    archive(root, "json")
    deep = folder_of_many_levels(Path(root, where, "deep"))
    with deep, pytest.raises(StoreFailed, match="folders are nested more than 200 deep"):
        FilesTarget(root, "json").entries("one")


def test_topics_with_more_partitions_than_a_cluster_can_have_are_refused(tmp_path, monkeypatch):
    """A few kilobytes would fill the memory: a list of all partitions is made."""
    root = str(tmp_path / "a")
    archive(root, "json")
    facts = {"partitions": 700, "sets_log_append_time": False, "is_compacted": False}
    monkeypatch.setattr(archive_index, "MOST_PARTITIONS", 1_000)
    place = FilesTarget(root, "json")._archive()
    place.write_about("one", {"a": facts})
    assert len(FilesSource(root, "json").bounds()) == 702
    place.write_about("two", {"a": facts, "b": facts})
    with pytest.raises(Damaged, match="its topics have 1,400 partitions, needed at most 1,000"):
        FilesSource(root, "json").bounds()


def test_slices_inside_slices_are_refused_before_they_cost_the_square(tmp_path, monkeypatch):
    root = str(tmp_path / "a")
    for n in range(6):
        with writing(FilesTarget(root, "json"), f"r{n}") as writer:
            commit(writer, slice_(n, 20 - n), [], filtered=20 - 2 * n)
    monkeypatch.setattr(archive_index, "_MOST_TOGETHER", 36)
    with FilesSource(root, "json").open() as reader:
        assert list(reader.read(slice_(0, 20))) == []
        monkeypatch.setattr(archive_index, "_MOST_TOGETHER", 35)
        with pytest.raises(Damaged, match="its 6 slices overlap so much that they cannot be read"):
            list(reader.read(slice_(0, 20)))


@pytest.mark.parametrize(
    "change",
    [
        ('"offset":1,', '"offset":0,'),
        ('"offset":1,', '"offset":7,'),
        ('"offset":3,', '"offset":5,'),
        ('"offset":1,', '"offset":4,'),
        ('"offset":1,', '"offset":true,'),
        ('"headers":[]', '"headers":[[1,"x"]]'),
        ("only the first one", ""),
    ],
    ids=["twice", "elsewhere", "behind", "order", "kind", "header", "count"],
)
def test_a_file_whose_records_are_not_those_of_its_slice_is_damaged(tmp_path, change):
    """Another user can write file and ledger so that they fit: a record was left out, and all was proved."""
    root = tmp_path / "a"
    with writing(FilesTarget(str(root), "json")) as writer:
        commit(writer, slice_(0, 5), [record(offset, value=b"{}") for offset in (0, 1, 3)])
    file = next(each for each in data_files(root) if each.suffix == ".jsonl")
    text = file.read_text()
    file.write_text(text.replace(*change, 1) if change[0] in text else text[: text.index("\n") + 1])
    [ledger] = root.glob("_playhead/replay=r/topic=*/*/*.json")
    entry = json.loads(ledger.read_text())
    entry["details"]["size"] = file.stat().st_size
    entry["details"]["sha256"] = sha256(file.read_bytes()).hexdigest()
    ledger.write_text(json.dumps(entry))
    with pytest.raises(Damaged, match="is not a json file of ours"):
        everything(str(root), "json")


def test_an_entry_of_more_records_than_its_file_has_is_damaged(tmp_path):
    archive(str(tmp_path / "a"), "json")
    [ledger, *_] = (tmp_path / "a").glob("_playhead/replay=one/topic=*/*/*.json")
    entry = json.loads(ledger.read_text())
    ledger.write_text(json.dumps(entry | {"details": {}}))
    with pytest.raises(Damaged, match="records were written, and its file has 0"):
        everything(str(tmp_path / "a"), "json")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    """Another user may write one of many gigabytes that has no blocks on the disk."""
    with (tmp_path / "archive.json").open("wb") as file:
        file.truncate(1 << 40)
    store = local.LocalStore(tmp_path)
    for whole in (store.read, lambda path: store.read_all([path])):
        with pytest.raises(Damaged, match=r"1,099,511,627,776 bytes, needed at most 16,777,216"):
            whole("archive.json")


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def turn_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("kept_in", ["entries", "terms"])
def test_no_number_of_small_files_is_in_memory_at_once(tmp_path, kept_in):
    """Others may write as many as they like, and sixteen megabytes without blocks cost them nothing."""
    archive(str(tmp_path / "a"), "json")
    folder = tmp_path / "a" / file_names.replay_folder("one")
    for number in range(1_000, 1_100):
        slice_name = f"topic=contract/partition=00000/{number:020d}-{number + 1:020d}.json"
        name = f"terms-{number:016x}.json" if kept_in == "terms" else slice_name
        with (folder / name).open("wb") as file:
            file.truncate(1 << 20)
    place = FilesTarget(str(tmp_path / "a"), "json")._archive()
    read_them = place.committed if kept_in == "entries" else partial(kept_terms, place, "one")
    tracemalloc.start()
    try:
        with pytest.raises(PlayheadError, match="Expecting value"):
            read_them()
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(cut_short, "bytes, but was written with"), (turn_a_bit, "SHA-256"), (Path.unlink, "gone")],
)
def test_a_damaged_file_is_named(tmp_path: Path, format_: str, spoil, reason: str) -> None:
    archive(str(tmp_path), format_)
    file = data_files(tmp_path)[0]
    spoil(file)
    with pytest.raises(Damaged, match=f"{file} is damaged: .*{reason}"):
        everything(str(tmp_path), format_)


@pytest.mark.parametrize(
    ("of", "instead"),
    [
        ("timestamp_ms", str(2**63)),
        ("timestamp_ms", "1.5"),
        ("timestamp_ms", '"x"'),
        ("timestamp_type", "300"),
        ("timestamp_type", "null"),
        ("timestamp_type", "[]"),
        ("offset", "null"),
    ],
)
def test_numbers_that_no_record_has_are_damage_too(tmp_path: Path, of: str, instead: str) -> None:
    """Somebody has written them, and the ledger's entry with it."""
    archive(str(tmp_path), "json")
    file = data_files(tmp_path)[0]
    own = file.relative_to(tmp_path).with_suffix(".json")
    [entry] = tmp_path.glob(f"_playhead/replay=*/{own}")
    before = file.read_bytes()
    after = re.sub(rf'"{of}":-?\d+'.encode(), f'"{of}":{instead}'.encode(), before, count=1)
    assert after != before
    file.write_bytes(after)
    text = entry.read_text().replace(sha256(before).hexdigest(), sha256(after).hexdigest())
    entry.write_text(text.replace(f'"size":{len(before)}', f'"size":{len(after)}'))
    with pytest.raises(Damaged, match="it is not a json file of ours"):
        everything(str(tmp_path), "json")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', "\xff", '{"version":1,"slice":2}']
)
def test_a_damaged_ledger_is_named(tmp_path: Path, text: str) -> None:
    archive(str(tmp_path))
    entry = next(iter(sorted(tmp_path.glob("_playhead/replay=*/topic=*/*/*.json"))))
    entry.write_text(text, encoding="latin-1")
    with pytest.raises(Damaged, match=f"{entry} is damaged"):
        FilesSource(str(tmp_path)).bounds()


@pytest.mark.parametrize("size", [None, "9", [9]])
def test_details_of_another_kind_are_damage(tmp_path: Path, size: Any) -> None:
    archive(str(tmp_path))
    entry = next(iter(sorted(tmp_path.glob("_playhead/replay=*/topic=*/*/*.json"))))
    document = json.loads(entry.read_text())
    entry.write_text(json.dumps(document | {"details": document["details"] | {"size": size}}))
    with pytest.raises(Damaged, match=f"{entry} is damaged: .*details.size"):
        FilesSource(str(tmp_path)).facts()


@pytest.mark.parametrize(
    "topics",
    [
        5,
        None,
        [[]],
        {"contract": 5},
        {"contract": {}},
        {"contract": {"partitions": 10**12}},
        {"contract": {"sets_log_append_time": "no"}},
        {"contract": {"columns": {"a": "no type"}}},
    ],
)
def test_what_a_replay_knew_in_another_form_is_damage(tmp_path: Path, topics: Any) -> None:
    """Other users may write to an archive; a number of partitions is a loop as long as it says."""
    archive(str(tmp_path))
    known = {"partitions": 1, "sets_log_append_time": False, "is_compacted": False}
    about = tmp_path / file_names.about_path("one")
    if isinstance(topics, dict) and topics["contract"] not in (5, {}):
        topics = {"contract": known | topics["contract"]}
    about.write_text(json.dumps({"version": 1, "topics": {"contract": known}}))
    assert FilesSource(str(tmp_path)).facts().topics
    about.write_text(json.dumps({"version": 1, "topics": topics}))
    for look_at in (FilesSource(str(tmp_path)).facts, FilesSource(str(tmp_path)).bounds):
        with pytest.raises(Damaged, match=f"{about} is damaged"):
            look_at()


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
    with (
        writing(target, "dead") as writer,
        armed("files.data_published=raise"),
        pytest.raises(Aborted),
    ):
        commit(writer, slice_(0, 10), [record(1), record(9)])
    with writing(target, "dead") as writer:
        commit(writer, slice_(5, 20), [record(9)])
        commit(writer, slice_(0, 5), [record(1)])
    with writing(target, "other") as writer:
        commit(writer, slice_(0, 20), [record(1), record(9)])
    found = [
        file_names.data_slice(str(file.relative_to(tmp_path)), "parquet")
        for file in data_files(tmp_path)
    ]
    assert found == [slice_(0, 5), slice_(0, 20), slice_(5, 20)]
    assert read(tmp_path, slice_(0, 20)) == [record(1), record(9)]


def test_of_writers_that_overlap_at_the_same_time_one_wins(tmp_path: Path) -> None:
    target, start = FilesTarget(str(tmp_path)), threading.Barrier(6)

    def attempt(n: int) -> bool:
        with writing(target, "r") as writer:
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
        archive_of.store.alone(file_names.place_folder("t", 0)),
        writing(FilesTarget(str(tmp_path)), "r") as writer,
    ):
        commit(writer, slice_(0, 5, 1), [])
        with pytest.raises(StoreUnavailable, match="another writer has locked it"):
            commit(writer, slice_(0, 5), [])


def test_compare_tells_damage_from_differences(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    records = [record(n) for n in range(5)]
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 10), records)
        (entry,) = target.entries("r")
        changed = [*records[1:4], record(4, value=None), record(7)]
        found = writer.compare(entry, [Records.of(changed)])
        assert [(each.kind, each.offset, each.text) for each in found.differences] == [
            ("extra", 0, "the archive has a record that should not exist"),
            ("changed", 4, "differs in value"),
            ("missing", 7, "the archive has no such record"),
        ]
        assert (found.expected, found.found, found.different) == (5, 5, 3)
        turn_a_bit(data_files(tmp_path)[0])
        found = writer.compare(entry, [Records.of(records)])
    assert (found.found, found.different) == (0, 5)
    assert "is damaged: its SHA-256" in found.differences[0].text


# --- what is there already ---------------------------------------------------------------------


def test_a_folder_that_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "some.parquet").write_bytes(b"")
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotAnArchive, match=f"{root} is not an archive of Playhead") as caught:
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
        with pytest.raises(
            OtherFormat, match="is an archive in json, but the address says parquet"
        ):
            attempt()


def test_an_archive_of_a_later_version(tmp_path: Path) -> None:
    archive(str(tmp_path))
    (tmp_path / file_names.ABOUT).write_text('{"version": 2, "format": "parquet"}')
    with pytest.raises(NotAnArchive, match="its version is 2; this Playhead knows 1"):
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
    assert "use a separate folder for each selection" in again.notes[0].text
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
    with pytest.raises(LinkInside, match="inside the archive"), writing(target, "r") as writer:
        commit(writer, slice_(0, 5), [record(1)])
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    archive(str(tmp_path / "archive"))
    file = data_files(tmp_path / "archive")[0]
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.raises(LinkInside):
        everything(str(tmp_path / "archive"))


# --- files that another user has written -------------------------------------------------------


HEADERS = pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()}))


def table_with(**columns: pa.Array) -> pa.Table:
    """The columns of one record with the offset 0, some of them others."""
    headers = pa.array([[]], HEADERS)
    own = {name: pa.array([0]) for name in ("offset", "timestamp_ms")}
    own |= {"timestamp_type": pa.array([0], pa.int8()), "key": pa.array([b""]), "headers": headers}
    return pa.table(own | {"value": pa.array([b""])} | columns)


def bytes_of(table: pa.Table, **rules: Any) -> bytes:
    file = pa.BufferOutputStream()
    parquet.write_table(table, file, **rules)
    return file.getvalue().to_pybytes()


def many(**columns: pa.Array) -> pa.Table:
    """Four thousand records; the columns are of that many, too."""
    rows = pa.array([0] * 4_000, pa.int32())
    return pa.table({n: c.take(rows) for n, c in zip(COLUMNS, table_with(), strict=True)} | columns)


COLUMNS = table_with().column_names
MEGABYTES = pa.DictionaryArray.from_arrays(
    pa.array([0] * 4_000, pa.int32()), pa.array([b"x" * 1_000_000])
)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(
            lambda: bytes_of(table_with(headers=pa.array(["x"]))), "headers is string", id="kind"
        ),
        pytest.param(
            lambda: bytes_of(table_with(headers=pa.array([[None]], HEADERS))),
            "a header has no name",
            id="header",
        ),
        pytest.param(lambda: bytes_of(many()), "more than offsets", id="rows"),
        pytest.param(
            lambda: bytes_of(many(key=MEGABYTES)),
            "unfolds to 4,000,000,000 bytes",
            id="keys",
        ),
        pytest.param(
            lambda: bytes_of(
                table_with(), use_dictionary=False, column_encoding={"value": "DELTA_BYTE_ARRAY"}
            ),
            "value is encoded by DELTA_BYTE_ARRAY",
            id="encoding",
        ),
    ],
)
def test_a_file_that_is_no_slice_of_ours_is_not_unfolded(data: Any, told: str) -> None:
    offsets = 1 if told == "more than offsets" else 10_000
    with pytest.raises(ValueError, match=told):
        list(ParquetCodec().decode(data(), Slice("t", 0, 0, offsets)))


def test_a_csv_file_with_other_columns_is_not_parsed() -> None:
    with pytest.raises(ValueError, match="its first line does not name our columns"):
        list(CsvCodec().decode(b"," * 9 + b"\r\n" + b"," * 9 + b"\r\n", Slice("t", 0, 0, 1)))
