"""Makes a standby, and checks whether its replay would work now."""

from dataclasses import replace

from playhead.config.context import Configuration, configure
from playhead.config.saved_servers import kept_servers
from playhead.replay import api
from playhead.replay.assemble import ends, refuse_idle_rules
from playhead.request import Request
from playhead.standby.store import NAME, BadName, SavedStandby

_ALL = "start..end"


def make(
    name: str,
    request: Request,
    configuration: Configuration | None = None,
    *,
    check: bool = True,
) -> SavedStandby:
    """Make a standby of a request without its span; refuse now what could not run later.

    With `check`, the servers are asked and the engine parses the SQL, as in a dry run over the whole log;
    without it, only the options themselves are checked.
    """
    if not NAME.fullmatch(name):
        raise BadName(name)  # Before the servers are asked.
    configuration = configuration or configure({})
    asked = replace(request.from_anywhere(), span=_ALL)
    servers = kept_servers(configuration)
    refuse_idle_rules(asked.spec)
    ends(asked, configuration)
    if not check:
        return SavedStandby(name=name, request=asked, servers=servers)
    plan = api.plan(asked, configuration).plan
    return SavedStandby(
        name=name,
        request=asked,
        servers=servers,
        source_identity=plan.source.identity,
        target_identity=plan.target.identity,
    )
