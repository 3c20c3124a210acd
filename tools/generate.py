"""Writes the pages that repeat what the code says, or with --check fails when one of them is out of date.

python tools/generate.py            write them anew (make docs)
python tools/generate.py --check    change nothing; exit 1 and name what is stale
"""

import ast
import dataclasses
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pages
from pages import Row, code, page, table

import playhead
from playhead import errors
from playhead.cli.app import app
from playhead.config.kafka_properties import KNOWN_PROPERTIES, Property
from playhead.config.project import HARMLESS
from playhead.config.settings import SETTINGS, Setting
from playhead.host import faults
from playhead.options import shared
from playhead.options.option import Options
from playhead.options.replays import REPLAY_RULES
from playhead.request import Request

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "playhead"
REFERENCE = ROOT / "docs" / "reference"
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
# What the commands of the front page printed and drew; a test renews it.
FRONT = ROOT / "tests" / "golden" / "readme"


# --- the file map -------------------------------------------------------------------------------


def first_sentence(module: Path) -> str:
    """The opening paragraph of a module's docstring, which is one sentence by our rule."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def file_map() -> str:
    """Every module and its sentence: a package's own modules, then those of its folders."""
    modules = sorted(PACKAGE.rglob("*.py"), key=lambda file: (file.parent, file.name))
    rows = []
    for module in modules:
        path = module.relative_to(PACKAGE)
        is_folder = path.name == "__init__.py" and path.parent.name
        name = f"{path.parent.as_posix()}/" if is_folder else path.as_posix()
        rows.append((code(name), first_sentence(module)))
    return table(("file", "what it is"), rows)


def files() -> str:
    introduction = (
        "Every module of the package with the first sentence of its docstring: first the modules of the "
        "package itself, then those of its folders. [Architecture](../ARCHITECTURE.md) explains how "
        "they work together."
    )
    return page("File map", introduction, file_map())


# --- the command line ---------------------------------------------------------------------------


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group with the words that call it, in the order of the help; no old spelling."""
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from commands(child, (*words, name))


SHARED = {
    "connection": ("Which cluster and which database.", shared.CONNECTION),
    "spark": ("Where Spark runs.", shared.SPARK),
    "registry": ("Which schema registry.", shared.REGISTRY),
    "time": ("Which zone times are in.", shared.TIME),
    "sandbox": ("Which sandbox.", shared.SANDBOX),
    "output": ("How the command speaks.", shared.OUTPUT),
}


def option_rows(parameters: Iterable[Any], context: Any) -> list[Row]:
    """Names and help as `--help` has them, defaults included."""
    records = (parameter.get_help_record(context) for parameter in parameters)
    return [
        (code(re.sub(" {2,}", " ", names)), " ".join(text.split()))
        for names, text in filter(None, records)
    ]


def names_of(group: Options) -> set[str]:
    return {row.name for row in group}


def shared_section(name: str, tree: Any) -> str:
    """One group of shared options, taken from the first command that has all of them."""
    sentence, group = SHARED[name]
    for _, command in commands(tree, ("playhead",)):
        found = {parameter.name: parameter for parameter in command.params}
        if names_of(group) <= set(found):
            context = command.context_class(command, info_name="playhead")
            rows = option_rows([found[row.name] for row in group], context)
            return f"### {name} options\n\n{sentence}\n\n{table(('option', 'meaning'), rows)}"
    raise LookupError(f"no command takes the {name} options")


def command_section(words: tuple[str, ...], command: Any) -> str:
    """Usage, meaning and a command's own options; shared ones as links."""
    context = command.context_class(command, info_name=" ".join(words))
    names = {parameter.name for parameter in command.params}
    groups = [name for name, (_, group) in SHARED.items() if names_of(group) <= names]
    theirs = {name for heading in groups for name in names_of(SHARED[heading][1])}
    own = [parameter for parameter in command.params if parameter.name not in theirs]
    usage = " ".join(context.command.get_usage(context).removeprefix("Usage:").split())
    parts = [f"## {' '.join(words)}\n", f"```text\n{usage}\n```\n", (command.help or "").strip()]
    if rows := option_rows(own, context):
        parts.append("\n" + table(("option", "meaning"), rows).rstrip())
    if groups:
        links = [f"[{name}](#{name}-options)" for name in groups]
        parts.append(f"\nAlso takes the options of {', '.join(links)}.")
    return "\n".join(parts) + "\n"


def cli() -> str:
    tree = app
    sections = [command_section(words, command) for words, command in commands(tree, ("playhead",))]
    shared = [shared_section(name, tree) for name in SHARED]
    head = "## Options that commands share\n"
    listing = (
        "`playhead -X list` prints the [Kafka client properties](kafka-properties.md) that `-X` "
        "takes. [Settings](settings.md) lists the other places that can set the same values.\n"
    )
    codes = "## Exit codes\n\n" + exit_codes()
    introduction = "Every command of `playhead` and every option."
    return page("Command line", introduction, *sections, head, *shared, listing, codes)


def exit_codes() -> str:
    meanings = {
        errors.EXIT_DONE: "done",
        errors.EXIT_FAILED: "failed",
        errors.EXIT_USAGE: "the request cannot be understood",
        errors.EXIT_DIFFERENT: "done, and a comparison found differences, or could not decide",
        errors.EXIT_STOPPED: "stopped before the end; can be resumed",
        errors.EXIT_REFUSED: "refused by a guard; nothing was written",
        errors.EXIT_INTERRUPTED: "interrupted (Ctrl-C)",
        errors.EXIT_TERMINATED: "terminated (SIGTERM)",
    }
    return table(("code", "meaning"), ((str(key), text) for key, text in meanings.items()))


# --- settings, properties, errors, abort points -------------------------------------------------


def flag_of(setting: Setting, tree: Any) -> str:
    """The option that sets it for one command, as the command line spells it; some have none."""
    if not any(setting.name in names_of(group) for _, group in SHARED.values()):
        return ""
    for _, command in commands(tree, ("playhead",)):
        for parameter in command.params:
            if parameter.name == setting.name:
                return ", ".join(map(code, sorted(parameter.opts, key=len)))
    return ""


def settings() -> str:
    tree = app
    rows = [
        (
            code(setting.name),
            setting.help
            + (
                " (true or false; any place can switch it on, none can switch it off)"
                if setting.is_guard
                else ""
            ),
            flag_of(setting, tree),
            code(setting.environment),
            code(setting.default),
            "hidden when printed" if setting.secret else "",
        )
        for setting in SETTINGS
    ]
    introduction = (
        "Every setting. Its name is the key in a context of `config.toml` and in a project's "
        "`playhead.toml`. Strongest first: option, `-X`, environment, `playhead.toml` of the project, "
        "context, default; `playhead context show --origin` shows where each value comes from."
    )
    also = (
        "Both files also take a table `kafka` of [client properties](kafka-properties.md), and "
        "`playhead.toml` takes `context`, the name of the context to use. Such a file comes with a "
        f"clone: until `playhead config trust` it may set {', '.join(map(code, HARMLESS))}, and a "
        "file that sets more, or refers to `${NAME}` or `file:`, is refused. It cannot set "
        "`kafka_config`.\n"
    )
    head = ("setting", "meaning", "option", "environment", "default", "secret")
    return page("Settings", introduction, table(head, rows), also)


def python() -> str:
    defaults = {each.name: each.default for each in dataclasses.fields(Request)}
    rows = [
        (code(name), row.help, code(repr(defaults[name]))) for name, row in REPLAY_RULES.items()
    ]
    introduction = (
        "`Replay(source, target, span, pace, **rules)`: the rules are the options of [`playhead replay`]"
        "(cli.md#playhead-replay), with the same words. A text is read as on the command line: `lateness_ms='10m'` "
        "is `lateness_ms=600_000`, and `key='id,car'` is `key=('id', 'car')`. An unknown keyword is an error."
    )
    return page("Python", introduction, table(("keyword", "meaning", "default"), rows))


def values_of(known: Property) -> str:
    if known.choices:
        return ", ".join(code(choice) or "empty" for choice in known.choices)
    return f"{known.low} to {known.high}" if known.low is not None else ""


def kafka_properties() -> str:
    rows = [
        (
            code(known.name),
            ", ".join(code(key) for key in known.spellings if key != known.name),
            known.help,
            values_of(known),
            "hidden when printed" if known.secret else "",
        )
        for known in KNOWN_PROPERTIES
    ]
    introduction = (
        "The Kafka client properties that `-X key=value`, the file of `--config` and the table `kafka` "
        "of a context can set, in Java's or in librdkafka's spelling. Each is translated for both "
        "clients. Any other key is an error that names the nearest match, or the reason."
    )
    head = ("property", "also read as", "meaning", "values", "secret")
    return page("Kafka client properties", introduction, table(head, rows))


def load_all() -> None:
    """Import every module of the product, so that every error class is known."""
    for module in pkgutil.walk_packages(playhead.__path__, "playhead."):
        if not module.name.startswith("playhead.testing"):
            importlib.import_module(module.name)


def error_rows(kind: type[errors.PlayheadError], depth: int) -> Iterator[Row]:
    sentence = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    yield (
        "\N{EM SPACE}" * depth + code(kind.__name__),
        str(kind.exit_code),
        sentence,
        kind.__module__,
    )
    ours = (c for c in kind.__subclasses__() if c.__module__.startswith("playhead."))
    for child in sorted(ours, key=lambda c: (c.__module__ != errors.__name__, c.__name__)):
        yield from error_rows(child, depth + 1)


def error_tree() -> str:
    load_all()
    rows = [
        (name, exit_code, sentence, code(module))
        for name, exit_code, sentence, module in error_rows(errors.PlayheadError, 0)
    ]
    introduction = (
        "Every error class of Playhead. The command line prints the error's sentence, then `hint:` "
        "with the next thing to do, and ends with its exit code. An indented class is a subclass of "
        "the class above it."
    )
    head = ("error", "exit code", "what happened", "module")
    return page("Errors", introduction, table(head, rows))


def function_around(module: Path, point: str) -> str:
    """The function in which an abort point stands, with its class."""
    tree = ast.parse(module.read_text(encoding="utf-8"))

    def search(node: ast.AST, path: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and child.value == point:
                yield ".".join(path)
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from search(child, (*path, child.name) if named else path)

    return next(search(tree, ()), "")


def abort_points() -> str:
    rows = []
    for name, location in sorted(faults.abort_points(PACKAGE).items()):
        file = location.rpartition(":")[0]
        rows.append((code(name), code(file), code(function_around(PACKAGE / file, name))))
    introduction = (
        "Places where a test can end the process, to check what happens after a crash there. "
        f"`{faults.VARIABLE}=NAME[#N][=kill|exit|raise|stop]` arms one: when the process reaches it "
        f"for the N-th time, it kills itself, exits with status {faults.EXIT_ABORTED}, raises "
        "`Aborted`, or stops until it gets SIGCONT. A point that is not armed does nothing."
    )
    return page("Abort points", introduction, table(("point", "file", "function"), rows))


# --- pages about pages, and the pictures of the front page ---------------------------------------


def decisions() -> str:
    introduction = (
        "Why things are as they are: one decision a page, with what it costs. A later decision "
        "overrides an earlier one where they differ."
    )
    return page("Decisions", introduction, table(("number", "decision"), pages.decisions()))


def architecture() -> str:
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return pages.with_layers(ARCHITECTURE.read_text(encoding="utf-8"), contract)


def front_page() -> str:
    transcript = (FRONT / "transcript.txt").read_text(encoding="utf-8")
    return pages.with_transcript(pages.HOME.read_text(encoding="utf-8"), transcript)


def picture(name: str, *, is_dark: bool) -> str:
    """One of the pictures that `playhead gaps --picture` drew for the front page, in one theme."""
    drawn = (FRONT / f"{name}.svg").read_text(encoding="utf-8")
    return pages.themed(drawn, is_dark=is_dark)


# --- writing and checking -----------------------------------------------------------------------

PAGES: dict[Path, Callable[[], str]] = {
    REFERENCE / "files.md": files,
    REFERENCE / "cli.md": cli,
    REFERENCE / "settings.md": settings,
    REFERENCE / "python.md": python,
    REFERENCE / "kafka-properties.md": kafka_properties,
    REFERENCE / "errors.md": error_tree,
    REFERENCE / "abort-points.md": abort_points,
    REFERENCE / "decisions.md": decisions,
    ARCHITECTURE: architecture,
    pages.HOME: front_page,
    **{
        ROOT / "docs" / "images" / f"{name}-{theme}.svg": partial(
            picture, name, is_dark=theme == "dark"
        )
        for name in ("hole", "filled")
        for theme in ("light", "dark")
    },
    ROOT / "llms.txt": pages.llms,
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_stale(path: Path, text: str) -> bool:
    """Whether a page is not what the code says."""
    return not path.exists() or path.read_text(encoding="utf-8") != text


def check() -> None:
    if stale := [path for path, write in PAGES.items() if is_stale(path, write())]:
        names = ", ".join(map(relative, stale))
        sys.exit(f"error: out of date: {names}\nhint: run `make docs` and commit what it writes")


def write_all() -> None:
    """Write what is stale, in order: llms.txt is made of the pages before it."""
    for path, write in PAGES.items():
        if is_stale(path, text := write()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {relative(path)}")


def main(arguments: list[str]) -> None:
    if arguments not in ([], ["--check"]):
        sys.exit(f"error: unknown arguments {arguments}\nhint: none, or --check")
    check() if arguments else write_all()


if __name__ == "__main__":
    main(sys.argv[1:])
