"""Removes the groups in which replays within one cluster have shown their progress."""

from collections.abc import Collection

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.describe import delete, listed

PREFIX = "playhead."


def remove_groups(connection: KafkaConnection, replay_ids: Collection[str]) -> list[str]:
    """Remove the groups of these replays; return those that existed. A group with members stays, with an error."""
    wanted = {PREFIX + replay_id for replay_id in replay_ids}
    with Admin(connection) as admin:
        there = [each.group for each in listed(admin) if each.group in wanted]
        for group in there:
            delete(admin, group)
    return there
