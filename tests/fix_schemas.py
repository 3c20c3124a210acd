"""Schemas of a car with all that a field can be, in Avro and in Protobuf."""

import json
from typing import Any

import fastavro
from google.protobuf import any_pb2, descriptor_pool, timestamp_pb2, wrappers_pb2

from playhead.schemas.proto_compiler import compile_proto

LOGICAL = {
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 9},
    "fixed": {
        "type": "fixed", "name": "Money", "size": 9, "logicalType": "decimal",
        "precision": 20, "scale": 2,
    },
    "at_ms": {"type": "long", "logicalType": "timestamp-millis"},
    "at_us": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "clock": {"type": "long", "logicalType": "time-micros"},
    "id": {"type": "string", "logicalType": "uuid"},
}  # fmt: skip
CAR = {
    "type": "record",
    "name": "Car",
    "namespace": "race",
    "fields": [
        *({"name": name, "type": type_} for name, type_ in LOGICAL.items()),
        {"name": "again", "type": ["null", "race.Money"]},
        {"name": "seq", "type": "long"},
        {"name": "speed", "type": "double"},
        {"name": "small", "type": "float"},
        {"name": "is_on", "type": "boolean"},
        {"name": "name", "type": "string"},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "either", "type": ["null", "long", "string"]},
        {"name": "laps", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "double"]}},
        {
            "name": "place",
            "type": {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "toll", "type": LOGICAL["price"]}],
            },
        },
    ],
}  # fmt: skip
AVRO = fastavro.parse_schema(json.loads(json.dumps(CAR)))

PROTO = """
syntax = "proto3";
package race;
import "google/protobuf/any.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Car {
  int64 i64 = 1; uint64 u64 = 2; sint64 s64 = 3; fixed64 f64 = 4; sfixed64 sf64 = 5;
  int32 i32 = 6; uint32 u32 = 7; double d = 8; float f = 9; bool b = 10; string s = 11; bytes raw = 12;
  enum Kind { UNKNOWN = 0; RACE = 1; }
  Kind kind = 13;
  optional int64 laps = 14;
  repeated int64 times = 15;
  map<string, uint64> counts = 16;
  map<bool, string> said = 17;
  message Leg { int64 gear = 1; }
  Leg leg = 18;
  repeated Leg legs = 19;
  oneof which { string text = 20; int64 number = 21; }
  google.protobuf.Timestamp at = 22;
  google.protobuf.Int64Value wrapped = 23;
  google.protobuf.Any any = 24;
}
"""


def proto_type() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in (any_pb2, timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = compile_proto(PROTO)
    file.name = "car.proto"
    pool.Add(file)
    return pool.FindMessageTypeByName("race.Car")


CAR_TYPE = proto_type()
