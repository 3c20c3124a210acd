"""`playhead groups`: list and describe consumer groups, and the commands that change them."""

import time
from typing import TYPE_CHECKING, Any

from playhead.cli.groups.delete import delete, delete_offsets
from playhead.cli.groups.reset import clone, reset
from playhead.cli.groups.undo import undo
from playhead.cli.options import Run, command, group
from playhead.errors import BadValue, UsageError
from playhead.grammar.duration import show_duration_ms
from playhead.grammar.instant import show_ms
from playhead.options import groups as rows
from playhead.options.shared import CONNECTION

if TYPE_CHECKING:
    from playhead.config.kafka_connection import KafkaConnection
    from playhead.kafka.admin.client import Admin

_STATES = ("stable", "empty", "dead", "preparingrebalance", "completingrebalance", "unknown")
_KINDS = ("classic", "consumer")


@command(rows.LIST, CONNECTION)
def list_(run: Run, state: str | None, kind: str | None) -> None:
    """List the consumer groups with their states."""
    states, kinds = _words("--state", state, _STATES), _words("--type", kind, _KINDS)
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.groups.describe import listed

    with Admin(run.configuration().kafka()) as admin:
        found = listed(admin)
    rows = [
        {"group": each.group, "type": each.kind, "state": each.state}
        for each in found
        if (states is None or each.state in states) and (kinds is None or each.kind in kinds)
    ]
    if not rows:
        run.output.say(
            f"no group matches; there are {len(found)} in all" if found else "no consumer groups"
        )
    run.output.emit({"groups": rows}, rows)


@command(rows.DESCRIBE, CONNECTION)
def describe(run: Run, group: list[str], all_groups: bool, members: bool, no_times: bool) -> None:
    """Show the lag of groups: committed offset, end, lag in records and in time.

    Where nothing is committed, the lag is null, not 0. The time lag is how long the next record has
    been waiting. With --members, show the members instead.
    """
    if members and no_times:
        raise UsageError("--members and --no-times contradict each other")
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.groups.describe import committed, described, listed, need_groups
    from playhead.kafka.groups.lag import lags

    connection = run.configuration().kafka()
    documents = []
    with Admin(connection) as admin:
        names = _named(group, [each.group for each in listed(admin)] if all_groups else None)
        if members:
            _show_members(run, admin, connection, names)
            return
        found = described(admin, names) if names else {}
        for name in names:
            held = committed(admin, name)
            if found[name].state == "dead" and not held:
                need_groups(admin, [name])
            seen = lags(admin, connection, found[name], held, with_times=not no_times)
            for remark in seen.remarks:
                run.output.say(remark)
            if not found[name].members:
                run.output.say(f"group {name} is {found[name].state}: it has no active consumers")
            documents.append(_described(found[name], seen.behind))
    rows = [{"group": d["group"]} | row for d in documents for row in d["partitions"]]
    is_read_by_people = run.output.form in ("table", "csv")
    run.output.emit({"groups": documents}, list(map(_as_text, rows)) if is_read_by_people else rows)


def _show_members(
    run: Run, admin: "Admin", connection: "KafkaConnection", names: list[str]
) -> None:
    documents = [_members_of(run, admin, connection, name) for name in names]
    rows = [{"group": d["group"]} | row for d in documents for row in d["members"]]
    run.output.emit({"groups": documents}, rows)


@command(rows.GROUP, CONNECTION, now="playhead groups describe --members")
def members(run: Run, group: str) -> None:
    """Show the members of a group: client, host, assignment and session timeout."""
    from playhead.kafka.admin.client import Admin

    connection = run.configuration().kafka()
    with Admin(connection) as admin:
        document = _members_of(run, admin, connection, group)
    run.output.emit(document, document["members"])


def _members_of(
    run: Run, admin: "Admin", connection: "KafkaConnection", group: str
) -> dict[str, Any]:
    from playhead.kafka.groups.describe import described, need_groups
    from playhead.kafka.groups.idle import sessions, shown_places

    found = described(admin, [group])[group]
    if found.state == "dead":
        need_groups(admin, [group])
    lasting = sessions(admin, connection, found)
    if not found.members:
        run.output.say(f"group {group} is {found.state}: it has no active consumers")
    rows = [
        {
            "member": each.member_id,
            "instance": each.instance_id,
            "client": each.client_id,
            "host": each.host,
            "partitions": len(each.places),
            "assignment": shown_places(each.places),
            "session_ms": lasting.get(each.member_id),
        }
        for each in found.members
    ]
    return _head(found) | {"members": rows}


def _named(given: list[str] | None, every: list[str] | None) -> list[str]:
    if given and every is not None:
        raise UsageError("groups by name and --all-groups contradict each other")
    if every is not None:
        return every
    if not given:
        raise UsageError("no group was given", hint="name some, or --all-groups")
    return list(dict.fromkeys(given))


def _words(flag: str, written: str | None, known: tuple[str, ...]) -> set[str] | None:
    if written is None:
        return None
    words = {word.strip().lower() for word in written.split(",")}
    for word in sorted(words - set(known)):
        raise BadValue(flag, found=word, needed=", ".join(known))
    return words


def _head(found: Any) -> dict[str, Any]:
    return {
        "group": found.group,
        "type": found.kind,
        "state": found.state,
        "assignor": found.assignor,
        "coordinator": found.coordinator,
    }


def _described(found: Any, behind: Any) -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    rows = [
        {
            "topic": each.place[0],
            "partition": each.place[1],
            "committed": each.committed.offset if each.committed else None,
            "end": each.bounds.high_watermark if each.bounds else None,
            "lag": each.lag,
            "lag_ms": each.lag_ms(now_ms),
            "next_record": _shown_ms(each.next_ms),
            "last_commit": _shown_ms(each.committed_ms),
            "expired": each.expired,
            "member": each.member.member_id if each.member else None,
            "host": each.member.host if each.member else None,
            "client": each.member.client_id if each.member else None,
        }
        for each in behind
    ]
    known = [row["lag"] for row in rows if row["lag"] is not None]
    total = {"lag": sum(known) if known else None, "members": len(found.members)}
    return _head(found) | total | {"partitions": rows}


def _shown_ms(at_ms: int | None) -> str | None:
    return None if at_ms is None else show_ms(at_ms)


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    """Return times as text, for formats of rows."""
    lag_ms = row["lag_ms"]
    shown = None if lag_ms is None else show_duration_ms(lag_ms - lag_ms % 1000)
    text = {"time_lag" if name == "lag_ms" else name: value for name, value in row.items()}
    text["time_lag"] = shown
    if not text["expired"]:
        del text["expired"]
    return text


groups = group(
    "Consumer groups: who reads, how far behind, and the safe reset.",
    list_,
    describe,
    members,
    reset,
    undo,
    clone,
    delete,
    delete_offsets,
    name="groups",
    kafka_flags={
        "--list": "list",
        "--describe": "describe",
        "--reset-offsets": "reset",
        "--delete": "delete",
        "--delete-offsets": "delete",
    },
)
