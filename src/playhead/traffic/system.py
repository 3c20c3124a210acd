"""Describes captured traffic as a system: its endpoints, and the source of each."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from playhead.config.context import Configuration
from playhead.endpoint import BadEndpoint, Endpoint
from playhead.host import paths
from playhead.request import ReplaySpec
from playhead.source import Source
from playhead.systems import MakesSource, System

if TYPE_CHECKING:
    from playhead.traffic.source import Kind, Times


class TrafficSystem(System, MakesSource):
    """Captures in files, or a snapshot by id; the scheme is the format."""

    kind = "capture"
    examples: ClassVar = {
        "rrpair": "rrpair:FILE, rrpair:FOLDER or rrpair:ID of a snapshot",
        "extract": "extract:FILE.csv",
        "gor": "gor:FILE",
        "har": "har:FILE",
        "csvlog": "csvlog:FILE, csvlog:FOLDER or csvlog:'PATTERN' of a PostgreSQL server",
        "jsonlog": "jsonlog:FILE, jsonlog:FOLDER or jsonlog:'PATTERN' of a PostgreSQL server",
        "pglog": "pglog:FILE, pglog:FOLDER or pglog:'PATTERN' of a PostgreSQL server's stderr",
    }

    def parse(self, text: str, scheme: str, rest: str) -> Endpoint:
        if not rest:
            raise BadEndpoint(text, reason="the file is missing", hint=self.examples[scheme])
        return Endpoint(scheme, rest)

    def from_anywhere(self, end: Endpoint) -> Endpoint:
        if "://" in end.name:
            return end
        path = paths.at_home(end.name).absolute()
        is_snapshot = end.system == "rrpair" and "/" not in end.name and not path.exists()
        return end if is_snapshot else replace(end, name=str(path))

    def source(self, end: Endpoint, spec: ReplaySpec, _configuration: Configuration) -> Source:
        from playhead.traffic.source import TrafficSource

        rules = spec.traffic
        times = cast("Times", rules.times)
        now_ms = time.time_ns() // 1_000_000 if end.system == "extract" else None
        return TrafficSource(
            cast("Kind", end.system), end.name, rules.filter, times, untimed_ms=now_ms
        )


SYSTEM = TrafficSystem()
