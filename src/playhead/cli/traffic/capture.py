"""`playhead capture`: a proxy between clients and brokers that writes a snapshot of the traffic."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from playhead.cli.options import Run, command
from playhead.cli.signals import first_signal
from playhead.errors import BadValue, UsageError
from playhead.grammar.duration import parse_duration_ms
from playhead.grammar.size import parse_size_bytes, show_size
from playhead.host.networks import Networks, need_allowed
from playhead.options.traffic import CAPTURE, COPYING, PLACES, TELLING

if TYPE_CHECKING:
    from playhead.capture.proxy import Proxy, Setting
    from playhead.capture.recorder_queue import OnSlow

_LOOK_EVERY_S = 0.2
_OFTEN_ENOUGH_S = 0.2
# The most useful figures for a person; the other formats have all.
_IN_A_TABLE = (
    "out", "seconds", "pairs", "written", "left_out", "dropped", "unreadable", "lost", "records",
    "files",
)  # fmt: skip


@command(CAPTURE, PLACES, COPYING, TELLING)
def capture(run: Run, dry_run: bool) -> None:
    """Run a proxy in front of Kafka that records the traffic, until Ctrl-C.

    Clients that use its address see the same cluster, each broker behind a port of the proxy. Requests
    and responses go into FOLDER/raw.jsonl, with decoded records. Exit code 1 if a pair is missing there.
    """
    from playhead.capture.proxy import Proxy
    from playhead.capture.snapshot_writer import claim

    setting = _setting(run)
    proxy = Proxy(setting)
    try:
        _say_what_will_be(run, setting, proxy)
        if dry_run:
            row = {"upstream": str(setting.upstream), "out": setting.order.folder, "dry_run": True}
            run.output.emit(row, [row])
            return
        claim(Path(setting.order.folder))
        _carry(run, setting, proxy)
    finally:
        proxy.doors.close()


def _setting(run: Run) -> "Setting":
    from playhead.capture.address import OpenToOthers, parse_host, parse_place
    from playhead.capture.proxy import Setting
    from playhead.capture.recorder import RecorderConfig
    from playhead.capture.redaction import parse_rule

    values = run.values
    listen = parse_place("--listen", values["listen"], least_port=0)
    networks = Networks.parse(values["allow"] or ())
    need_allowed(networks, anywhere=values["anywhere"])
    if not values["anywhere"] and not listen.is_loopback:
        raise OpenToOthers(str(listen))
    advertise = values["advertise"]
    if listen.is_every_address and advertise is None:
        raise UsageError(
            f"{listen} is every address, but clients need one host name",
            hint="name the host that clients use with --advertise",
        )
    rules = [parse_rule(text).text for text in values["redact"] or ()]
    topics = [name.strip() for name in (values["topics"] or "").split(",") if name.strip()]
    order = RecorderConfig(
        str(Path(values["out"]).absolute()), *_rotation(values["rotate"] or ()), topics, rules
    )
    return Setting(
        listen,
        parse_place("--upstream", values["upstream"]),
        order,
        cast("OnSlow", values["on_slow"]),
        values["max_memory"],
        None if advertise is None else parse_host("--advertise", advertise),
        None if listen.is_loopback else networks,
    )


def _rotation(texts: "list[str] | tuple[()]") -> tuple[int | None, float | None]:
    """Parse a size and a duration, each given at most once."""
    most_bytes: int | None = None
    seconds: float | None = None
    for text in texts:
        is_size = text.strip()[-1:].lower() == "b" or text.strip().isdigit()
        if is_size:
            most_bytes = parse_size_bytes(text, where="--rotate")
        else:
            seconds = parse_duration_ms(text, where="--rotate") / 1000
    if most_bytes == 0 or seconds == 0:
        raise BadValue("--rotate", found=", ".join(texts), needed="more than nothing")
    return most_bytes, seconds


def _say_what_will_be(run: Run, setting: "Setting", proxy: "Proxy") -> None:
    from playhead.capture.address import shown_place, unanswered

    say, here = run.output.say, next(iter(proxy.doors.known().values()))
    # Not the name that clients get, which would hide that other machines can connect.
    place = shown_place(setting.listen.host, proxy.doors.port)
    say(f"listening at {place} for {setting.upstream}; clients use {here} as their broker")
    full = "stops taking requests" if setting.on_slow == "block" else "leaves pairs out"
    say(f"memory for pairs {show_size(setting.memory_bytes)}; when full, the proxy {full}")
    say("no TLS on either side; logins pass through and are not recorded")
    if (reason := unanswered(setting.upstream)) is not None:
        say(f"warning: {setting.upstream} does not answer now, so clients are refused: {reason}")


def _carry(run: Run, setting: "Setting", proxy: "Proxy") -> None:
    began = time.monotonic()
    with first_signal(lambda _: proxy.stop()):
        try:
            proxy.start()
            run.output.say_while_heard(
                f"writing to {setting.order.folder}; Ctrl-C ends the capture"
            )
            _watch(run, proxy)
        finally:
            _report(run, setting, proxy, time.monotonic() - began)
    if proxy.error is not None:
        raise proxy.error
    _need_all(proxy)


def _watch(run: Run, proxy: "Proxy") -> None:
    from playhead.capture.counts import StatusReporter

    every_s = max(run.values["stats_every"] / 1000, _OFTEN_ENOUGH_S)
    for_ms = run.values["for_"]
    ends_s = None if for_ms is None else time.monotonic() + for_ms / 1000
    teller, is_json = StatusReporter(every_s), run.output.progress_form == "json"
    while not proxy.ended.wait(_LOOK_EVERY_S):
        now_s = time.monotonic()
        counts = proxy.counts()
        if is_json:
            lines = [json.dumps(counts.as_document())] if teller.is_due(now_s) else []
        else:
            error, is_stopping = proxy.scribe_error(), proxy.is_stopping
            lines = teller.lines(counts, now_s, error, is_stopping=is_stopping)
        if run.output.progress_form != "none":
            for line in lines:
                run.output.say_while_heard(line)
        if ends_s is not None and now_s >= ends_s:
            proxy.stop()


def _report(run: Run, setting: "Setting", proxy: "Proxy", took_s: float) -> None:
    """Print the final figures, whatever ended the run."""
    counts = proxy.counts()
    run.output.say_while_heard(counts.shown())
    for what, times in {**counts.undecodable, **counts.troubles}.items():
        run.output.say_while_heard(f"{times:,} times: {what}")
    row = {"out": setting.order.folder, "seconds": round(took_s, 3), **counts.as_document()}
    plain = {name: value for name, value in row.items() if not isinstance(value, dict)}
    if run.output.form == "table":
        plain = {name: plain[name] for name in _IN_A_TABLE}
    run.output.emit(row, [plain])


def _need_all(proxy: "Proxy") -> None:
    from playhead.capture.counts import NotAllCaptured

    counts, reason = proxy.counts(), proxy.scribe_error()
    if reason is not None or counts.lost:
        raise NotAllCaptured(counts, reason=reason)
