"""Makes the timeline of an endpoint that is one or several topics."""

import time
from dataclasses import replace

from playhead.config.context import Configuration, connection_of
from playhead.endpoint import Endpoint
from playhead.errors import UsageError
from playhead.span import Resolved
from playhead.timeline.timeline import Timeline


def timeline_of(
    end: Endpoint, configuration: Configuration, resolved: Resolved, *, buckets: int
) -> Timeline:
    """Return the timeline of a span; a span by offsets is ignored, because it has no times."""
    from playhead.kafka.read.timeline import timeline

    if end.system != "kafka" or not end.name:
        raise UsageError(
            f"{end.shown()} is not a topic, and only a topic can tell its times without being read",
            hint="playhead timeline TOPIC",
        )
    return timeline(
        connection_of(end, configuration),
        end.name.split(","),
        replace(resolved, offsets=()),
        buckets=buckets,
        now_ms=time.time_ns() // 1_000_000,
        pattern=end.name if end.is_pattern else None,
    )
