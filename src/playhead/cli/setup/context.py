"""`playhead context`: named clusters with their databases."""

import os
import shlex
import subprocess

from playhead import secrets
from playhead.cli.options import Run, command, end, group
from playhead.config.context import (
    SANDBOX,
    UnknownContext,
    alone,
    configure,
    contexts,
    current_context,
    current_context_file,
)
from playhead.config.whole_paths import with_whole_paths
from playhead.errors import EXIT_FAILED, PlayheadError, Refused, UsageError
from playhead.host import paths, private_files
from playhead.options.setup import CONTEXT, CONTEXT_ADD, CONTEXT_SHOW
from playhead.options.shared import CONNECTION, SPARK, TIME

_BARE_KEY = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@command()
def list_(run: Run) -> None:
    """List the contexts; * marks the one that commands use by default."""
    chosen = configure({}).context
    rows = [
        {
            "chosen": "*" if name == chosen else "",
            "name": name,
            "bootstrap_servers": secrets.redact(layer.settings.get("bootstrap_servers", ""))
            or None,
            "read_only": layer.settings.get("read_only") == "true",
            "production": layer.settings.get("production") == "true",
        }
        for name, layer in sorted(contexts().items())
    ]
    run.output.emit({"contexts": rows}, rows)
    if not rows:
        run.output.say("no contexts yet; make one: playhead context add NAME -b host:port")


@command(CONTEXT_SHOW, CONNECTION, SPARK)
def show(run: Run, name: str | None, origin: bool) -> None:
    """Print every setting as a command with the same options uses it, or those of a context.

    Secrets are hidden. Strongest first: option, -X, environment, playhead.toml of the project, context,
    default. Without NAME, exit code 2 if commands would refuse the settings.
    """
    if name is None:
        show_settings(run, origin=origin)
        return
    given = [
        row.shown_name for row in (*CONNECTION, *SPARK, *TIME) if run.values[row.name] != row.unset
    ]
    if given:
        raise UsageError(
            f"{given[0]} does not change the settings of context {name}",
            hint=f"leave out {name} to see every setting as a command would use it",
        )
    rows = [
        row for row in alone(name, "the command line").rows() if row["origin"] == f"context {name}"
    ]
    run.output.emit({"context": name, "settings": rows}, rows)


def show_settings(run: Run, *, origin: bool) -> None:
    configuration = run.configuration()
    rows = configuration.rows()
    if not origin:
        rows = [{key: row[key] for key in ("setting", "value")} for row in rows]
    run.output.emit({"context": configuration.context, "settings": rows}, rows)
    configuration.check()


@command(CONTEXT)
def use(run: Run, name: str) -> None:
    """Choose the context that commands use by default."""
    known = contexts()
    if name not in known:
        raise UnknownContext(name, chosen_by="the command line", known=sorted(known))
    file = current_context_file()
    private_files.folder(file.parent)
    private_files.write(file, name + "\n")
    run.output.say(f"context {name} is the default from now on")


@command(CONTEXT_ADD, CONNECTION)
def add(run: Run, name: str, read_only: bool, production: bool) -> None:
    """Add a context at the end of the user's config.toml; write secrets as ${ENV} or file:."""
    if not set(name) <= _BARE_KEY or not name:
        raise UsageError(f"{name!r} is not a valid context name", hint="letters, digits, - and _")
    if name == SANDBOX:
        raise UsageError(
            f"{SANDBOX} is reserved for the servers of playhead sandbox up",
            hint="choose another name",
        )
    if name in contexts():
        raise Refused(f"context {name} already exists", hint="playhead context edit")
    lines = [f"\n[contexts.{name}]"]
    said = dict(run.values)
    if said["kafka_config"] is not None:
        said["kafka_config"] = str(paths.at_home(said["kafka_config"]).absolute())
    configuration = run.configuration()  # Refuses what could not be read back.
    if said["database"] is not None:
        said["database"] = with_whole_paths("database", configuration.settings["database"])
    for key in ("bootstrap_servers", "kafka_config", "database"):
        if said[key] is not None:
            lines.append(f"{key} = {_quoted(said[key])}")
    lines += ["read_only = true"] * read_only + ["production = true"] * production
    assigned = {
        key: with_whole_paths(key, found)
        for key, found in configuration.kafka_properties.items()
        if found.origin == "-X"
    }
    if assigned:
        lines.append(f"[contexts.{name}.kafka]")
        lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in assigned.items()]
    file = paths.config_file()
    private_files.folder(file.parent)
    with private_files.opened(file, "a") as stream:
        stream.write("\n".join(lines) + "\n")
    run.output.say(f"context {name} is saved in {file}; test it: playhead doctor -c {name}")


@command()
def edit(run: Run) -> None:
    """Open the user's config.toml in $EDITOR, and check it afterwards."""
    file = paths.config_file()
    private_files.folder(file.parent)
    private_files.touch(file)
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        code = subprocess.run([*editor, str(file)], check=False).returncode
    except FileNotFoundError:
        raise UsageError(f"no editor {editor[0]}", hint=f"set EDITOR, or edit {file}") from None
    if code != 0:
        raise PlayheadError(f"{editor[0]} ended with status {code}")
    known = contexts()
    current = current_context()
    run.output.say(f"{file} is valid and has {len(known)} contexts")
    if current is not None and current not in known:
        run.output.say(
            f"the chosen context {current} no longer exists; choose another: playhead context use NAME"
        )
        raise end(EXIT_FAILED)


def _quoted(text: str) -> str:
    """Return a TOML basic string."""
    import json

    return json.dumps(text, ensure_ascii=False)


context = group("Named clusters with their databases.", list_, show, use, add, edit, name="context")
