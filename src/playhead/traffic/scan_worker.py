"""Scans a part of a capture in its own process: reads JSON from stdin, and writes a catalog to stdout."""

import json
import sys
from pathlib import Path

from playhead.host.collector import seldom_collecting
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.formats.rrpair import Part, scan
from playhead.traffic.snapshot import Snapshot


def main() -> None:
    asked = json.load(sys.stdin)
    snapshot = Snapshot(asked["id"], tuple(map(Path, asked["files"])))
    filter_ = (
        TrafficFilter.parse(asked["filter"], snapshot=snapshot.id)
        if asked["filter"] is not None
        else None
    )
    with seldom_collecting():
        found = scan(snapshot, Part(*asked["part"]), filter_)
    found.write(sys.stdout.buffer)


if __name__ == "__main__":
    main()
