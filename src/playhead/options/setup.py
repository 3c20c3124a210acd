"""The options of what prepares a machine and looks at it: the sandbox, the demo, doctor, contexts, config."""

from playhead.options.option import DRY_RUN, YES, Argument, Option, Options, switch
from playhead.options.shared import SANDBOX, TIME

_OPTIONS = "Options"

UP = Options(_OPTIONS, switch("fresh", "Throw the old data away first."), DRY_RUN, YES, *SANDBOX)
DEMO = Options(
    _OPTIONS,
    Option("cars", "How many drive.", "N", kind="number", default=20, low=1, high=99),
    Option(
        "rate",
        "Datagrams a second, of all.",
        "N",
        kind="number",
        default=1_200,
        low=1,
        high=20_000,
    ),
    Option("before", "How long all goes well.", "DURATION", default="15s"),
    Option("outage", "How long the database is away.", "DURATION", default="15s"),
    Option("after", "How long it is back when somebody looks.", "DURATION", default="8s"),
    Option("seed", "How the cars drive.", "N", kind="number", default=0),
    switch("headless", "Wait for nobody, also on a terminal."),
    Option("folder", "For transcript and pictures; else beside the data.", "DIR", kind="file"),
    *SANDBOX,
)
DOCTOR = Options(
    _OPTIONS,
    Option("topic", "Also look at this topic.", "TOPIC", completes="topics"),
    Option("group", "Also look at this consumer group.", "GROUP", completes="groups"),
)
CONTEXT = Options(_OPTIONS, Argument("name", "The context's name.", "NAME", completes="contexts"))
CONTEXT_ADD = Options(
    _OPTIONS,
    Argument("name", "The context's name.", "NAME"),
    switch("read_only", "Refuse all writing."),
    switch("production", "Have the target's name typed before writing."),
)
_ORIGIN = switch("origin", "Also where each value comes from.")
CONTEXT_SHOW = Options(
    _OPTIONS,
    Argument(
        "name",
        "Only what this context says; without it, every setting as a command would see it.",
        "NAME",
        required=False,
        completes="contexts",
    ),
    _ORIGIN,
    *TIME,
)
CONFIG_SHOW = Options(_OPTIONS, _ORIGIN, *TIME)
TRUST = Options(
    _OPTIONS,
    Argument("folder", "A project's folder; this one.", "DIR", kind="file", required=False),
    switch("shared", "Also a file that others own or can write."),
    switch("remove", "Trust it no longer."),
    switch("list_", "Only list what is trusted."),
)
