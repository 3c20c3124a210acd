"""Decides which commands may run in the warm engine, and what they send to it: never a secret."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from playhead import secrets
from playhead.config.saved_servers import holds_secret
from playhead.config.settings import SETTINGS, as_switch
from playhead.host import paths
from playhead.version import __version__

SWITCH = "PLAYHEAD_WARM"
"""Environment variable: `off` does without the engine; default `on`."""
FOLDER = "engine"
LOCK = "lock"
"""File in that folder. An engine keeps it locked, and while it starts, its process number is in the file."""
WHY_NOT = "the engine did not start: "
"""The beginning of the last line in the log of an engine that could not start."""

# A command with one of these options starts an engine of its own, or needs none (help).
_OWN_ENGINE = ("--master", "--spark-remote", "--spark-memory", "-h", "--help")
_OWN_ENGINE_VARIABLES = (
    "PLAYHEAD_SPARK_MASTER",
    "PLAYHEAD_SPARK_MEMORY",
    "SPARK_REMOTE",
    "SPARK_HOME",
)
# An engine is started with these variables; a command with different values cannot use it.
_STARTED_WITH = (
    "HOME",
    "PATH",
    "TMPDIR",
    "JAVA_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "KRB5_CONFIG",
    "KRB5CCNAME",
    "PLAYHEAD_AOT_CACHE",
)
# These variables belong to one command: its output, and its names of servers.
_OF_A_COMMAND = (
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "COLUMNS",
    "LINES",
    "USER",
    "LOGNAME",
    "PLAYHEAD_CONTEXT",
    "PLAYHEAD_SANDBOX_DIR",
    "PLAYHEAD_SLICE_RECORDS",
    *(each.environment for each in SETTINGS if each.environment),
)
# Other variables that libraries and tasks read are not sent: a command with one of them runs alone.
_KEPT = re.compile(
    "(PG|KAFKA_|PLAYHEAD_|SPARK_|PYSPARK_|HADOOP_|YARN_|KRB5|SSL_|OPENSSL_|SASL_|LD_|JDK_|_JAVA|JAVA_TOOL"
    "|PYTHONPATH|PYTHONHOME|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS).*"
)
# PySpark sets these in each process that has a session, such as a notebook or a test.
_OF_A_SESSION = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
_SECRET_WORD = re.compile(
    r"(?i)(password|secret|token|jaas|credential|ssl[a-z.]{0,40}key)[a-z_.]{0,60}+\s*+=(?!file:|\$\{)"
)


_OF_S3, _S3 = "AWS_", "s3:"


class KeepsToItself(Exception):
    """The command runs in its own process; `reason` is None if no note should be printed."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "it needs no engine or starts its own")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Asked:
    """A command as it was typed, with the environment to run it in."""

    words: list[str]
    variables: dict[str, str]
    umask: int
    encodings: list[tuple[str, str]]
    """Encoding and error handler of stdin, stdout and stderr."""

    def as_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode("utf-8", "surrogatepass")

    @classmethod
    def of_bytes(cls, content: bytes) -> "Asked":
        said = json.loads(content.decode("utf-8", "surrogatepass"))
        return cls(**said | {"encodings": [tuple(each) for each in said["encodings"]]})


def is_wanted(words: Sequence[str]) -> bool:
    """Return whether to use the engine; the command line takes precedence over the environment."""
    for word in reversed(words):
        if word in ("--warm", "--no-warm"):
            return word == "--warm"
    return as_switch(os.environ.get(SWITCH) or "on", key=SWITCH, where="the environment")


def asked(words: Sequence[str]) -> Asked:
    """Return the command to send to the engine; raises `KeepsToItself` if it must run alone."""
    environment = os.environ
    if any(word.partition("=")[0] in _OWN_ENGINE for word in words):
        raise KeepsToItself
    if any(environment.get(name) for name in _OWN_ENGINE_VARIABLES):
        raise KeepsToItself
    if any(_SECRET_WORD.search(word) or holds_secret(word) for word in words):
        raise KeepsToItself("its command line contains a secret")
    has_endpoints = words[0] in ("replay", "gaps")
    may_be_s3 = not has_endpoints or any(_S3 in word for word in words)
    if may_be_s3:
        for name in environment:
            if name.startswith(_OF_S3) and name not in _STARTED_WITH:
                raise KeepsToItself(_not_in_engine(name))
    return Asked(
        list(words),
        _variables(environment, (*_STARTED_WITH, *_OF_A_COMMAND), needs_all=True),
        _umask(),
        [_encoding(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
    )


def engine_environment() -> dict[str, str]:
    """Return the variables of this command that the engine is started with."""
    return _variables(os.environ, _STARTED_WITH, needs_all=False)


def _variables(
    environment: Mapping[str, str], names: Sequence[str], *, needs_all: bool
) -> dict[str, str]:
    taken = {}
    for name, value in environment.items():
        if name in names or (needs_all and name.startswith("LC_")):
            if not holds_secret(value) and not secrets.has_reference(value):
                taken[name] = value
            elif needs_all:
                raise KeepsToItself(f"{name} in its environment contains a secret")
        elif needs_all and value and name not in (SWITCH, *_OF_A_SESSION) and _KEPT.fullmatch(name):
            raise KeepsToItself(_not_in_engine(name))
    return taken


def _not_in_engine(name: str) -> str:
    return f"{name} is set in the environment of this command and not in that of the engine"


def code() -> str:
    """Return a digest of Playhead's files, its libraries and Python; an engine with other code is asked to end."""
    libraries = [(each, _time(Path(each))) for each in sys.path if each.endswith("-packages")]
    return _digest([__version__, sys.executable, sys.version, _code_files(), libraries])


def surroundings() -> dict[str, str]:
    """Return digests, by name, of the other things that an engine and its commands must have in common."""
    seen: dict[str, object] = {
        name: value for name, value in engine_environment().items() if name != "PATH"
    }
    seen["user and groups"] = [os.geteuid(), os.getegid(), sorted(os.getgroups())]
    for kind in ("mnt", "net", "user", "uts"):
        seen[f"{kind} namespace"] = _namespace(kind)
    return {name: _digest(value) for name, value in seen.items()}


def refuse_other_surroundings(of_engine: object) -> None:
    """Raise `KeepsToItself` if the engine was started with other variables or rights than this command."""
    theirs = of_engine if isinstance(of_engine, dict) else {}
    ours = surroundings()
    names = sorted(
        name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
    )
    if names:
        raise KeepsToItself(
            f"it differs from the engine in {', '.join(names)} (`playhead engine stop` ends that engine)"
        )


def folder() -> Path:
    """Return the folder of the engine's socket."""
    return paths.state_dir() / FOLDER


def _code_files() -> list[tuple[str, int, int]]:
    """Return names, times and sizes of Playhead's files, so that an engine never runs older code."""
    found = []
    pending = [str(Path(__file__).parents[2])]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                else:
                    status = entry.stat()
                    found.append((entry.path, status.st_mtime_ns, status.st_size))
    return sorted(found)


def _digest(seen: object) -> str:
    return hashlib.sha256(json.dumps(seen).encode("utf-8", "surrogatepass")).hexdigest()


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _namespace(kind: str) -> str:
    try:
        return str(Path(f"/proc/self/ns/{kind}").readlink())
    except OSError:
        return ""


def _umask() -> int:
    before = os.umask(0o077)
    os.umask(before)
    return before


def _encoding(stream: object) -> tuple[str, str]:
    return (
        str(getattr(stream, "encoding", None) or "utf-8"),
        str(getattr(stream, "errors", None) or "strict"),
    )
