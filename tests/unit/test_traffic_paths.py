"""Paths into pairs, snapshots found, and values extracted as the known command extracts them."""

import csv
import gzip
import io
import json
import uuid
from pathlib import Path as File

import pytest

from playhead.grammar.cursor import NotUnderstood
from playhead.traffic.extract import Extract
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.pair_path import MISSING, Path, canonical_uuid, shown
from playhead.traffic.snapshot import NoSnapshot, find_snapshot
from tests.capturing import DATA, SNAPSHOT

PAIRS = [json.loads(line) for line in SNAPSHOT.read_text().splitlines()]
VALUE = "kafka.response.FetchResponse.topics.0.partitions.0.records.records.0.valueString"
FETCHED = "kafka.response.FetchResponse.topics"


@pytest.mark.parametrize(
    ("path", "pair", "found"),
    [
        (VALUE, 2, '{"id":1001,"sku":"A-7"}'),
        (f"{VALUE}.sku", 2, "A-7"),
        (".ts", 0, "2026-03-02T10:00:00.012345678Z"),
        ("uuid", 0, "44f7a2cc-2045-4fb6-9635-3da8aa7fa901"),
        ("http.req.bodyBase64.qty", 0, 2),
        ("http.req.bodyBase64", 0, "eyJza3UiOiJBLTciLCJxdHkiOjJ9"),
        ("http.req.headers.Content-Type.0", 0, "application/json"),
        (f"{FETCHED}.#", 2, 2),
        (f"{FETCHED}.#.name", 2, ["orders", "payments"]),
        (f"{FETCHED}.*.name", 2, ["orders", "payments"]),
        (f"{FETCHED}.#.partitions.#.highWatermark", 2, [["44", "8"], ["7"]]),
        ("signature.*", 6, [PAIRS[6]["signature"][name] for name in PAIRS[6]["signature"]]),
        ("postgres.request.execute.bindRequest.parameters.1.asString", 6, "A-7"),
        ("signature.postgres:query", 6, PAIRS[6]["signature"]["postgres:query"]),
        (f"{FETCHED}.2.name", 2, MISSING),
        ("nothing.at.all", 2, MISSING),
        ("ts.0", 2, MISSING),
    ],
)
def test_what_stands_at_a_path(path, pair, found):
    assert Path.parse(path).of(PAIRS[pair]) == found


@pytest.mark.parametrize(("text", "at"), [("", 0), (".", 1), ("a..b", 2), ("a.", 2), ("..a", 1)])
def test_a_step_without_a_name_is_pointed_at(text, at):
    with pytest.raises(NotUnderstood) as found:
        Path.parse(text)
    assert found.value.at == at


def test_a_dot_in_a_name():
    assert Path.parse(r"a\.b.c").of({"a.b": {"c": None}}) is None
    assert shown(None) == shown(MISSING) == ""


def test_a_uuid_of_sixteen_bytes_alone_is_made_canonical():
    assert canonical_uuid("RPeizCBFT7aWNT2oqn+pAQ==") == "44f7a2cc-2045-4fb6-9635-3da8aa7fa901"
    known = str(uuid.uuid4())
    assert canonical_uuid(known) == known
    assert canonical_uuid("eA==") == "eA=="


def extracted(asked: Extract, snapshot: str = str(SNAPSHOT)) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(asked.header)
    writer.writerows(asked.run(find_snapshot(snapshot)))
    return text.getvalue()


def test_the_documented_extract_is_the_documented_file():
    asked = Extract(
        [Path.parse(VALUE), Path.parse(".ts")], TrafficFilter.parse('(command IS "Fetch")')
    )
    assert extracted(asked) == (DATA / "extract_fetch_expected.csv").read_text()
    told = " ".join(asked.told())
    assert "1 rows of 3 matching pairs, of 7 in total" in told
    assert "contain 7 records" in told


def test_what_cannot_be_read_is_named_and_the_rest_is_there(tmp_path: File):
    lines = SNAPSHOT.read_text().splitlines()
    file = tmp_path / "raw.jsonl"
    file.write_text("\n".join([lines[0], "{broken", "", "[1]", lines[1], lines[2][:500]]))
    asked = Extract([Path.parse("command")])
    assert len(extracted(asked, str(file)).splitlines()) == 3
    assert asked.unread == 3
    told = list(asked.told())
    assert any(line.startswith("raw.jsonl:2: not valid JSON") for line in told)
    assert any("raw.jsonl:4: JSON, but not an object: list" in line for line in told)
    assert any("raw.jsonl:6: the last line is cut off" in line for line in told)


# --- snapshots


def test_a_snapshot_is_a_file_a_folder_or_an_id(tmp_path: File):
    home = tmp_path / "home"
    folder = home / ".speedscale" / "data" / "snapshots" / "abc-1"
    folder.mkdir(parents=True)
    raw = folder / "raw.jsonl"
    raw.write_text(SNAPSHOT.read_text())
    (folder / "action.jsonl").write_text("{}")
    (folder.parent / "abc-1.json").write_text("{}")
    for name in (str(raw), str(folder), "abc-1"):
        found = find_snapshot(name, home=home)
        assert (found.id, found.files) == ("abc-1", (raw,))
    with pytest.raises(NoSnapshot, match="no snapshot of this id"):
        find_snapshot("abc-2", home=home)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoSnapshot, match="neither raw.jsonl nor"):
        find_snapshot(str(tmp_path / "empty"), home=home)


def test_packed_files_parts_and_pairs_of_their_own(tmp_path: File):
    lines = SNAPSHOT.read_text().splitlines()
    packed = tmp_path / "packed" / "raw.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(SNAPSHOT.read_bytes()))
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "raw-9.jsonl").write_text("\n".join(lines[:2]) + "\n")
    (parts / "raw-10.jsonl").write_text("\n".join(lines[2:4]))
    (parts / "raw.jsonl").write_text("\n".join(lines[4:]))
    single = tmp_path / "recorded"
    for index, pair in enumerate(PAIRS):
        file = single / ("a" if index % 2 else "b") / f"2026-03-02T10-00-0{index}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(pair, indent=2))
    (single / ".metadata").mkdir()
    (single / ".metadata" / "snapshot.json").write_text("{}")
    needed = extracted(Extract([Path.parse("command"), Path.parse("ts")]))
    for folder in ("packed", "parts", "recorded"):
        asked = Extract([Path.parse("command"), Path.parse("ts")])
        assert extracted(asked, str(tmp_path / folder)) == needed, folder
        assert not asked.unread
