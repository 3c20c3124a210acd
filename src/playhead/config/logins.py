"""A login is sent only to the servers that it was configured for.

Those are the servers named in the same place (the command line, the environment, a project file, a
context). If that place names none, they are those of the next weaker place.
"""

import os
import shlex
from collections.abc import Mapping
from urllib.parse import urlsplit

from playhead import references
from playhead.config.layers import BOOTSTRAP, SPELLINGS, TOKEN_FROM, Precedence, Resolved
from playhead.errors import Refused

_OF_LOGINS = ("sasl.", "ssl.key", "ssl.certificate")
_TELLS_NOTHING = ("sasl.mechanism",)
_PROXIES = ("http_proxy", "all_proxy", "ALL_PROXY")
"""What libcurl heeds for http, and HTTP_PROXY is not among it."""
FOR_TOKENS = ("sasl.oauthbearer.client.secret", "sasl.jaas.config")

Homes = Mapping[Precedence | str, str]
"""The servers that each place names, and the file of --config: another option may name others beside it."""


class LoginElsewhere(Refused):
    """A login would be sent to a server that it was not configured for."""

    def __init__(self, found: Resolved, *, key: str, servers: str, home: str | None) -> None:
        self.key, self.servers, self.home = key, servers, home
        belongs = "names no server" if home is None else f"belongs to {home}"
        super().__init__(
            f"{key} of {found.origin} {belongs}, and would go to {servers}",
            hint="make a context for the other cluster: playhead context add NAME -b "
            f"{servers}, then use -c NAME or kafka:NAME/TOPIC",
        )


def keep_at_home(
    properties: Mapping[str, Resolved], homes: Homes, elsewhere: str | None = None
) -> None:
    """Refuse a login that would go to other servers than its own, or than those of an endpoint's address."""
    said = by_name(properties)
    configured = said[BOOTSTRAP][1] if BOOTSTRAP in said else None
    servers = elsewhere or (configured.value if configured else None)
    if servers is None:
        return  # No server that it could be sent to.
    for name, (key, found) in said.items():
        if not is_login(name):
            continue
        home = homes.get(found.origin, homes.get(found.place))
        if home is None and configured is not None and found.place <= configured.place:
            home = configured.value
        if home is None or not _brokers(servers) <= _brokers(home):
            raise LoginElsewhere(found, key=key, servers=servers, home=home)
    if TOKEN_FROM in said:
        _, token_from = said[TOKEN_FROM]
        for key, found in (said[name] for name in FOR_TOKENS if name in said):
            if token_from.place < found.place:
                raise LoginElsewhere(found, key=key, servers=token_from.value, home=None)


def keep_off_proxies(token_from: str) -> None:
    """Refuse a token endpoint on this machine that librdkafka would ask through a proxy.

    The proxy would read the client's secret. With https it would not, and no other http address is taken.
    """
    url = urlsplit(token_from)
    variable = next(filter(os.environ.get, _PROXIES), None)
    if url.scheme != "http" or variable is None:
        return
    excepted = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if excepted != "*" and url.hostname not in excepted.lower().replace(",", " ").split():
        raise Refused(
            f"the client's secret for {url.hostname} would go to the proxy of {variable}, unencrypted",
            hint=f"export no_proxy={shlex.quote(','.join(filter(None, (excepted, url.hostname))))}",
        )


def by_name(properties: Mapping[str, Resolved]) -> dict[str, tuple[str, Resolved]]:
    """The properties by their canonical names, with the spelling that was used."""
    return {SPELLINGS.get(key, key): (key, found) for key, found in properties.items()}


def is_login(name: str) -> bool:
    """Whether the property with this canonical name is a part of a login."""
    return name.startswith(_OF_LOGINS) and name not in _TELLS_NOTHING


def _brokers(servers: str) -> set[str]:
    """Return the brokers of a list for a comparison; a `${NAME}` counts as its value."""
    text = references.resolve(servers, key=BOOTSTRAP, where="a place", is_secret=False)
    return {each.strip().lower() for each in text.split(",")}
