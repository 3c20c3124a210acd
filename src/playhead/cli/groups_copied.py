"""A group's offsets in the copy that a replay made, on whatever cluster that is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from playhead.cli.groups_desk import within
from playhead.cli.options import Run
from playhead.cli.playing import with_servers
from playhead.connection import KafkaConnection
from playhead.context import Configuration
from playhead.endpoint import Endpoint
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
    with Admin(_connection(source, configuration)) as admin:
        held = within(group, committed(admin, group), scope)
    connection = _connection(target, configuration)
    ledger = Ledger(connection, saved.replay_id)
    ledger.catch_up()
    translated = translate(saved.replay_id, group, ledger.entries(), held)
    for remark in translated.remarks:
        run.output.say(remark)
    with Admin(connection) as admin:
        yield Desk(admin, configuration, connection, run.output.say), translated.offsets


def _connection(end: Endpoint, configuration: Configuration) -> KafkaConnection:
    connection = configuration.kafka()
    if not end.address:
        return connection
    return connection.with_bootstrap_servers(end.address, where=str(end))
