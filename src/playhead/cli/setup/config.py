"""`playhead config`: the trusted project files, and the known Kafka client properties."""

import re
from pathlib import Path

from playhead import references, secrets
from playhead.cli.options import Run, command, group
from playhead.cli.output import Output
from playhead.cli.setup.context import show_settings
from playhead.config import trust as trusting
from playhead.config.context import Configuration, of_project
from playhead.config.kafka_properties import parse_jaas
from playhead.config.layers import SPELLINGS
from playhead.config.project import PROJECT_FILE, find_project_file, read
from playhead.config.settings import BY_NAME
from playhead.config.whole_paths import is_secret
from playhead.errors import Refused, UsageError
from playhead.options.setup import CONFIG_SHOW, TRUST
from playhead.options.shared import CONNECTION, SPARK

_FILE, _VARIABLE = "file:", re.compile(r"\$\{\w+\}")
_PLAIN = re.compile(
    r"(^[\w+.-]+://[^:/?#@\[\]\s]*:(?=[^/?#@\[\]\s]+@)|[?&;](?:\w*password|token)=)[^/?#@&;\[\]\s]+"
)


@command(CONFIG_SHOW, CONNECTION, SPARK, now="playhead context show")
def show(run: Run, origin: bool) -> None:
    """Print every setting as a command with the same options uses it; secrets are hidden."""
    show_settings(run, origin=origin)


@command(TRUST)
def trust(run: Run, folder: Path | None, shared: bool, remove: bool, list_: bool) -> None:
    """Allow a project's playhead.toml, in its present form, to name servers, logins and engines.

    Read it first: it comes with the clone, from its author. Without trust it may set only timezone,
    spark_memory, read_only and production. After a change it has to be trusted again.
    """
    if list_:
        _list_trusted(run)
        return
    place = (folder or Path.cwd()).absolute()
    if remove:
        _remove_trust(run, place)
        return
    file = find_project_file(place)
    if file is None:
        raise UsageError(f"{place} has no {PROJECT_FILE}", hint="playhead config trust DIR")
    seen = read(file)
    if seen.not_ours is not None and not shared:
        raise Refused(
            f"{file} was not trusted: {seen.not_ours}",
            hint="make yourself the only writer, or add --shared to trust only the present content",
        )
    said = of_project(seen)
    rows = _rows(said, str(file))
    trusting.trust(seen)
    run.output.emit({"trusted": seen.key, "sha256": seen.digest, "settings": rows}, rows)
    run.output.say(f"{seen.key} is trusted with its present content")


def _rows(said: Configuration, file: str) -> list[dict[str, str]]:
    """Return the settings in the file; for hidden ones, where their values are read from."""
    raw = {name: found.value for name, found in said.settings.items()}
    raw |= {f"kafka.{key}": found.value for key, found in said.kafka_properties.items()}
    rows = [{"setting": "context", "value": said.context}] if said.context is not None else []
    for row in said.rows():
        if row["origin"] == file:
            name = str(row["setting"])
            # Shown even where it contains what stands elsewhere in the file as a password.
            is_hidden = is_secret(name.removeprefix("kafka."))
            value = _hidden(name, raw[name]) if is_hidden else raw[name]
            reads = [each for each in _reads(name, raw[name], file) if each not in value]
            more = f", read from {', '.join(reads)}" if reads else ""
            rows.append({"setting": name, "value": value + more})
    return rows


def _hidden(name: str, text: str) -> str:
    """Hide the secrets of a value, but never the server in it, whatever the file writes around it.

    What is no plain login is shown: the file's author has written it, and each library reads it its own way.
    """
    if name not in BY_NAME or text.startswith(_FILE) or text == references.PROMPT:
        return text if secrets.is_reference(text) else secrets.HIDDEN
    if not secrets.IS_URL.match(text):
        return secrets.without_password(text)
    return _PLAIN.sub(rf"\1{secrets.HIDDEN}", text)


def _reads(name: str, text: str, file: str) -> list[str]:
    """Return the files and variables that a hidden value is read from, each whole."""
    texts = [text]
    is_jaas = SPELLINGS.get(name.removeprefix("kafka.")) == "sasl.jaas.config"
    if is_jaas and not text.strip().startswith((_FILE, "$")):
        texts = [*parse_jaas(text, where=file)[1].values()]
    files = [each.strip() for each in texts if each.strip().startswith(_FILE)]
    return files + _VARIABLE.findall(text)


def _remove_trust(run: Run, place: Path) -> None:
    found = find_project_file(place) or place / PROJECT_FILE
    key = trusting.key_of(found)
    if not trusting.forget(key):
        raise UsageError(f"{key} is not trusted", hint="playhead config trust --list")
    run.output.say(f"{key} is no longer trusted")


def _list_trusted(run: Run) -> None:
    rows = []
    for key, digest in sorted(trusting.trusted().items()):
        try:
            state = "trusted" if read(Path(key)).digest == digest else "changed"
        except UsageError:
            state = "gone"
        rows.append({"file": key, "state": state})
    run.output.emit({"trusted": rows}, rows)


def list_properties() -> int:
    """Print the supported Kafka client properties in all spellings (`-X list`)."""
    from playhead.config.kafka_properties import KNOWN_PROPERTIES

    rows = [
        {
            "property": known.name,
            "also": [s for s in known.spellings if s != known.name],
            "meaning": known.help,
        }
        for known in KNOWN_PROPERTIES
    ]
    Output().emit({"properties": rows}, rows)
    return 0


config = group("Trust a project's file.", show, trust, name="config")
