"""Translates a group's offsets to the copy that a replay made, on any cluster."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from playhead.cli.confirm import answer
from playhead.cli.groups.confirm import is_meant, within
from playhead.cli.options import Run
from playhead.cli.replay.run_replay import with_servers
from playhead.config.context import connection_of, guards_of
from playhead.errors import UsageError
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.changes import GroupAdmin
from playhead.kafka.groups.describe import committed
from playhead.kafka.groups.plan import CommittedOffset
from playhead.kafka.groups.scope import Scope
from playhead.kafka.groups.translate import translate
from playhead.kafka.write.ledger import Ledger
from playhead.kafka.write.lost_copies import lost_copies
from playhead.kafka.write.target_topics import confirm_same, described_soon
from playhead.plan import Plan
from playhead.replay.guards import SourceReplaced
from playhead.replay.journal import DONE, Journal
from playhead.source import TopicPartition


@contextmanager
def through_replay(
    run: Run, replay_id: str, group: str, scope: Scope
) -> Iterator[tuple[GroupAdmin, Mapping[TopicPartition, CommittedOffset]]]:
    """Return the groups of the copy's cluster, and the translated offsets."""
    saved = Journal().find(replay_id)
    request = saved.plan.request
    source, target = request.source_endpoint, request.target_endpoint
    if source.system != "kafka" or target.system != "kafka":
        raise UsageError(
            f"replay {saved.replay_id} goes from {source.shown()} to {target.shown()}; "
            "offsets can be translated only for a replay of topics into topics"
        )
    if saved.state != DONE:
        run.output.say(f"replay {saved.replay_id} is {saved.state}: the copy may not be whole")
    configuration = with_servers(run, dict(saved.servers)).configuration()
    with Admin(connection_of(source, configuration)) as admin:
        _refuse_other_sources(admin, saved.plan)
        held = within(group, committed(admin, group), scope)
    connection = connection_of(target, configuration)
    ledger = Ledger(connection, saved.replay_id)
    ledger.catch_up()
    entries = ledger.entries()
    with Admin(connection) as admin:
        confirm_same(admin, ledger.settled().get("topic_ids") or {})
        lost = lost_copies(admin, entries)
    if lost:
        run.output.say(f"copies of {sum(map(len, lost)):,} offsets are gone: {lost[min(lost)]}")
    translated = translate(saved.replay_id, group, entries, held)
    for remark in translated.remarks:
        run.output.say(remark)
    with Admin(connection) as admin:
        guards = guards_of([target], configuration)
        consent = answer(yes=is_meant(run))
        yield GroupAdmin(admin, guards, connection, run.output.say, consent), translated.offsets


def _refuse_other_sources(admin: Admin, plan: Plan) -> None:
    """Refuse if a topic was created again since it was copied: the group's offsets are of the new one."""
    planned = {name: facts.topic_id for name, facts in plan.source.topics.items() if facts.topic_id}
    found = described_soon(admin, [*planned])
    for name, topic_id in planned.items():
        now = found[name].topic_id if name in found else "no topic"
        if now != topic_id:
            raise SourceReplaced(
                f"topic {name} of id", planned=topic_id, found=now, replay_id=plan.replay_id
            )
