"""`playhead config`: every setting, its value, and where the value comes from."""

from typing import Annotated

import typer

from playhead.cli.options import CONNECTION, SPARK, TIME, Run, with_options
from playhead.cli.output import Output

app = typer.Typer(
    help="See what is configured.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    pass


@app.command()
@with_options(CONNECTION, SPARK, TIME)
def show(
    run: Run,
    origin: Annotated[bool, typer.Option("--origin", help="Also where each comes from.")] = False,
) -> None:
    """Print every setting as a command with the same options would see it; secrets are hidden.

    Strongest first: flag, -X, environment, playhead.toml of the project, context, default. Exit code
    2 when commands would refuse what is set.
    """
    configuration = run.configuration()
    rows = configuration.rows()
    if not origin:
        rows = [{key: row[key] for key in ("setting", "value")} for row in rows]
    run.output.emit({"context": configuration.context, "settings": rows}, rows)
    configuration.check()


def list_properties() -> int:
    """`-X list`: the Kafka client properties that are understood, in all spellings."""
    from playhead.properties import KNOWN_PROPERTIES

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
