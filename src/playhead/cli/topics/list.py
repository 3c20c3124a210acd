"""`playhead topics`: list and describe topics, and the commands that change them."""

from playhead.cli.options import Run, command, group
from playhead.cli.topics.change import alter, create, delete
from playhead.cli.topics.trim import trim
from playhead.endpoint import BAD_PATTERN, check_pattern
from playhead.errors import BadValue, UsageError
from playhead.options import topics as rows
from playhead.options.shared import CONNECTION


@command(rows.LIST, CONNECTION)
def list_(run: Run, pattern: str | None, internal: bool) -> None:
    """List topics by name."""
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.topics import list_topics

    _need_pattern(pattern)
    with Admin(run.configuration().kafka()) as admin:
        found = list_topics(admin, pattern=pattern, internal=internal)
    rows = [
        {
            "topic": each.name,
            "partitions": each.partitions,
            "replication": each.replication,
            "internal": each.is_internal,
        }
        for each in found
    ]
    run.output.emit({"topics": rows}, rows)
    if not rows:
        run.output.say(
            f"no topic name matches {pattern!r}" if pattern else "the cluster has no topics"
        )


def _need_pattern(pattern: str | None) -> None:
    try:
        check_pattern(pattern or "")
    except BAD_PATTERN as exc:
        raise BadValue(
            "PATTERN", found=pattern, needed=f"a regular expression ({exc})", where="topics list"
        ) from exc


@command(rows.DESCRIBE, CONNECTION)
def describe(run: Run, topics: list[str]) -> None:
    """Show leaders, replicas and in-sync replicas of each partition; settings and their origin.

    The table has the settings of the topic; --configs and -o json have all. --sizes shows bytes on
    disk. --offsets shows start and end of each partition: the end is the offset of the next record, and
    the last stable offset is the start of the first open transaction.
    """
    values = run.values
    kinds = [f"--{name}" for name in ("configs", "sizes", "offsets") if values[name]]
    if values["at"] is not None and not values["offsets"]:
        kinds.append("--at")
    if len(kinds) > 1:
        raise UsageError(f"{kinds[0]} and {kinds[1]} contradict each other")
    if values["by"] is not None and not values["sizes"]:
        raise UsageError("--by groups the rows of --sizes", hint="add --sizes")
    if values["sizes"]:
        _show_sizes(run, topics, values["by"] or "replica")
    elif values["offsets"] or values["at"] is not None:
        _show_offsets(run, topics, values["at"])
    else:
        _show_partitions(run, topics, configs=values["configs"])


def _show_partitions(run: Run, topics: list[str], *, configs: bool) -> None:
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.topics import describe_topics, list_topics

    with Admin(run.configuration().kafka()) as admin:
        names = topics or [each.name for each in list_topics(admin)]
        found = describe_topics(admin, names)
    partitions = [
        {"topic": each.name, **_partition_row(state)} for each in found for state in each.partitions
    ]
    settings = [
        {"topic": each.name, "setting": one.name, "value": one.value, "source": one.source}
        for each in found
        for one in each.settings or ()
    ]
    document = {
        "topics": [
            {
                "topic": each.name,
                "topic_id": each.topic_id,
                "internal": each.is_internal,
                "replication": each.replication,
                "partitions": [_partition_row(state) for state in each.partitions],
                "settings": None
                if each.settings is None
                else {
                    one.name: {"value": one.value, "source": one.source} for one in each.settings
                },
            }
            for each in found
        ]
    }
    run.output.emit(document, settings if configs else partitions)
    own = [row for row in settings if row["source"] == "topic"]
    if run.output.form == "table" and own and not configs:
        run.output.text("")
        run.output.emit({}, own)
    for each in found:
        if each.settings is None:
            run.output.say(
                f"not authorized to read the settings of {each.name}: the ACL DescribeConfigs "
                f"on topic {each.name} is missing"
            )


def _partition_row(state: object) -> dict[str, object]:
    from playhead.kafka.admin.topics import PartitionState

    assert isinstance(state, PartitionState)  # noqa: S101  the type is known where it is called
    return {
        "partition": state.partition,
        "leader": state.leader,
        "replicas": list(state.replicas),
        "in_sync": list(state.in_sync),
    }


@command(rows.SIZES, CONNECTION, now="playhead topics describe --sizes")
def sizes(run: Run, topics: list[str], by: str | None) -> None:
    """Show the bytes that topics take on the brokers' disks."""
    _show_sizes(run, topics, by or "replica")


def _show_sizes(run: Run, topics: list[str], by: str) -> None:
    from playhead.grammar.size import show_size
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.log_dirs import sizes as replicas_of
    from playhead.kafka.admin.offsets import describe as find_topics

    connection = run.configuration().kafka()
    with Admin(connection) as admin:
        if topics:
            find_topics(admin, topics)
        held = replicas_of(admin, connection, topics or None)
    rows = [each.row() for each in held]
    columns = {
        "replica": (),
        "partition": ("topic", "partition"),
        "topic": ("topic",),
        "log-dir": ("broker", "log_dir"),
    }
    total = sum(each.size_bytes for each in held)
    document = {
        "bytes": total,
        "replicas": rows,
        "topics": _sums(rows, ("topic",)),
        "log_dirs": _sums(rows, ("broker", "log_dir")),
    }
    run.output.emit(document, _sums(rows, columns[by]) if columns[by] else rows)
    run.output.say(f"{total:,} bytes ({show_size(total)}) in {len(rows)} replicas")


def _sums(rows: list[dict[str, object]], columns: tuple[str, ...]) -> list[dict[str, object]]:
    totals: dict[tuple[object, ...], list[int]] = {}
    for row in rows:
        sums = totals.setdefault(tuple(row[column] for column in columns), [0, 0])
        sums[0] += 1
        sums[1] += int(str(row["bytes"]))
    return [
        dict(zip(columns, key, strict=True)) | {"replicas": count, "bytes": total}
        for key, (count, total) in totals.items()
    ]


@command(rows.OFFSETS, CONNECTION, now="playhead topics describe --offsets")
def offsets(run: Run, topics: list[str], at: str | None) -> None:
    """Show start and end offset of each partition, and the offset of a time."""
    _show_offsets(run, topics, at)


def _show_offsets(run: Run, topics: list[str], at: str | None) -> None:
    from playhead.cli.time_option import instant_ms
    from playhead.grammar.instant import show_ms
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.admin.offsets import bounds_of, entries_at, places_of
    from playhead.kafka.admin.offsets import describe as find_topics
    from playhead.kafka.admin.topics import list_topics

    configuration = run.configuration()
    at_ms = None if at is None else instant_ms("--at", at, configuration)
    with Admin(configuration.kafka()) as admin:
        names = topics or [each.name for each in list_topics(admin)]
        places = places_of(find_topics(admin, names)) if names else []
        held = bounds_of(admin, places)
        found = entries_at(admin, places, at_ms) if at_ms is not None else {}
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "earliest": bounds.earliest,
            "last_stable": bounds.stable_end,
            "latest": bounds.high_watermark,
        }
        | ({} if at_ms is None else {"at": found.get(place)})
        for place, bounds in held.items()
    ]
    total = sum(bounds.high_watermark - bounds.earliest for bounds in held.values())
    instant = None if at_ms is None else show_ms(at_ms)
    run.output.emit({"offsets": total, "at": instant, "partitions": rows}, rows)
    told = f"{total:,} offsets in {len(rows)} partitions"
    run.output.say(told if instant is None else f"{told}; at {instant}")


topics = group(
    "Topics: list, describe, create, alter, trim and delete them.",
    list_,
    describe,
    sizes,
    offsets,
    create,
    alter,
    delete,
    trim,
    name="topics",
    kafka_flags={f"--{name}": name for name in ("list", "describe", "create", "alter", "delete")},
)
