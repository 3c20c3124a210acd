"""The parsers: what each is given, good inputs to begin with, and the errors that are ours.

An error is ours when the code that calls the parser turns it into a refusal with a place and a hint.
"""

import base64
import gzip
import json
import random
import struct
import tempfile
import tomllib
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from playhead import endpoint, ledger, unpacking
from playhead.account import Account
from playhead.capture import (
    address_rewrite,
    api_versions,
    decode_records,
    frames,
    redaction,
)
from playhead.capture.address import parse_host, parse_place
from playhead.capture.pair_document import Captured, Connection, Describer
from playhead.cli.records import jsonl
from playhead.config import kafka_properties, layers
from playhead.errors import PlayheadError
from playhead.files.formats.csv_format import CsvCodec
from playhead.files.formats.jsonl import JsonCodec
from playhead.files.formats.parquet import ParquetCodec
from playhead.grammar import instant
from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.grammar.duration import parse_duration_ms
from playhead.grammar.size import parse_size_bytes
from playhead.host import networks
from playhead.ingest.record_shape import RecordShape
from playhead.ingest.udp_address import Address
from playhead.kafka.admin import log_dirs, open_transactions
from playhead.kafka.admin.answer_fields import BadAnswer, Fields
from playhead.kafka.admin.scram import NotScram, Scram
from playhead.kafka.groups import commit, consumer_offsets_topic, offsets_csv
from playhead.kafka.produce.console_lines import LineReader
from playhead.kafka.read import log_heads, record_decoder
from playhead.kafka.write import dead_letter_headers, row_shipping, written_dead_letters
from playhead.kafka.write.headers import HeaderRules
from playhead.pace import Pace
from playhead.plan import Plan
from playhead.querylog.cutting import cutter_of, form_of, rows_of
from playhead.querylog.rows import NotARow
from playhead.querylog.shapes import read_row
from playhead.querylog.statements import StatementReader
from playhead.querylog.stderr_prefix import DEFAULT_PREFIX
from playhead.record import Headers, Record, Slice, TimestampType
from playhead.records import Records
from playhead.schemas import registry
from playhead.schemas.avro import AvroReader
from playhead.schemas.decoder import decoder
from playhead.schemas.protobuf import ProtobufReader
from playhead.schemas.registry import Registry, Schema
from playhead.schemas.schema_id import SchemaId
from playhead.span import Span
from playhead.standby.trigger_file import read_words, span_of
from playhead.traffic.build_catalog import Part
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.formats import goreplay, har, rrpair
from playhead.traffic.formats.http import parse_request
from playhead.traffic.json_numbers import UnknownShape
from playhead.traffic.pair_path import Path as TrafficPath
from playhead.traffic.snapshot import find_file, find_snapshot
from playhead.transform import tokens
from playhead.unpacking import Malformed
from tests import kafka_bytes, poison
from tests.sandbox import kafka_log

_QUERYLOG = Path(__file__).parent.parent / "data" / "querylog"
_TRAFFIC = Path(__file__).parents[1] / "data" / "traffic"
_CAR = {
    "type": "record",
    "name": "Car",
    "fields": [
        {"name": "car", "type": "string"},
        {"name": "laps", "type": {"type": "array", "items": ["null", "Car", "long"]}},
        {
            "name": "fuel",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "map", "values": "double"}},
    ],
}
_PROTO = """syntax = "proto3"; package race; import "google/protobuf/timestamp.proto";
message Car { string car = 1; repeated Car next = 2; map<string, int64> laps = 3; oneof o { bytes b = 4; }
enum E { A = 0; } google.protobuf.Timestamp at = 5; E e = 6; double d = 7; }"""


@dataclass(frozen=True)
class Parser:
    """`take` is given bytes; whatever it raises is to be one of `ours`."""

    take: Callable[[bytes], object]
    good: list[bytes]
    ours: tuple[type[BaseException], ...] = (PlayheadError,)


def _text(take: Callable[[str], object]) -> Callable[[bytes], object]:
    """As a word of a command line comes: bytes that are no text are halves of characters."""
    return lambda data: take(data.decode("utf-8", "surrogateescape"))


def _as_file(take: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    def with_file(data: bytes) -> object:
        with tempfile.TemporaryDirectory(prefix="playhead-fuzz-") as folder:
            file = Path(folder) / name
            file.write_bytes(data)
            return take(file)

    return with_file


def _poison(kind: str) -> list[bytes]:
    return [file.content for file in poison.files() if file.kind == kind]


def _values() -> list[bytes]:
    return [record.value for record in poison.records() if record.value is not None]


def _words() -> list[bytes]:
    return [name.text.encode("utf-8", "surrogatepass") for name in poison.names()]


def _pair(data: bytes) -> None:
    """A request and its response, joined; each API and version that is known can come out."""
    size = int.from_bytes(data[:4], "big") + 4
    describer = Describer()
    describer.connections[1] = Connection(1, "b:1", 1, 1, "c", 1, "b", 1)
    found = Captured(1, 1, 1, data[:size], data[size:], size, len(data) - size, True)
    json.dumps(describer.describe(found).document)


def _pairs() -> list[bytes]:
    drawn, found = random.Random(7), []
    for api, version in list(kafka_bytes.every_version())[::5]:
        sides = []
        for side, frame in (
            ("request", kafka_bytes.request_frame), ("response", kafka_bytes.response_frame),
        ):  # fmt: skip
            fields = kafka_bytes.shape_of(api, side, version).fields
            sides.append(frame(api, version, kafka_bytes.made_up(fields, drawn)))
        found.append(b"".join(sides))
    return found


def _rewritten(data: bytes) -> None:
    """An answer whose API and version come first; addresses that stay the same stay where they are."""
    api, version = struct.unpack_from(">hh", data.ljust(4, b"\0"))
    if (api, version) not in _WITH_ADDRESSES:
        return
    frame = data[4:]
    address_rewrite.rewritten(
        api, version, frame, lambda host, port: (f"front.{host}", port % 7 + 1)
    )
    # The lengths of a rewritten one are in their shortest form, unlike those of one that was made up.
    once = address_rewrite.rewritten(api, version, frame, lambda *place: place)
    assert address_rewrite.rewritten(api, version, once, lambda *place: place) == once


def _with_addresses() -> list[bytes]:
    drawn, found = random.Random(7), []
    for api, version in sorted(_WITH_ADDRESSES):
        fields = kafka_bytes.shape_of(api, "response", version).fields
        frame = kafka_bytes.response_frame(api, version, kafka_bytes.made_up(fields, drawn))
        found.append(struct.pack(">hh", api, version) + frame)
    return found


def _restricted(data: bytes) -> None:
    for version in (0, 3):
        once: bytes | None = None
        with suppress(Malformed):
            once = api_versions.restricted(version, data)
        if once is not None:
            assert api_versions.restricted(version, once) == once


def _version_lists() -> list[bytes]:
    entries = [struct.pack(">hhh", api, 0, 99) for api in (0, 1, 3, 17, 18, 999)]
    flexible = b"\0\0" + bytes([len(entries) + 1]) + b"".join(each + b"\0" for each in entries)
    plain = struct.pack(">hi", 0, len(entries)) + b"".join(entries)
    return [frames.framed(bytes(4) + each + bytes(5)) for each in (flexible, plain)]


def _parquet_files() -> list[bytes]:
    headers: list[Headers] = [(("h", b"1"), ("h", None)), ()]
    records = Records("t", 0, [0, 1], [5, -1], [0, -1], [b"k", None], [b"a" * 300, None], headers)
    account = Account(Slice("t", 0, 0, 5))
    codec = ParquetCodec()
    pieces = codec.encode([codec.group(account, records)])
    return [b"".join(pieces)]


def _letter(data: bytes) -> None:
    """The headers of a dead letter, a line each."""
    headers = tuple(
        (name.decode("utf-8", "replace"), value)
        for name, _, value in (line.partition(b"=") for line in data.split(b"\n"))
    )
    letter = Record("letters", 0, 1, 1, TimestampType.CREATE_TIME, b"k", b"v", headers)
    found = dead_letter_headers.origin_of(letter)
    if found is not None and found.timestamp_ms is not None:
        struct.pack(">q", found.timestamp_ms)
    dead_letter_headers.record_of_letter(letter, "r")


def _buried(data: bytes) -> None:
    for text in (data.decode("latin-1"), base64.b64encode(zlib.compress(data)).decode()):
        with suppress(ValueError):
            runs = written_dead_letters.unpacked(text)
            assert all(one.stop <= other.start for one, other in pairwise(runs))


def _rrpairs(file: Path) -> None:
    snapshot = find_snapshot(str(file))
    catalog = rrpair.scan(snapshot, Part(0, 0, None), None)
    data = file.read_bytes()
    for place in catalog.rows:
        for row in catalog.rows_of(place):
            rrpair.read_row(data[row.start : row.start + row.length], row, catalog)


def _gor(file: Path) -> None:
    goreplay.scan(find_file(str(file)))
    goreplay.read_row(file.read_bytes(), None, None)  # type: ignore[arg-type]


def _log_rows(data: bytes) -> None:
    """A whole log, from bytes to statements; every row has an outcome."""
    reader, count = StatementReader(), 0
    for row in rows_of(iter([data]), cutter_of(form_of(data), DEFAULT_PREFIX)):
        count += 1
        try:
            reader.read(read_row(row))
        except NotARow as exc:
            reader.not_a_row(str(exc))
    reader.end()
    assert reader.counts.total == count


def _har(file: Path) -> None:
    catalog = har.scan(find_file(str(file)))
    if catalog.counts.get("records"):
        har.read_row(file.read_bytes(), None, None)  # type: ignore[arg-type]


def _codec(data: bytes) -> None:
    for codec in range(6):
        records_ = None
        try:
            records_ = unpacking.unpacked(codec, data, 1 << 20)
        except (Malformed, unpacking.CodecMissing):
            continue
        assert codec == 0 or len(records_) <= 1 << 20, f"codec {codec} gave {len(records_)} bytes"


def _broker_answer(data: bytes) -> None:
    """An answer of a broker, as every request that we send ourselves reads it."""
    for read in (
        lambda fields: [*log_dirs.read_answer(fields, 1)],
        lambda fields: [*open_transactions.read_answer(fields)],
        commit.read_answer,
        log_heads.read_answer,
    ):
        with suppress(PlayheadError):
            read(Fields(data))
    for is_key in (True, False):
        found = consumer_offsets_topic.GroupLog()
        with suppress(BadAnswer):
            key, value = (data, None) if is_key else (b"\0\2\0\4team", data)
            consumer_offsets_topic._take(found, "team", key, value, 1)
    with suppress(BadAnswer):
        list(log_heads.heads_in(data))


def _record_batch(data: bytes) -> None:
    """What `verify` decodes itself: runs whose offsets ascend, and then perhaps an error of ours."""
    last = -1
    with suppress(PlayheadError, record_decoder.NotDecodedHere):
        for head in log_heads.heads_in(data, keeps_records=True):
            for found in record_decoder.records_in(("laps", 0), head.whole):
                run = found if isinstance(found, Records) else found.marked()
                assert last < run.offsets[0]
                assert run.offsets == sorted(set(run.offsets))
                columns = (
                    run.timestamps_ms,
                    run.timestamp_types,
                    run.keys,
                    run.values,
                    run.headers,
                )
                assert {*map(len, columns)} == {len(run)}
                last = run.offsets[-1]


def _record_batches() -> list[bytes]:
    rows = [
        (
            1_000 - 300 * n,
            None if n % 3 else b"key",
            bytes(n),
            ((b"name", b"v"), (b"", None))[: n % 3],
        )
        for n in range(90)
    ]
    return [kafka_log.batch(rows, range(90), each) for each in (None, kafka_log.gzipped)]


def _broker_answers() -> list[bytes]:
    named = b"\0\0\0\1\0\4laps\0\0\0\1"
    return [
        bytes(4) + b"\0\0\0\1" + b"\0\0\0\2/d" + named + bytes(21),
        b"\0" + bytes(4) + b"\2\5laps\2" + bytes(6) + b"\1\2" + bytes(34) + b"\0\0\0",
        bytes(6) + named + bytes(6),
        bytes(10)
        + named
        + bytes(6)
        + bytes(24)
        + bytes(4)
        + b"\0\0\0\x48"
        + kafka_bytes.set_of(b""),
        b"\0\4\x09consumer\0\0\0\1\6range\2m"
        + bytes(8)
        + b"\2\2m\2i\2c\2h"
        + bytes(8)
        + b"\2s\2a\0",
        b"\0\1\0\4team\0\4laps\0\0\0\3",
        kafka_bytes.set_of(b"a", b"b") + kafka_bytes.set_of(b"c"),
    ]


def _challenge(data: bytes) -> None:
    login = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    login.first()
    login.last(data)
    login.confirm(data)


def _span(text: str) -> None:
    found = Span.parse(text)
    assert Span.parse(str(found)) == found


def _record_line(data: bytes) -> None:
    document = jsonl.read_document(data, 1)
    jsonl.body(document, "key", 1)
    jsonl.body(document, "value", 1)
    jsonl.headers(document, 1)
    jsonl.timestamp_ms(document, 1)
    jsonl.partition(document, 1)


def _dropped(file: Path) -> None:
    span_of(read_words(file, file.name), timezone="UTC")


def _shape(data: bytes) -> None:
    RecordShape.parse("$.a[0].b", "$.ts", "UTC").of(data, 1)


def _avro(data: bytes) -> Any:
    reader = AvroReader.of(None, Schema("AVRO", json.dumps(_CAR)))  # type: ignore[arg-type]
    return reader.read(data)


def _avro_schema(text: str) -> Any:
    return AvroReader.of(None, Schema("AVRO", text)).kinds()  # type: ignore[arg-type]


def _protobuf(data: bytes) -> Any:
    reader = ProtobufReader.of(None, Schema("PROTOBUF", _PROTO))  # type: ignore[arg-type]
    reader.exact((0,), data)
    return reader.read((0,), data)


def _proto_text(text: str) -> Any:
    return ProtobufReader.of(None, Schema("PROTOBUF", text))  # type: ignore[arg-type]


def _decoded(data: bytes) -> None:
    for word in ("json", "string", "long", "double", "uuid", "int"):
        try:
            decoder(word).decode(data, (), is_key=False)
        except PlayheadError:
            continue


def _rows(codec: JsonCodec | CsvCodec | ParquetCodec) -> Callable[[bytes], object]:
    return lambda data: [list(rows) for rows in codec.decode(data, Slice("t", 0, 0, 5))]


_SPANS = b"start..end|last 2h|2021-08-04T12:30..13:30|now-2h..now|laps:0:5-9|1628080200000..PT2H|2021-08-04"
_CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
_ROW = (
    b'{"topic":"t","partition":0,"offset":1,"timestamp_ms":1,"timestamp":"x","timestamp_type":"create",'
    b'"key":"k","value":{"base64":"AA=="},"headers":[["h",null]]}\n'
)
_HAR = (
    b'{"log":{"entries":[{"startedDateTime":"2021-08-04T12:00:00Z","request":{"method":"POST",'
    b'"url":"http://h/","headers":[],"postData":{"text":"x"}}}]}}'
)


def _registry_answer(data: bytes) -> None:
    with patch.object(registry, "_body_within", return_value=data):
        Registry("http://127.0.0.1:1").schema(SchemaId(1))


_WITH_ADDRESSES = {
    (api, version)
    for api, version in kafka_bytes.every_version()
    if address_rewrite.has_addresses(api, version)
}
_LETTER = (
    b"__playhead.errors.topic=laps\n__playhead.errors.partition=1\n__playhead.errors.timestamp=1628080200000\n"
    b"__playhead.errors.offset=5\n__playhead.errors.replay=r\n__playhead.errors.count=2"
)
_SCHEMA_ERRORS = (PlayheadError, ValueError, RecursionError)
_ARCHIVE_ERRORS = (
    PlayheadError,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    OSError,
    RecursionError,
)

PARSERS = {
    "address-rewrite": Parser(_rewritten, _with_addresses(), (Malformed,)),
    "api-versions": Parser(_restricted, _version_lists()),
    "archive-csv": Parser(_rows(CsvCodec()), [*_poison("archive"), b"topic,partition\r\nt,0\r\n"], _ARCHIVE_ERRORS),
    "archive-json": Parser(_rows(JsonCodec()), [_ROW, *_poison("archive")], _ARCHIVE_ERRORS),
    "archive-parquet": Parser(_rows(ParquetCodec()), _parquet_files(), _ARCHIVE_ERRORS),
    "avro": Parser(_avro, [b"\x02a\x00\x02\x01\x00", b"\x06abc\x02\x04\x02\x00\x04ab\x00"], _SCHEMA_ERRORS),
    "avro-schema": Parser(_text(_avro_schema), [json.dumps(_CAR).encode(), *_poison("schema")], _SCHEMA_ERRORS),
    "record-batch": Parser(_record_batch, _record_batches(), (BadAnswer,)),
    "broker-answer": Parser(_broker_answer, _broker_answers(), (BadAnswer,)),
    "capture-codecs": Parser(_codec, [gzip.compress(b"x" * 99), zlib.compress(b"y"), b"\x05\x10hello"]),
    "capture-frames": Parser(
        lambda data: list(frames.Framer().take(data)), [frames.framed(b"abc") * 3], (frames.NotKafka,)
    ),
    "capture-pairs": Parser(_pair, _pairs(), (Malformed,)),
    "capture-records": Parser(
        lambda data: decode_records.record_sets(data, decode_records.Bounds()),
        [kafka_bytes.set_of(b"a", b"b"), kafka_bytes.set_of(b"x" * 400) * 3],
        (Malformed,),
    ),
    "config": Parser(
        lambda data: layers.parse_toml(data, Path("playhead.toml")),
        [b'bootstrap_servers = "b:9092"\n[context.x]\nread_only = true\n', *_poison("config")],
        (PlayheadError, tomllib.TOMLDecodeError),
    ),
    "decode": Parser(_decoded, _values()),
    "dead-letter": Parser(
        _letter,
        [_LETTER, _LETTER.replace(b"__playhead", b"__connect"), _LETTER.replace(b"__playhead", b"__dlq"),
         b"kafka_dlt-original-topic=t\nkafka_dlt-original-partition=\0\0\0\1"],
    ),
    "dead-letter-offsets": Parser(
        _buried, [written_dead_letters.packed(numbers).encode() for numbers in ([1, 2, 9], range(0, 999, 3))]
    ),
    "dropped": Parser(_as_file(_dropped, "laps.json"), [b'{"from": "now-2h", "to": "now"}', b'"last 2h"']),
    "duration": Parser(_text(parse_duration_ms), [b"2h30m", b"PT2H0M0S", b"500ms", *_words()]),
    "endpoint": Parser(
        _text(endpoint.Endpoint.parse),
        [b"kafka:laps", b"kafka://h:1/t", b"postgresql://u:p@h/d?table=s.t", b"s3://b/k", b"kafka:/a.*/", *_words()],
    ),
    "expression": Parser(
        _text(lambda text: tokens.tokens_of(text, "--where")),
        [b"speed > 3 and car like 'a%' or x:y.z[0]::int is null -- c", *_words()],
    ),
    "goreplay": Parser(_as_file(_gor, "x.gor"), [(_TRAFFIC / "requests.gor").read_bytes(), *_poison("traffic")]),
    "har": Parser(
        _as_file(_har, "x.har"),
        [
            _HAR,
            *_poison("traffic"),
        ],
    ),
    "header-rules": Parser(_text(lambda text: HeaderRules.parse([text])), [b"a=b", b"-x", b"provenance", *_words()]),
    "host": Parser(_text(lambda text: parse_host("--advertise", text)), [b"kafka.example", b"[::1]", *_words()]),
    "http": Parser(
        parse_request,
        [b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
         b"PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok"],
        (UnknownShape,),
    ),
    "ingest-shape": Parser(_shape, [b'{"a":[{"b":"k"}],"ts":"2021-08-04T12:00:00Z"}', *_values()]),
    "jaas": Parser(
        _text(lambda text: kafka_properties.parse_jaas(text, where="x")),
        [b'org.x.Scram required username="u" password="p\\"q";', *_words()],
    ),
    "ledger": Parser(lambda data: ledger.entry_at("x", data), [*_poison("journal"), b'{"slice":["t",0,0,5]}']),
    "lines": Parser(lambda data: LineReader(("timestamp", "partition", "headers", "key")).read(data, 1),
                    [b"1\t0\ta:b,c:d\tk\tv", *_values()]),
    "log-row": Parser(
        read_row,
        [row for file in sorted(_QUERYLOG.iterdir()) for row in file.read_bytes().splitlines()[3:40:9]],
        (NotARow,),
    ),
    "log-rows": Parser(
        _log_rows, [file.read_bytes()[:20_000] for file in sorted(_QUERYLOG.iterdir())], (NotARow,)
    ),
    "networks": Parser(_text(lambda text: networks.Networks.parse([text])), [b"10.0.0.0/8", b"::1", *_words()]),
    "offsets": Parser(
        _text(lambda text: offsets_csv.read(text, ["g"], where="x")),
        [b"laps,0,5\nlaps,1,9\n", b'g,laps,0,5\n', b'"a,b",0,1\n', *_poison("offsets")],
    ),
    "pace": Parser(_text(Pace.parse), [b"max", b"2x", b"5000/s", b"0.5x", *_words()]),
    "place": Parser(_text(lambda text: parse_place("--listen", text)), [b"h:9092", b"[::1]:1", *_words()]),
    "plan": Parser(_text(lambda text: Plan.from_json(text, where="x")), [b"{}", *_poison("plan")]),
    "properties": Parser(
        _text(lambda text: kafka_properties.parse_properties(text, where="x")),
        [b"a=b\n# c\nd : e\\\n  f\n", *_poison("properties")],
    ),
    "proto-text": Parser(_text(_proto_text), [_PROTO.encode(), base64.b64encode(b"\n\x01a"), *_poison("schema")],
                         _SCHEMA_ERRORS),
    "protobuf": Parser(_protobuf, [b"\n\x01a\x12\x03\n\x01b\x1a\x05\n\x01c\x10\x02", b"*\x02\x08\x01"], _SCHEMA_ERRORS),
    "record-line": Parser(
        _record_line, [_ROW, b'{"key":"k","value":"v","timestamp":"2021-08-04"}', *_poison("jsonl"), *_values()]
    ),
    "redaction": Parser(_text(redaction.parse_rule), [b"value:$.a.b", b"header:auth", *_words()]),
    "registry-answer": Parser(
        _registry_answer,
        [b'{"schema":"{}","references":[{"name":"a","subject":"b","version":1}]}',
         b'{"schemaType":"JSON","schema":"1"}'],
    ),
    "registry-error": Parser(
        registry.error_in, [b'{"error_code":40403,"message":"Schema not found"}'], (ValueError,)
    ),
    "rrpairs": Parser(
        _as_file(_rrpairs, "raw.jsonl"), [(_TRAFFIC / "rrpairs_raw.jsonl").read_bytes()[:60_000], *_poison("traffic")]
    ),
    "scram": Parser(_challenge, [_CHALLENGE, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"e=x"], (NotScram,)),
    "shipped": Parser(
        lambda data: row_shipping.Shipped.from_json("x", data),
        [row_shipping.Shipped(1, 2, "/log/a.csv", "t").as_json(), *_poison("journal")],
    ),
    "size": Parser(_text(parse_size_bytes), [b"64MB", b"1GiB", b"512", *_words()]),
    "span": Parser(_text(_span), [*_SPANS.split(b"|"), *_words()]),
    "time": Parser(
        _text(lambda text: instant.read_point(Cursor.of(text, "time"), "Europe/Berlin")),
        [b"2021-08-04T12:30:00.123456789+02:00", b"12:30", b"now-2h", b"1628080200000", *_words()],
        (PlayheadError, NotUnderstood),
    ),
    "traffic-filter": Parser(
        _text(TrafficFilter.parse),
        [b'(url CONTAINS "x" AND header["a"] IS "b") OR NOT (sample IS "1/5")',
         b'{"filters":{"conditions":[{"url":"x","operator":"CONTAINS"}]}}', *_words()],
    ),
    "traffic-path": Parser(_text(TrafficPath.parse), [b"a.b.0.c", b"a.#.c", b"a.*", *_words()]),
    "udp-address": Parser(_text(Address.parse), [b"udp://127.0.0.1:20777", b"udp://[::1]:1", *_words()]),
}  # fmt: skip
