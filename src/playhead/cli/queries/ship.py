"""`playhead queries ship`: copies a PostgreSQL server's logs into topics, without an engine."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command
from playhead.cli.signals import first_signal
from playhead.config.context import connection_of, guards_of
from playhead.config.guards import Guard
from playhead.endpoint import BadEndpoint, Endpoint, check_topic
from playhead.errors import BadValue
from playhead.host import paths
from playhead.options.queries import SHIP
from playhead.options.shared import CONNECTION
from playhead.querylog.located import DATABASE

if TYPE_CHECKING:
    from playhead.queries.shipping import Shipping, ShippingSpec

_ANY = "{topic}"
_NAME_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@command(SHIP, CONNECTION)
def ship(run: Run, logs: str, target: str, once: bool) -> None:
    """Follow a PostgreSQL server's logs, and write each row once into a topic, until Ctrl-C.

    The forms csvlog, jsonlog and stderr are recognised. The key of a record is the row's session, its time is
    the row's. Each database has its own topic. The position in each file is committed with the rows, so a restart
    loses and repeats no row. Exit code 1 if a part of the logs is in no topic.
    """
    from playhead.queries.shipping import Shipping

    endpoint = _target(target)
    spec = _spec(run, logs, endpoint)
    guard = Guard(guards_of([endpoint], run.configuration()), answer(yes=True))
    # The command is the consent to write; only the guards read-only and production can refuse it.
    guard.agree(f"shipping {logs} to {endpoint.name}", endpoint.name)
    connection = connection_of(endpoint, run.configuration())
    shipping = Shipping(spec, connection, guard, run.output.say)
    run.output.say(
        f"shipping {spec.pattern} to {endpoint.shown()} as {spec.name}; Ctrl-C ends the command"
    )
    with first_signal(lambda _: shipping.stop()):
        try:
            shipping.run(once=once)
        finally:
            _report(run, shipping)
    shipping.need_all()


def _target(text: str) -> Endpoint:
    """Return the endpoint of the topics; `{db}` in the text becomes `{topic}`."""
    endpoint = Endpoint.parse(text.replace(DATABASE, _ANY))
    if endpoint.system != "kafka" or endpoint.is_pattern or "," in endpoint.name:
        raise BadEndpoint(
            text, reason="TARGET must be a topic of Kafka", hint=f"write kafka:pg_raw_{DATABASE}"
        )
    if endpoint.name == _ANY:
        # A client of the server chooses the name of its database, which could be that of any topic.
        reason = "a topic must have a prefix besides the name of the database"
        raise BadEndpoint(text, reason=reason, hint=f"write kafka:pg_raw_{DATABASE}")
    check_topic(endpoint.name.replace(_ANY, "x"))
    return replace(endpoint, name=endpoint.name.replace(_ANY, DATABASE))


def _spec(run: Run, logs: str, endpoint: Endpoint) -> "ShippingSpec":
    from playhead.queries.shipping import ShippingSpec
    from playhead.querylog.stderr_prefix import KNOWN_PREFIXES, prefix_of

    pattern = str(paths.at_home(logs).absolute())
    if Path(pattern).is_dir():
        raise BadValue(
            "GLOB", found=logs, needed="a file or a pattern", hint=f"'{logs.rstrip('/')}/*.csv'"
        )
    prefix = run.values["log_line_prefix"]
    if prefix is not None:
        prefix_of(prefix)
    name = run.values["name"] or _name(pattern, endpoint.name)
    if not set(name) <= _NAME_SIGNS or len(name) > 100:
        raise BadValue(
            "--name", found=name, needed="letters, digits, '.', '_' and '-', at most 100"
        )
    return ShippingSpec(
        pattern,
        endpoint.name,
        name,
        KNOWN_PREFIXES if prefix is None else (prefix,),
        run.values["partitions"],
        run.values["max_topics"],
        skip_large=run.values["on_large"] == "skip",
    )


def _name(pattern: str, topic: str) -> str:
    """Return a name that depends on the arguments only; a container's host name changes with each start."""
    return hashlib.sha256(f"{pattern}\0{topic}".encode()).hexdigest()[:12]


def _report(run: Run, shipping: "Shipping") -> None:
    found = shipping.as_document()
    for path, held in shipping.held().items():
        run.output.say(
            f"{path} ends in an incomplete row ({held:,} bytes); it is shipped when complete"
        )
    first = shipping.counts.first_not_understood
    if first is not None:
        run.output.say(
            f"{found['not_understood']:,} rows could not be parsed; shipped unchanged: {first}"
        )
    run.output.emit(found, [{k: v for k, v in found.items() if k != "topics"}])
