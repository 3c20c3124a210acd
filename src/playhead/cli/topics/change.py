"""`playhead topics create`, `alter` and `delete`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command
from playhead.config.guards import Guard
from playhead.errors import BadValue, UsageError
from playhead.grammar.duration import parse_duration_ms, show_duration_ms
from playhead.grammar.size import parse_size_bytes
from playhead.options import topics as rows
from playhead.options.shared import CONNECTION

if TYPE_CHECKING:
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.topics import NewShape

# The size of Kafka's number type; the broker refuses larger values.
_MOST_DIGITS = 19
_NO_LIMIT = "-1"


@command(rows.CREATE, rows.SETTINGS, CONNECTION)
def create(
    run: Run,
    topic: str,
    partitions: int | None,
    replication: int | None,
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create a topic, and return when it can be written to. The brokers decide missing settings."""
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.topics import NewShape, TopicExists, describe_topics
    from playhead.kafka.admin.topics import create as make

    shape = NewShape(topic, partitions, replication, settings_of(run))
    configuration = run.configuration()
    # Existing topics do not change, so only read-only and production contexts can refuse.
    guard = Guard(configuration, answer(yes=True))
    _warn_of_collisions(run, topic)
    with Admin(configuration.kafka()) as admin:
        try:
            make(admin, shape, guard, only_check=dry_run)
        except TopicExists:
            if not if_not_exists:
                raise
            _tell_differences(run, admin, shape)
            state = "exists"
        else:
            state = "would be created" if dry_run else "created"
        found = [] if state == "would be created" else describe_topics(admin, [topic])
    row = {
        "topic": topic,
        "state": state,
        "partitions": len(found[0].partitions) if found else partitions,
        "replication": found[0].replication if found else replication,
        "settings": [f"{key}={value}" for key, value in shape.settings.items()],
    }
    run.output.emit(row, [row])


def _tell_differences(run: Run, admin: "Admin", shape: "NewShape") -> None:
    from playhead.kafka.admin.topics import Alteration, describe_topics

    (now,) = describe_topics(admin, [shape.name])
    for row in Alteration(shape.name, shape.partitions, shape.settings).rows(now):
        run.output.say(
            f"topic {shape.name} already exists, and its {row['what']} is {row['before']}, "
            f"not {row['after']}; it was not changed"
        )


def _warn_of_collisions(run: Run, topic: str) -> None:
    if "." in topic or "_" in topic:
        run.output.say(
            "Kafka's metric names do not distinguish '.' and '_': use only one of them in topic names"
        )


@command(rows.ALTER, rows.SETTINGS, CONNECTION)
def alter(
    run: Run,
    topic: str,
    partitions: int | None,
    reset: list[str],
    if_exists: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Add partitions or change settings: show before and after, then ask.

    More partitions move keys: later records of a key may be in another partition than earlier ones.
    """
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.offsets import NoSuchTopic
    from playhead.kafka.admin.topics import Alteration, check_alteration, describe_topics
    from playhead.kafka.admin.topics import alter as change

    wanted = Alteration(topic, partitions, settings_of(run), tuple(reset or ()))
    if partitions is None and not wanted.settings and not wanted.reset:
        raise UsageError(f"nothing to alter of topic {topic}", hint="playhead topics alter --help")
    if twice := set(wanted.settings) & set(wanted.reset):
        raise UsageError(
            f"{', '.join(sorted(twice))}: found both a new value and --reset, needed one of them"
        )
    configuration = run.configuration()
    with Admin(configuration.kafka()) as admin:
        try:
            (now,) = describe_topics(admin, [topic])
        except NoSuchTopic:
            if not if_exists:
                raise
            run.output.say(f"there is no topic {topic}")
            return
        wanted.check(now)
        rows = wanted.rows(now)
        if rows:
            check_alteration(admin, wanted, now)
        run.output.emit({"topic": topic, "changes": rows, "dry_run": dry_run}, rows)
        if not rows:
            run.output.say(f"topic {topic} already has these settings; nothing was changed")
        elif not dry_run:
            change(admin, wanted, now, Guard(configuration, answer(yes=yes)))


@command(rows.DELETE, CONNECTION)
def delete(run: Run, topics: list[str], if_exists: bool, dry_run: bool, yes: bool) -> None:
    """Delete topics with all their records: show them, and ask to type each name.

    In a script, --yes replaces the name, but not in a context marked production.
    """
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.offsets import bounds_of, describe, describe_those, places_of
    from playhead.kafka.admin.topics import delete as remove

    configuration = run.configuration()
    with Admin(configuration.kafka()) as admin:
        find = describe_those if if_exists else describe
        found = find(admin, list(dict.fromkeys(topics)))
        held = bounds_of(admin, places_of(found))
        rows = [
            {
                "topic": name,
                "partitions": len(each.partitions),
                "offsets": sum(
                    bounds.high_watermark - bounds.earliest
                    for (topic, _), bounds in held.items()
                    if topic == name
                ),
            }
            for name, each in found.items()
        ]
        run.output.emit({"topics": rows, "dry_run": dry_run}, rows)
        for name in topics:
            if name not in found:
                run.output.say(f"there is no topic {name}")
        for row in () if dry_run else rows:
            name = str(row["topic"])
            remove(admin, name, Guard(configuration, answer(yes=yes)))
            run.output.say(f"topic {name} was deleted")


# --- settings in plain words


def settings_of(run: Run) -> dict[str, str]:
    """Return Kafka's settings for the options; one setting given twice must have the same value."""
    values = run.values
    if "=" in (values["kafka_config"] or ""):
        raise UsageError(
            f"--config {values['kafka_config']}: --config is the file of client properties",
            hint=f"set a topic's setting with --set {values['kafka_config']}",
        )
    found: dict[str, str] = {}
    for entry in values["config"] or ():
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise BadValue("--set", found=entry, needed="key=value")
        _put(found, key.strip(), value, "--set")
    if values["retain"] is not None:
        _put(found, "retention.ms", _retain_ms(values["retain"]), "--retain")
    if values["retain_bytes"] is not None:
        _put(found, "retention.bytes", _retain_bytes(values["retain_bytes"]), "--retain-bytes")
    policy = _policy(values)
    if policy is not None:
        _put(found, "cleanup.policy", policy, "--compact")
    _tell_meaning(run, found)
    return found


def _put(found: dict[str, str], key: str, value: str, flag: str) -> None:
    if found.setdefault(key, value) != value:
        raise UsageError(f"{flag} sets {key}={value}, but --set sets {key}={found[key]}")


def _retain_ms(text: str) -> str:
    if text == "forever":
        return _NO_LIMIT
    return str(parse_duration_ms(text, where="--retain"))


def _retain_bytes(text: str) -> str:
    if text == "unlimited":
        return _NO_LIMIT
    return str(parse_size_bytes(text, where="--retain-bytes"))


def _policy(values: dict[str, Any]) -> str | None:
    if values["compact"] is None:
        return None
    if not values["compact"]:
        return "delete"
    limits = [values["retain"] not in (None, "forever")]
    limits.append(values["retain_bytes"] not in (None, "unlimited"))
    return "compact,delete" if any(limits) else "compact"


def _tell_meaning(run: Run, settings: dict[str, str]) -> None:
    told: Sequence[str] = [
        text
        for key, text in (
            ("retention.bytes", "retention.bytes limits each partition, not the topic"),
            ("cleanup.policy", f"cleanup.policy is {settings.get('cleanup.policy')}"),
        )
        if key in settings
    ]
    retention = settings.get("retention.ms", _NO_LIMIT)
    if retention != _NO_LIMIT and retention.isdecimal() and len(retention) <= _MOST_DIGITS:
        told = [f"records are deleted after {show_duration_ms(int(retention))}", *told]
    for line in told:
        run.output.say(line)
