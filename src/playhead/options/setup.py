"""The options of the commands that set up and check a machine: sandbox, demo, doctor, context, config."""

from playhead.options.option import DRY_RUN, YES, Argument, Option, Options, switch
from playhead.options.shared import SANDBOX, TIME

_OPTIONS = "Options"

UP = Options(_OPTIONS, switch("fresh", "Delete the old data first."), DRY_RUN, YES, *SANDBOX)
DEMO = Options(
    _OPTIONS,
    Option("cars", "Number of cars.", kind="number", default=20, low=1, high=99),
    Option(
        "rate",
        "Datagrams per second, of all cars together.",
        kind="number",
        default=1_200,
        low=1,
        high=20_000,
    ),
    Option("before", "Time before the outage.", default="15s", kind="duration"),
    Option("outage", "Length of the outage.", default="15s", kind="duration"),
    Option(
        "after", "Time between the outage and the search for gaps.", default="8s", kind="duration"
    ),
    Option("seed", "Seed for the cars' data.", kind="number", default=0),
    switch("headless", "Do not wait for Enter on a terminal."),
    Option(
        "folder",
        "Folder for transcript and pictures; default: beside the data.",
        "DIR",
        kind="file",
    ),
    *SANDBOX,
)
DOCTOR = Options(
    _OPTIONS,
    Option("topic", "Also check this topic.", "TOPIC", completes="topics"),
    Option("group", "Also check this consumer group.", "GROUP", completes="groups"),
)
CONTEXT = Options(_OPTIONS, Argument("name", "Name of the context.", "NAME", completes="contexts"))
CONTEXT_ADD = Options(
    _OPTIONS,
    Argument("name", "Name of the context.", "NAME"),
    switch("read_only", "Refuse every command that writes."),
    switch("production", "Ask to type the target's name before every write."),
)
_ORIGIN = switch("origin", "Also show where each value comes from.")
CONTEXT_SHOW = Options(
    _OPTIONS,
    Argument(
        "name",
        "Show only the settings of this context; default: all settings as a command uses them.",
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
    Argument(
        "folder", "Folder of the project; default: this one.", "DIR", kind="file", required=False
    ),
    switch("shared", "Also trust a file that other users own or can write."),
    switch("remove", "Remove the trust."),
    switch("list_", "Only list the trusted files."),
)
