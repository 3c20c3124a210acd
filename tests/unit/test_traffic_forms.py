"""GoReplay, HAR and extracts as sources; large files in parts; and requests that name what cannot be."""

import bz2
import gzip
import json
import lzma
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead.cli.options import Run
from playhead.cli.output import Output
from playhead.cli.traffic.extract import _written
from playhead.config.context import configure
from playhead.errors import BadValue, Refused, UsageError
from playhead.kafka.write.headers import HeaderRules
from playhead.kafka.write.routing import CopyRoute, TargetShape
from playhead.kafka.write.target_topics import TargetTopic
from playhead.record import Record, TimestampType
from playhead.records import Records
from playhead.replay.assemble import ends, refuse_idle_rules
from playhead.request import Request
from playhead.source import UNREAD
from playhead.testing import exercise_source, sample_records
from playhead.traffic import build_catalog
from playhead.traffic.formats import goreplay, http
from playhead.traffic.formats.goreplay import payloads
from playhead.traffic.formats.http import parse_request
from playhead.traffic.json_numbers import UnknownShape
from playhead.traffic.snapshot import LONGEST, NoSnapshot
from playhead.traffic.source import TrafficSource
from playhead.traffic.system import SYSTEM
from tests.capturing import DATA, SNAPSHOT, everything, fetch, save

END = "\n🐵🙈🙉\n".encode()
CASES = ("null key", "empty key", "null value", "empty value", "repeated header", "null header")


def request(body: bytes, *, head: str = "POST /a HTTP/1.1", length: bool = True) -> bytes:
    fields = f"Content-Length: {len(body)}\r\n" if length else ""
    return f"{head}\r\n{fields}Content-Type: text/plain\r\n\r\n".encode() + body


def gor(path: Path, *entries: tuple[int, int, bytes]) -> TrafficSource:
    """Kind, time in ms, payload."""
    parts = [
        b"%d 0a%d %d 0\n%b%b" % (kind, n, ms * 10**6, raw, END)
        for n, (kind, ms, raw) in enumerate(entries)
    ]
    path.write_bytes(b"".join(parts))
    return TrafficSource("gor", str(path))


def records(topic: str, *bodies: tuple[int, int, bytes], kind: str = "text/plain") -> list[Record]:
    headers = (("http.method", b"POST"), ("http.url", b"/a"), ("content-type", kind.encode()))
    create = TimestampType.CREATE_TIME
    return [
        Record(topic, 0, number, ms, create, None, body, headers) for number, ms, body in bodies
    ]


def told(source: TrafficSource, code: str = UNREAD) -> list[str]:
    return [note.text for note in source.facts().notes if note.code == code]


# --- GoReplay


def test_gor_contract(tmp_path: Path) -> None:
    entries = [
        (1, 1_000, request(b"one")),
        (2, 1_001, b"HTTP/1.1 200 OK\r\n\r\n"),
        (1, 900, request(b"")),
    ]
    entries += [(1, 1_002, request(b"\x00\n\xff")), (3, 1_003, b"x"), (1, 1_002, request(b"four"))]
    source = gor(tmp_path / "shop.gor", *entries)
    wanted = records("shop", (0, 1_000, b"one"), (2, 1_002, b"\x00\n\xff"), (3, 1_002, b"four"))
    exercise_source(lambda: source, wanted, lacks=CASES)
    assert "1 requests without a body, 2 responses" in told(source, "captured")[0]
    packed = tmp_path / "shop.gor.gz"
    packed.write_bytes(gzip.compress((tmp_path / "shop.gor").read_bytes()))
    assert everything(TrafficSource("gor", str(packed))) == wanted


@pytest.mark.parametrize(("packs", "name"), [(bz2.compress, "bzip2"), (lzma.compress, "xz")])
@pytest.mark.parametrize("form", ["gor", "har", "rrpair", "extract"])
def test_a_file_that_is_compressed_otherwise_is_not_taken_for_an_empty_one(
    tmp_path: Path, form: str, packs: Callable[[bytes], bytes], name: str
) -> None:
    file = tmp_path / "shop.jsonl"
    file.write_bytes(packs(b"1 1 1\nGET / HTTP/1.1\r\n\r\n\n"))
    with pytest.raises(NoSnapshot, match=f"it is compressed with {name}"):
        everything(TrafficSource(form, str(file)))


def test_the_sample_of_gor() -> None:
    (only,) = everything(TrafficSource("gor", str(DATA / "requests.gor")))
    assert (only.timestamp_ms, only.value) == (1_772_445_600_012, b'{"sku":"A-7","qty":2}')


def test_a_last_request_without_a_separator_counts_if_it_is_whole(tmp_path: Path) -> None:
    source = gor(tmp_path / "x.gor", (1, 1, request(b"whole")), (1, 2, request(b"more")))
    file = tmp_path / "x.gor"
    file.write_bytes(file.read_bytes().removesuffix(END))
    assert [each.value for each in everything(source)] == [b"whole", b"more"]
    file.write_bytes(file.read_bytes()[:-1])
    assert [each.value for each in everything(source)] == [b"whole"]
    assert "is incomplete" in told(source)[0]


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n",
            b"abcde",
        ),
        (b"POST / HTTP/1.1\nContent-Length: 2\n\nab", b"ab"),
        (b"PUT / HTTP/1.0\r\n\r\nuntil the end", b"until the end"),
        (b"GET / HTTP/1.1\r\n\r\n", None),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc\r\n", "is incomplete"),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "content length"),
        (b"anything", "not an HTTP request"),
    ],
)
def test_requests(tmp_path: Path, raw: bytes, body: object) -> None:
    source = gor(tmp_path / "x.gor", (1, 1, raw))
    found = [each.value for each in everything(source)]
    assert found == ([body] if isinstance(body, bytes) else [])
    assert bool(told(source)) == isinstance(body, str)
    assert not isinstance(body, str) or body in told(source)[0]


def test_a_body_of_too_many_parts_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_PARTS", 4)
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    bodies = [head + b"1\r\nx\r\n" * count + b"0\r\n\r\n" for count in (3, 4)]
    source = gor(tmp_path / "x.gor", (1, 1, bodies[0]), (1, 2, bodies[1]))
    assert [each.value for each in everything(source)] == [b"xxx"]
    assert "the body of the request has 4 parts or more" in told(source)[0]


@given(raw=st.binary(max_size=300), cut=st.integers(0, 200))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
def test_no_file_makes_gor_stumble(tmp_path: Path, raw: bytes, cut: int) -> None:
    file = tmp_path / "x.gor"
    gor(file, (1, 5, request(b"first")), (1, 6, raw), (1, 7, request(b"last")))
    file.write_bytes(file.read_bytes()[cut:] + raw)
    source = TrafficSource("gor", str(file))
    assert len(everything(source)) == source._index().catalog.counts.get("records", 0)


# --- HAR


def har(path: Path, *entries: object) -> TrafficSource:
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return TrafficSource("har", str(path))


def entry(at: str, **posted: object) -> dict[str, object]:
    asked = {"method": "POST", "url": "/a"} | ({"postData": posted} if posted else {})
    return {"startedDateTime": at, "request": asked}


def test_har_contract(tmp_path: Path) -> None:
    source = har(
        tmp_path / "a b.har",
        entry("1970-01-01T00:00:01.500Z", mimeType="text/plain", text="one"),
        entry("1970-01-01T00:00:02Z"),
        entry(
            "1970-01-01T01:00:01+01:00",
            mimeType="text/plain",
            text="/w==",
            encoding="base64",
        ),
        entry(
            "1970-01-01T00:00:03Z", mimeType="text/plain", params=[{"name": "a b", "value": "&"}]
        ),
        entry("yesterday", text="x"),
        7,
    )
    wanted = records("a-b", (0, 1_500, b"one"), (2, 1_000, b"\xff"), (3, 3_000, b"a+b=%26"))
    exercise_source(lambda: source, wanted, lacks=CASES)
    assert [each.partition("har:1: ")[2] for each in told(source)] == [
        "entry 4: 'yesterday' is not a time",
        "entry 5: it has no request",
    ]


@pytest.mark.parametrize("kind", ["har", "gor"])
def test_a_packed_file_that_would_fill_the_memory_is_refused(tmp_path: Path, kind: str) -> None:
    """A thousandth of what comes out of it lies on the disk."""
    file = tmp_path / f"bomb.{kind}.gz"
    head = b'{"log": "' if kind == "har" else b"1 abc 1000 0\n"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(head)
        for _ in range((LONGEST >> 20) + 1):
            packed.write(b"x" * (1 << 20))
    with pytest.raises(NoSnapshot, match="more than 256 MB"):
        TrafficSource(kind, str(file)).bounds()


def test_a_document_of_many_small_values_is_refused(tmp_path: Path) -> None:
    """Each takes many times the memory of its bytes; 240 MB took 6 GB."""
    file = tmp_path / "bomb.har.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b'{"log": {"entries": [')
        for _ in range(17):
            packed.write(b"[]," * (1 << 20))
        packed.write(b"[]]}}")
    with pytest.raises(NoSnapshot, match="more than 4,194,304 values"):
        TrafficSource("har", str(file)).bounds()


SHORT = 1 << 15


@pytest.mark.parametrize(
    ("fields", "body", "size"),
    [
        (b"Transfer-Encoding: chunked\r\n", b"2\r\nxy\r\n" * SHORT + b"0\r\n\r\n", 2 * SHORT),
        (b"a:\n" * SHORT, b"x", 1),
        (b"a" * SHORT + b"\r\n", b"\n" * SHORT, SHORT),
    ],
    ids=["chunks", "fields", "lines"],
)
def test_many_short_lines_take_little_more_memory_than_their_bytes(
    fields: bytes, body: bytes, size: int
) -> None:
    raw = b"POST /a HTTP/1.1\r\n" + fields + b"\r\n" + body
    file = BytesIO(b"1 0a1 1 0\n" + raw + END)
    tracemalloc.start()
    try:
        [entry] = payloads(file)
        found = parse_request(entry.raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.body is not None
    assert len(found.body) == size
    assert peak < 7 * len(raw)


def test_an_entry_of_newlines_takes_no_time_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goreplay, "LONGEST", 32 << 20)
    began = time.process_time()
    with pytest.raises(UnknownShape, match="an entry of more than 32 MB"):
        list(payloads(BytesIO(b"\n" * (40 << 20))))
    assert time.process_time() - began < 3


def test_half_a_character_in_a_form_is_a_record(tmp_path: Path) -> None:
    post = {"params": [{"name": "\ud800", "value": "a\udfff"}]}
    request = {"method": "POST", "url": "http://x/", "postData": post}
    source = har(
        tmp_path / "x.har", {"startedDateTime": "2021-01-01T00:00:00Z", "request": request}
    )
    assert source.bounds()["x", 0].stable_end == 1


def test_what_is_no_har_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.har").write_text("{}")
    with pytest.raises(NoSnapshot, match="it cannot be read as a HAR"):
        TrafficSource("har", str(tmp_path / "x.har")).bounds()


def test_a_har_that_is_nested_too_deeply_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "deep.har"
    file.write_bytes(b'{"log":{"entries":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}")
    with pytest.raises(NoSnapshot, match="as a HAR: the JSON is nested too deeply"):
        TrafficSource("har", str(file)).bounds()


# --- extracts


def test_the_documented_extract_is_a_source() -> None:
    source = TrafficSource("extract", str(DATA / "extract_fetch_expected.csv"))
    (only,) = everything(source)
    assert (only.topic, only.offset, only.key) == ("extract_fetch_expected", 0, None)
    assert only.value == b'{"id":1001,"sku":"A-7"}'
    assert only.timestamp_ms == 1_772_445_600_205


def test_extract_contract(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_bytes(
        b"\xef\xbb\xbf.keyString,a.b,.ts,RRPair UUID\n"
        b'k,"one\nline, ""two""",1970-01-01T00:00:01Z,u\n'
        b"k,bad time,soon,u\n"
        b",\xff\xfe,1970-01-01T00:00:03Z,u|v\n"
        b"k,,1970-01-01T00:00:02Z,u\n"
    )
    kind = TimestampType.CREATE_TIME
    rows = [
        (0, 1_000, b"k", b'one\nline, "two"'),
        (2, 3_000, b"", b"\xff\xfe"),
        (3, 2_000, b"k", b""),
    ]
    wanted = [Record("out", 0, n, ms, kind, key, value) for n, ms, key, value in rows]
    source = TrafficSource("extract", str(file))
    exercise_source(lambda: source, wanted, lacks=[*CASES])
    assert "out.csv:4: the time 'soon'" in told(source)[0]


def test_a_column_that_is_not_used_is_named_and_one_without_a_time_has_none(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("a,b,RRPair UUID\n1,2,u\n1\n")
    source = TrafficSource("extract", str(file))
    (only,) = everything(source)
    assert (only.value, only.timestamp_ms, only.timestamp_type) == (b"1", -1, TimestampType.NONE)
    assert "column 'b' is not used" in told(source)[0]
    assert "1 cells; the header has 3" in told(source)[1]
    file.write_text("uuid,ts\n")
    with pytest.raises(NoSnapshot, match="no column of values|no column contains values"):
        source.bounds()


def test_rows_without_a_time_get_that_of_the_plan_which_says_so(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("a,RRPair UUID\n0,u\nhalf\n2,v\n")
    kind = TimestampType.CREATE_TIME
    wanted = [Record("out", 0, n, 5_000, kind, None, b"%d" % n) for n in (0, 2)]
    source = TrafficSource("extract", str(file), untimed_ms=5_000)
    exercise_source(lambda: source, wanted, lacks=[*CASES])
    [note] = [note for note in source.facts().notes if note.code == "untimed"]
    assert "1970-01-01T00:00:05.000Z" in note.text
    later = TrafficSource("extract", str(file), untimed_ms=9_000)
    assert everything(later.pinned(source.facts())) == wanted, "a plan that goes on keeps its time"
    older = replace(source.facts().topics["out"], untimed_ms=None)
    pinned = later.pinned(replace(source.facts(), topics={"out": older}))
    assert [each.timestamp_ms for each in everything(pinned)] == [-1, -1], "of an earlier version"
    file.write_text("a,ts\n1,1970-01-01T00:00:03Z\n")
    timed = TrafficSource("extract", str(file), untimed_ms=5_000)
    assert [each.timestamp_ms for each in everything(timed)] == [3_000]
    assert "untimed" not in [note.code for note in timed.facts().notes]


def test_a_replay_of_an_extract_gives_its_records_the_time_of_now(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("a\n1\n")
    spec = Request(source=f"extract:{file}", target="kafka:copy").spec
    before_ms = time.time_ns() // 1_000_000
    [only] = everything(SYSTEM.source(spec.source, spec, configure({})))
    assert before_ms <= only.timestamp_ms <= time.time_ns() // 1_000_000


def test_all_records_come_back_from_their_own_csv(tmp_path: Path) -> None:
    samples = sample_records()
    raw = save(
        tmp_path / "raw.jsonl", [fetch(("contract", 0, samples[:5]), ("contract", 1, samples[5:]))]
    )
    run = Run(Output(form="csv"), {})
    text = "\n".join(text for text, _ in _written(run, TrafficSource("rrpair", str(raw))))
    file = tmp_path / "all.csv"
    file.write_text(text + "\n", newline="")
    exercise_source(lambda: TrafficSource("extract", str(file)), samples)


# --- large files


def test_a_large_file_is_gone_through_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = SNAPSHOT.read_text().splitlines()
    pretty = json.dumps(json.loads(lines[0]), indent=1)
    file = tmp_path / "raw.jsonl"
    file.write_text("\n".join([*lines, pretty, "{broken", *lines[:2], "", "broken too", lines[5]]))
    whole = TrafficSource("rrpair", str(file), "(command NOT Metadata)")
    needed, facts = everything(whole), whole.facts()
    monkeypatch.setattr(build_catalog, "_PART_BYTES", 5_000)
    build_catalog._remembered.clear()
    monkeypatch.setattr(build_catalog, "_kept", lambda key: None)
    again = TrafficSource("rrpair", str(file), "(command NOT Metadata)")
    assert len([*build_catalog._parts(find(file))]) > 2
    assert everything(again) == needed
    assert again.facts() == facts


def find(file: Path) -> build_catalog.Snapshot:
    return build_catalog.Snapshot("x", (file,))


# --- requests


def make(source: str, target: str = "kafka:copies", **more: object) -> Request:
    return Request(source=source, target=target, **more)


def test_a_topic_that_is_mapped_goes_elsewhere() -> None:
    asked = make("rrpair:x", "kafka:all-{topic}", topic_map=("a=b", "c=c-test"))
    assert [asked.spec.target_topic(name) for name in "abc"] == ["b", "all-b", "c-test"]
    target = ends(asked, configure({"bootstrap_servers": "127.0.0.1:1"})).target
    assert [target.topic_for(name) for name in "abc"] == ["b", "all-b", "c-test"]  # type: ignore[attr-defined]
    for wrong in (("a",), ("a=",), ("=b",), ("a=b", "a=c"), ("a=b c",)):
        with pytest.raises(BadValue, match="--topic-map"):
            make("rrpair:x", topic_map=wrong).spec.target_topic("a")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (make("kafka:t", filter="(command IS Fetch)"), "--filter applies to captured traffic"),
        (make("parquet:x", times="pair"), "--times applies to captured traffic"),
        (
            make("rrpair:x", "postgres:t", topic_map=("a=b",)),
            "--topic-map applies to a Kafka target",
        ),
        (make("kafka:t", "rrpair:x"), "rrpair cannot be a target"),
        (make("rrpair:x", filter="(command"), "--filter cannot be understood"),
        (make("har:x", filter="(command IS x)"), "needs RRPairs"),
    ],
)
def test_what_would_mean_nothing_is_refused(request_: Request, says: str) -> None:
    with pytest.raises((UsageError, Refused), match=says):
        ends(request_, configure({"bootstrap_servers": "127.0.0.1:1"}))


@pytest.mark.parametrize(
    ("target", "rule", "says"),
    [
        ("csv:x", {"key": ("a",)}, "--key is a rule for tables; csv:x is not a table"),
        ("kafka:x", {"on_conflict": "newer"}, "--on-conflict is a rule for tables"),
        ("postgres:x", {"partition": "keep"}, "--partition is a rule for topics"),
        ("postgres:x", {"headers": ("foo",)}, "--headers is a rule for topics"),
    ],
)
def test_a_rule_of_another_kind_of_target_is_refused(
    target: str, rule: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        refuse_idle_rules(make("kafka:t", target, **rule).spec)
    refuse_idle_rules(make("kafka:t", target).spec)


def test_in_turn_to_all_partitions_the_same_when_read_again():
    topic = TargetTopic("t", 3)
    route = CopyRoute(topic, False, TargetShape(HeaderRules.parse(()), False, "r"), is_any=True)
    held = Records.of(records("x", *((n, 1, b"%d" % n) for n in range(7))))
    whole = {each.partition: each.offsets for each in route.ways(held)}
    assert whole == {0: [0, 3, 6], 1: [1, 4], 2: [2, 5]}
    parts = [way for part in (held.cut(0, 2), held.cut(2, 7)) for way in route.ways(part)]
    assert sorted((p.partition, o) for p in parts for o in p.offsets) == sorted(
        (p, o) for p, offsets in whole.items() for o in offsets
    )
