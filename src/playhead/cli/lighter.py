"""Keeps the command line's framework from loading a validation library for values that are plain texts.

Typer does so for every value of every command, at the price of a tenth of a second of processor time.
What is no text goes its way still.
"""

from typing import Any

try:
    from typer._coercion import RuntimeParam, build_runtime_param
except ImportError:  # another version, with insides of its own: it is only slower then
    RuntimeParam = build_runtime_param = None  # type: ignore[assignment,misc]


def lighten(command: Any) -> Any:
    """The same command, and its subcommands', with texts taken as they are."""
    for child in getattr(command, "commands", {}).values():
        lighten(child)
    lighten_own(command)
    return command


def lighten_own(command: Any) -> None:
    """Only the command's own parameters, and the help option, which is made when it is first asked for."""
    for parameter in getattr(command, "params", ()):
        _lighten(parameter)
    make_help = command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        option = make_help(ctx)
        _lighten(option)
        return option

    command.get_help_option = get_help_option


def _lighten(parameter: Any) -> None:
    if hasattr(parameter, "_runtime_param") and RuntimeParam is not None:
        descriptor = parameter.type_descriptor
        parameter._runtime_param = _kind()(descriptor.parameter_info, descriptor.annotation)


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
