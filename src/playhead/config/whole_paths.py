"""Paths in settings: what a file or the environment says counts in every folder, so its paths are whole.

A relative path would be looked for in the folder where a command runs, and that may be a clone with a file
of that name: a certificate to trust, or a password that is none.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from playhead import references, secrets
from playhead.config.kafka_properties import BY_NAME as PROPERTIES
from playhead.config.kafka_properties import parse_jaas
from playhead.config.layers import SPELLINGS, Precedence, Resolved
from playhead.config.settings import BY_NAME
from playhead.errors import BadValue

_FILE = "file:"
_JAAS = "sasl.jaas.config"
_OF_LIBRARIES = (
    "HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "AWS_CA_BUNDLE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "KRB5_CONFIG",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
)
"""Variables by which the libraries of our clients find whom to trust, what to log in with, and code to load."""
_LISTS = ("SSL_CERT_DIR", "KRB5_CONFIG")


def need_whole_variables() -> None:
    """Refuse relative paths in the variables that libraries read by themselves."""
    for name in _OF_LIBRARIES:
        text = os.environ.get(name, "")
        for path in filter(None, text.split(os.pathsep) if name in _LISTS else [text]):
            if not Path(path).is_absolute():
                needed = "a whole path: a relative one depends on the folder of each command"
                raise BadValue(name, found=path, needed=needed, where="the environment")


def need_whole_paths(values: Mapping[str, Resolved]) -> None:
    """Return when no value has a relative path; the command line may have one, but not inside JAAS."""
    for key, found in values.items():
        path = _relative_path(key, found)
        is_inside = path is None and _name(key) == _JAAS
        if is_inside:
            path = _relative_option(found)
        if path is not None and (is_inside or found.place != Precedence.COMMAND_LINE):
            needed = (
                "a whole path: a relative one would be looked for in the folder of each command"
            )
            raise BadValue(key, found=path, needed=needed, where=found.origin)


def with_whole_paths(key: str, found: Resolved) -> str:
    """The value of a setting or property as it means the same in another folder."""
    path = _relative_path(key, found)
    if path is None:
        return found.value
    whole = str(Path.cwd() / path)
    return whole if _is_location(key) else _FILE + whole


def _relative_path(key: str, found: Resolved) -> str | None:
    """The path that the value is, if it is one and not whole."""
    text = found.value
    if _is_location(key):
        try:
            path = references.resolve(text, key=key, where=found.origin, is_secret=False)
        except BadValue:
            return None  # a variable that is not set here; using the value raises the error
        return None if Path(path).is_absolute() else text
    text = text.strip() if _name(key) == _JAAS else text
    is_file = is_secret(key) and text.startswith(_FILE)
    return _relative_file(text) if is_file else None


def _relative_option(found: Resolved) -> str | None:
    """The first option of a JAAS text that is a relative file."""
    text = found.value.strip()
    if text.startswith(_FILE) or secrets.is_reference(text):
        return None
    _, options = parse_jaas(text, where=found.origin)
    return next((path for path in map(_relative_file, options.values()) if path), None)


def _relative_file(text: str) -> str | None:
    path = text.removeprefix(_FILE)
    is_relative = text.startswith(_FILE) and not path.startswith(("/", "~"))
    return path if is_relative else None


def _is_location(key: str) -> bool:
    return _name(key).endswith(".location")


def _name(key: str) -> str:
    return SPELLINGS.get(key, key)


def is_secret(key: str) -> bool:
    """Whether the value of a setting or of a property is one."""
    if key in BY_NAME:
        return BY_NAME[key].secret
    known = PROPERTIES.get(_name(key))
    return known is None or known.secret
