"""Keeps the command line's framework from loading a validation library for values that are plain texts.

Typer does so for every value of every command, at the price of a tenth of a second of processor time.
What is no text goes its way still.
"""

from functools import lru_cache
from typing import Any

try:
    from typer._coercion import RuntimeParam, build_runtime_param
except ImportError:  # another version, with insides of its own: it is only slower then
    RuntimeParam = build_runtime_param = None  # type: ignore[assignment,misc]


def lighten(command: Any) -> Any:
    """The same command, and its subcommands', with texts taken as they are."""
    for child in getattr(command, "commands", {}).values():
        lighten(child)
    known = command.get_params
    command.get_params = lambda ctx: lightened(known(ctx))
    return command


def lightened(parameters: list[Any]) -> list[Any]:
    """The same parameters; that for help, which the framework makes late, among them."""
    for parameter in parameters:
        if RuntimeParam is not None and getattr(parameter, "_runtime_param", 0) is None:
            descriptor = parameter.type_descriptor
            parameter._runtime_param = _kind()(descriptor.parameter_info, descriptor.annotation)
    return parameters


@lru_cache(maxsize=1)
def _kind() -> Any:
    class AsWritten(RuntimeParam):
        """What is of its kind already, and lists of texts, as it stands; else the framework's own way."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
            if self.annotation in (str, bool, int) and type(value) is self.annotation:
                return value
            if self.annotation == list[str] and all(isinstance(each, str) for each in value):
                return list(value)
            return build_runtime_param(param.type_descriptor)._coerce_value(value, param, ctx)

    return AsWritten
