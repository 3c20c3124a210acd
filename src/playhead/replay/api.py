"""The two calls that every interface makes: `Replay.plan()` and `Planned.run()`."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from playhead.config.context import Configuration, configure
from playhead.config.guards import Consent, need_consent
from playhead.config.saved_servers import kept_servers
from playhead.endpoint import Endpoint, system_of
from playhead.errors import Unavailable, UnknownKey, UsageError
from playhead.host.kept_open import keeping_open
from playhead.inventory import Inventory
from playhead.ledger import remaining
from playhead.options.replays import REPLAY_RULES
from playhead.pace import Pace
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.replay.assemble import Wiring, as_source, ends, expecting, guards, refuse_idle_rules
from playhead.replay.begun_replays import (
    begun_plan,
    plan_from_ledger,
    refuse_other_terms,
    with_named_database,
)
from playhead.replay.compare import against_archive, against_table, against_topics
from playhead.replay.earlier_copies import (
    EarlierCopy,
    appended_before,
    appended_by_others,
    earlier_copies,
    said_of,
)
from playhead.replay.engine import MOST_LOCAL_SLOTS, Engine, EngineUse
from playhead.replay.estimate import known_rate
from playhead.replay.guards import (
    has_topic_ids,
    refuse_another_source,
    refuse_another_target,
)
from playhead.replay.journal import Journal, on_unreadable
from playhead.replay.old_groups import remove_old_groups
from playhead.replay.planner import Planner
from playhead.replay.runner import Progress, Runner
from playhead.replay.verify import Verification, verify
from playhead.request import ReplaySpec, Request
from playhead.span import Span
from playhead.target import Target

QUERIES = "queries"
"""Under this name, among the needs of its target, a plan keeps how queries are played."""


def _rule(name: str, rule: Any) -> Any:
    """Return the value of a keyword; a text is read as on the command line."""
    row = REPLAY_RULES.get(name)
    if row is None:
        raise UnknownKey(name, where="the rules of a replay", known=[*REPLAY_RULES])
    if not isinstance(rule, str):
        return rule
    return row.value([rule] if row.repeatable else rule)


@dataclass(frozen=True, init=False)
class Replay:
    """Takes records from a source inside a span, through a transform, to a target, at a pace."""

    source: Endpoint
    target: Endpoint
    span: Span
    pace: Pace
    rules: Mapping[str, Any]
    """The other options of the command line, by name: where, select, key, on_conflict, create …"""

    def __init__(
        self,
        source: Endpoint,
        target: Endpoint,
        span: Span | None = None,
        pace: Pace | None = None,
        rules: Mapping[str, Any] | None = None,
        **more_rules: Any,
    ) -> None:
        named = {**(rules or {}), **more_rules}
        self.__dict__.update(
            source=source,
            target=target,
            span=span or Span.of(),
            pace=pace or Pace.max(),
            rules={name: _rule(name, rule) for name, rule in named.items()},
        )

    def request(self) -> Request:
        said = {"span": str(self.span), "pace": str(self.pace), **self.rules}
        return Request(source=str(self.source), target=str(self.target), **said)

    def plan(
        self, configuration: Configuration | None = None, *, replay_id: str | None = None
    ) -> "Planned":
        """Make the plan; write nothing."""
        return plan(self.request(), configuration or configure({}), replay_id=replay_id)


@dataclass(repr=False)
class Planned:
    """A plan with everything that running it needs."""

    plan: Plan
    configuration: Configuration
    engine: Engine
    journal: Journal = field(default_factory=Journal)
    is_begun: bool = False
    """Whether the target's ledger already has this plan under its id."""
    is_resumed: bool = False
    """Whether somebody has agreed to this plan before, and so to the copies that it names."""
    trusts_ledger: bool = False
    """Whether to continue from a ledger that has less than this machine's journal has seen there."""
    is_endless: bool = False
    """Whether it is the plan of a live pipeline."""
    copies_again: bool = False
    """Whether records may be written that another run has written there before."""
    _agreed: Plan | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return str(self.plan)

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()

    @cached_property
    def ends(self) -> Wiring:
        """Source and target, made once for planning, running and verifying."""
        return ends(self.plan.request, self.configuration, is_endless=self.is_endless)

    def has_nothing_left(self) -> bool:
        """Whether the target's ledger has all of it, so that a run only says its proof; no if it does not answer."""
        with suppress(Unavailable):
            committed = [each.slice for each in self.ends.target.entries(self.plan.replay_id)]
            return bool(committed) and not remaining(self.plan.slices(), committed)
        return False

    def refuse_another_source(self) -> None:
        """Refuse if the source is not the planned one any more, also where the run would only say its proof.

        A source that does not answer is the run's business, which may not need it.
        """
        with suppress(Unavailable):
            if has_topic_ids(self.plan):
                refuse_another_source(self.ends.source, self.plan)

    def earlier_copies(self) -> Sequence[EarlierCopy]:
        """Who has written the same records there before, by the target's ledger of this moment."""
        if self.is_endless:
            return ()
        return earlier_copies(self.ends.target, self.plan, is_agreed=self.is_resumed)

    def _copies(self) -> str:
        if self.copies_again or self.is_endless:
            return ""
        return said_of(self.earlier_copies()) or appended_by_others(self.ends.target, self.plan)

    @property
    def servers(self) -> dict[str, str]:
        """How the servers are named, so that a resume reaches the same ones; no secrets."""
        return kept_servers(self.configuration)

    def agree(self, consent: Consent = None) -> None:
        """Return if this may be written. `run` asks too, but not a second time."""
        if self._agreed is self.plan:
            return
        target = self.plan.request.target_endpoint
        into = f"into {target.shown()}"
        action = f"write {into} from now on" if self.is_endless else f"replay {into}"
        configuration = guards(self.plan.request, self.configuration)
        need_consent(action, target.name, configuration, consent, copies=self._copies)
        self._agreed = self.plan

    @keeping_open()
    def run(
        self,
        *,
        consent: Consent = None,
        again: bool = False,
        say: Callable[[str], None] = lambda _: None,
        progress: Progress = lambda _done, _total, _entries: None,
        patience_s: float = 120.0,
    ) -> Proof:
        """Do what the ledger lacks; return the proof, or raise if the run could not be finished.

        A read-only context refuses it. One marked production requires `consent`: the target's name, or a
        function that answers the question. Records that another run copied there before are copied once
        more only with `again`, or if that function says yes.
        """
        self.copies_again = self.copies_again or again
        self.agree(consent)
        self.journal.keep(self.plan, self.servers)

        self.engine.tell(say)

        def start_engine() -> None:
            if not self.engine.is_there:
                say("starting the engine")
            self.engine.session()

        runner = Runner(
            self.plan,
            self.ends,
            self.journal,
            self.engine.run_job,
            start_engine=None if self.engine.is_there else start_engine,
            paced_slots=self.engine.paced_slots,
            cancel_job=self.engine.cancel,
            say=say,
            progress=progress,
            slots=self.engine.slots,
            is_bounded=self.engine.is_bounded,
            patience_s=patience_s,
            tasks_see_files=self.engine.is_local,
            trusts_ledger=self.trusts_ledger,
        )
        proof = runner.run()
        remove_old_groups(self.plan, self.configuration, self.journal)
        return proof

    @keeping_open()
    def verify(self, *, say: Callable[[str], None] = lambda _: None) -> Verification:
        """Read the target back, compare it with the source, and store the result in the journal."""
        self.engine.tell(say)
        refuse_another_target(self.ends.target, self.plan)
        refuse_other_terms(self.ends.target, self.plan)
        found = verify(self.plan, self.ends, self.engine.run_job, self.engine.slots)
        self.journal.note_verification(self.plan.replay_id, found.as_document())
        return found

    @keeping_open()
    def compare(self, *, say: Callable[[str], None] = lambda _: None) -> Verification:
        """Compare the target with the span itself, without a run that says what went where."""
        self.engine.tell(say)
        return self._compared().after(self.plan, self.ends.target, is_of_run=False)

    def _compared(self) -> Verification:
        spec, both = self.plan.request.spec, self.ends
        if isinstance(both.target, Inventory):
            return against_table(self.plan, both, self.engine.run_job, self.engine.slots)
        kind = system_of(spec.target).kind
        if kind == "table":
            raise UsageError(
                f"{spec.target.shown()} can be compared with a replay, but not with a span",
                hint="playhead verify ID",
            )
        if spec.is_transformed or spec.topic.redrive:
            raise UsageError(
                "after --where, --select or --redrive, records can be compared only with their run",
                hint="playhead verify ID",
            )
        topics = sorted(self.plan.source.topics)
        there = as_source(spec, topics, self.configuration)
        if kind != "topic":
            return against_archive(self.plan, both.source, there)
        names = {each: spec.target_topic(each) for each in topics}
        return against_topics(self.plan, both.source, there, names)


@keeping_open()
def plan(
    request: Request,
    configuration: Configuration,
    *,
    replay_id: str | None = None,
    is_endless: bool = False,
    use: EngineUse = EngineUse(),  # noqa: B008 - it is frozen
) -> Planned:
    """Make the plan of a request.

    If the target's ledger knows the id, the result is the plan of that ledger; another request under that
    id is refused. The plan of a live pipeline is endless, and made for one start.
    """
    request = request.from_anywhere()
    spec = request.spec  # Refuse it now, before the servers are asked.
    refuse_idle_rules(spec)
    both = ends(request, configuration, is_endless=is_endless)
    if replay_id is not None and not is_endless:
        begun = begun_plan(both.target, request, replay_id)
        if begun is not None:
            return planned(begun, configuration, share=use.share, is_begun=True)
    engine = _engine(configuration, spec, use.share)
    engine.tell(use.say)
    if use.is_warmed:
        engine.warm()
    engine.check()
    journal = Journal()
    unreadable: list[str] = []
    planner = Planner(
        request,
        both,
        time.time_ns(),
        transformed=engine.transformed if spec.is_transformed else None,
        known_rate=known_rate(journal, request, unreadable) if spec.pace.is_max else None,
    )
    made = Planned(planner.plan(replay_id), configuration, engine, journal, is_endless=is_endless)
    made.ends = both
    into = request.target_endpoint.shown()
    copies = [each.note(into) for each in made.earlier_copies()]
    appended = [each.note_of_table(into) for each in appended_before(both.target, made.plan)]
    notes = [*copies, *appended, *on_unreadable(unreadable)]
    made.plan = replace(made.plan, notes=(*made.plan.notes, *notes))
    return made


def planned(
    saved: Plan,
    configuration: Configuration,
    *,
    share: float | None = None,
    is_begun: bool = False,
) -> Planned:
    """Return a saved plan to be run unchanged; what it would create is computed again."""
    if QUERIES in saved.target.needs:
        raise UsageError(
            f"{saved.replay_id} is a replay of queries",
            hint=f"playhead queries replay --id {saved.replay_id}",
        )
    engine = _engine(configuration, saved.request.spec, share)
    engine.check_words()
    made = Planned(saved, configuration, engine, is_begun=is_begun, is_resumed=is_begun)
    expecting(made.ends.source, saved.source)  # Refuse topics of others before anything is shown.
    made.plan = _said_anew(saved, made.ends.target)
    return made


def _said_anew(saved: Plan, target: Target) -> Plan:
    try:
        creates = tuple(target.creates(saved.target.needs))
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise UsageError(
            f"what the plan of {saved.replay_id} needs from its target is invalid: {exc}",
            hint="run the same command again to make a new plan",
        ) from exc
    return replace(saved, target=replace(saved.target, creates=creates))


def resumed(
    replay_id: str,
    target: Endpoint,
    configuration: Configuration,
    *,
    share: float | None = None,
) -> Planned:
    """Return a replay that another machine began, from the ledger of its target."""
    plan = plan_from_ledger(replay_id, target, configuration)
    named = with_named_database(target, configuration)
    return planned(plan, named, share=share, is_begun=True)


def _engine(configuration: Configuration, spec: ReplaySpec, share: float | None) -> Engine:
    if not spec.is_transformed:
        return Engine(configuration, share=share)
    # One task for each partition, mostly waiting; their number is not known yet.
    wanted_slots = 0 if spec.pace.is_max else MOST_LOCAL_SLOTS
    return Engine(configuration, spec.transform, wanted_slots=wanted_slots, share=share)
