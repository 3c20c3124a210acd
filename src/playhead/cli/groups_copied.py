"""A group's offsets in the copy that a replay made, on whatever cluster that is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from playhead.cli.consent import answer
from playhead.cli.groups_desk import is_meant, within
from playhead.cli.options import Run
from playhead.cli.playing import with_servers
from playhead.clusters import connection_of, guards_of
from playhead.errors import UsageError
from playhead.groups.plan import Committed
from playhead.groups.scope import Scope
from playhead.journal import DONE, Journal
from playhead.kafka.admin import Admin
from playhead.kafka.groups import committed
from playhead.kafka.groups_change import Desk
from playhead.kafka.groups_through import translate
from playhead.kafka.ledger import Ledger
from playhead.source import Place


@contextmanager
def through_replay(
    run: Run, replay_id: str, group: str, scope: Scope
) -> Iterator[tuple[Desk, Mapping[Place, Committed]]]:
    """The groups of the copy's cluster, and the offsets there."""
    saved = Journal().find(replay_id)
    request = saved.plan.request
    source, target = request.source_endpoint, request.target_endpoint
    if source.system != "kafka" or target.system != "kafka":
        raise UsageError(
            f"replay {saved.replay_id} goes from {source.shown()} to {target.shown()}; offsets go "
            "only through a replay of topics into topics"
        )
    if saved.state != DONE:
        run.output.say(f"replay {saved.replay_id} is {saved.state}: the copy may not be whole")
    configuration = with_servers(run, dict(saved.servers)).configuration()
    with Admin(connection_of(source, configuration)) as admin:
        held = within(group, committed(admin, group), scope)
    connection = connection_of(target, configuration)
    ledger = Ledger(connection, saved.replay_id)
    ledger.catch_up()
    translated = translate(saved.replay_id, group, ledger.entries(), held)
    for remark in translated.remarks:
        run.output.say(remark)
    with Admin(connection) as admin:
        guards = guards_of([target], configuration)
        consent = answer(yes=is_meant(run))
        yield Desk(admin, guards, connection, run.output.say, consent), translated.offsets
