"""A topic that is made for the records of several others."""

from typing import Any

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.write.target import KafkaTarget
from playhead.source import SourceFacts, TopicFacts
from playhead.target import InspectRequest

HOUR_MS = 3_600_000


def test_a_topic_that_is_made_for_several_takes_and_keeps_what_any_of_them_does(
    kafka: KafkaConnection,
) -> None:
    """Their order decides nothing: with the settings of the first one, the records of the others were lost."""
    hour, plain = str(HOUR_MS), {"cleanup.policy": "delete", "retention.bytes": "-1"}
    known = {
        "a": TopicFacts(
            is_compacted=True,
            settings={"cleanup.policy": "compact", "retention.ms": hour, "retention.bytes": "5"},
        ),
        "b": TopicFacts(
            retention_ms=HOUR_MS,
            settings={**plain, "retention.ms": hour, "max.message.bytes": "1048588"},
        ),
        "c": TopicFacts(
            retention_ms=2 * HOUR_MS,
            settings={
                **plain,
                "retention.ms": str(2 * HOUR_MS),
                "max.message.bytes": "5000000",
                "delete.retention.ms": "5",
                "max.compaction.lag.ms": "7",
            },
        ),
    }

    def made(*topics: str) -> dict[str, Any]:
        target = KafkaTarget(kafka, "made-for-several", create=True)
        counts = {"a": 1, "b": 3, "c": 2}
        asked = InspectRequest(
            SourceFacts("elsewhere", {each: known[each] for each in topics}),
            {each: counts[each] for each in topics},
            [],
        )
        return target.inspect(asked).needs["create"]["made-for-several"]

    assert made("b", "c") == {
        "partitions": 3,
        "settings": {
            **plain,
            "message.timestamp.type": "CreateTime",
            "retention.ms": str(2 * HOUR_MS),
            "max.message.bytes": "5000000",
            "delete.retention.ms": "86400000",
            "max.compaction.lag.ms": "9223372036854775807",
        },
    }
    assert made("b", "c") == made("c", "b")
    both = made("a", "b")["settings"]
    assert both == {
        **plain,
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "max.message.bytes": "1048588",
    }
    assert made("a")["settings"] == {
        **known["a"].settings,
        "message.timestamp.type": "CreateTime",
    }
