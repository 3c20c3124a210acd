"""Plays a log that grows, until it is stopped."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from playhead.config.guards import Consent
from playhead.plan import PartitionPlan, Plan
from playhead.queries.following import Following
from playhead.queries.helper import Helper
from playhead.queries.log import Log
from playhead.queries.player import LONGEST_WAIT_S, Player
from playhead.queries.query_rules import QueryRules
from playhead.queries.refusals import refuse_no_order, refuse_several_databases
from playhead.queries.replay import QueryOutcome, QueryReplay, opened
from playhead.queries.row_thread import RowThread
from playhead.queries.rules import Earlier
from playhead.queries.run import QueryRun
from playhead.queries.settling import Settling
from playhead.queries.tape import TapeWriter
from playhead.queries.watchdog import Watchdog
from playhead.queries.workload import Workload
from playhead.replay.journal import STOPPED
from playhead.source import TopicPartition


@dataclass(slots=True)
class FollowingRun(QueryRun):
    """A run that reads new rows while it plays. After each loss of the server, it reads from the beginning again."""

    query_rules: QueryRules = field(kw_only=True)
    open: Callable[[], tuple[Log, TapeWriter]] = field(kw_only=True)
    say: Callable[[str], None] = field(kw_only=True)
    planned: Mapping[TopicPartition, int] = field(kw_only=True)
    """The first offset of the plan for each partition."""
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    _following: Following | None = None
    _away: str = ""

    def _player(self, earlier: Earlier) -> Player:
        self.log, writer = self.open()
        self.tape = writer.tape
        # The new tape is empty, so no entry may cover its rows yet.
        self.starts, self.ends, self._ended = dict(self.planned), {}, []
        settling = Settling(self.tape, self.log, self.results)
        player = Player(settling, self.rules, earlier, is_growing=True)
        thread = RowThread(self.log.source, self.starts)
        self._following = Following(self.log, writer, player, thread)
        return player

    def _turns(self, player: Player, helper: Helper) -> None:
        following = self._following
        assert following is not None  # noqa: S101  made with the player
        dog, workload = Watchdog(player, helper, self.run), Workload(self.log, self.tape)
        with following.thread:
            while not self.is_stopped():
                following.take()
                refuse_several_databases(workload)
                refuse_no_order(workload, self.query_rules)
                self._note_ends(following.starts, following.positions)
                player.longest_wait_s = 0.0 if following.has_rows else LONGEST_WAIT_S
                player.turn()
                dog.look()
                self._note_progress(player, helper)

    def _note_ends(
        self, starts: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]
    ) -> None:
        for place, end in positions.items():
            self.starts.setdefault(place, starts[place])  # The partition may be new.
            self.written.setdefault(place, starts[place])
            self.ends[place] = end

    def _tell(self, player: Player) -> None:
        self._ended += player.forget()
        self.progress(len(self.tape) - player.settling.left, len(self.tape))
        away = self._following.away if self._following is not None else ""
        if away != self._away:
            self._away = away
            self.say(
                f"the log cannot be read, retrying: {away}" if away else "reading the log again"
            )


def follow(
    made: QueryReplay,
    *,
    consent: Consent = None,
    say: Callable[[str], None] = lambda _: None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> QueryOutcome:
    """Play the rows of the plan and new rows until a stop; return the outcome of the rows in the ledger."""
    plan, journal = made.plan, made.journal
    with made.begun(consent) as facts:

        def open_() -> tuple[Log, TapeWriter]:
            return opened(plan, made.source, made.rules, escapes=facts.has_escapes, is_growing=True)

        log, writer = open_()
        is_stopped = journal.stop_file(plan.replay_id).exists
        run = FollowingRun(
            plan.replay_id, log, writer.tape, made.play_rules(made.server), made.server,
            is_stopped=is_stopped, progress=progress, query_rules=made.rules, open=open_, say=say,
            planned={each.place: each.from_offset for each in plan.partitions},
        )  # fmt: skip
        began = time.monotonic()
        run.play()
        covered = _up_to(plan, run.starts, run.written)
        workload = Workload(run.log, run.tape)
        outcome = made.outcome(covered, run, workload, time.monotonic() - began)
        journal.note(plan.replay_id, STOPPED, proof=outcome.proof.as_document())
    return outcome


def _up_to(
    plan: Plan, starts: Mapping[TopicPartition, int], written: Mapping[TopicPartition, int]
) -> Plan:
    """Return the plan reduced to the offsets that the ledger has in each partition."""
    planned = {each.place: each for each in plan.partitions}
    partitions = []
    for place, start in sorted(starts.items()):
        end = max(start, written.get(place, start))
        held = planned.get(place, PartitionPlan(*place, start, end, end, start, end, end))
        partitions.append(
            replace(
                held,
                span_end=end,
                to_offset=end,
                stable_end=max(end, held.stable_end),
                high_watermark=max(end, held.high_watermark),
            )
        )
    return replace(plan, partitions=tuple(partitions))
