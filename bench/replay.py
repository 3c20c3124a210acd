"""The replay's promises: as fast as the best that others do, and exactly once on top."""

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import load
from bench import replay_baselines as others
from bench.measure import Row
from bench.replay_stage import Figures, Stage, in_rounds, stage
from bench.replay_watch import Cost, Watched
from playhead.replay.engine_warmup import train

_PLAYHEAD = [sys.executable, "-m", "playhead.cli.app"]
_REPLAY = [*_PLAYHEAD, "replay"]
_ALWAYS = ["--from", "start", "--yes", "-o", "json"]
_COLD_RECORDS = 10_000
_PACED_S = 10
_CONFLICT_EVERY = 100
"""Of so many rows one is there already, all along the span, so that no part of it is free of conflicts."""

RECORDS_PER_S = "records/s"
PARTS = ("postgres", "topics", "parquet", "cold", "memory", "paced")


def rows(given: argparse.Namespace) -> Iterator[Row]:
    wanted = given.only or [part for part in PARTS if part != "memory" or not given.quick]
    with stage(given.records, given.rounds) as ground:
        if given.baselines:
            yield from _baselines(ground)
            return
        train()
        measures = {
            "postgres": _postgres,
            "topics": _topics,
            "parquet": _parquet,
            "cold": _cold,
            "memory": _memory,
            "paced": _paced,
        }
        for part in wanted:
            yield from measures[part](ground)


def _baselines(ground: Stage) -> Iterator[Row]:
    """To look at, and to tune, what we compare with."""
    cold = ground.loaded(_COLD_RECORDS, "cold")
    runs = {
        "server-side COPY": lambda _: others.server_copy(ground),
        "kafka-consumer-perf-test": lambda _: others.consumer_perf(ground),
        "confluent-kafka loop": lambda _: others.loop(ground),
        "MirrorMaker 2": lambda _: others.mirror(ground),
        "plain PySpark, to its first row": lambda _: others.plain_spark(
            ground, cold, _COLD_RECORDS
        ),
    }
    for name, found in zip(runs, in_rounds(runs, ground.rounds), strict=True):
        rate, unit = (found.run_s, "s") if "first row" in name else (found.rate, RECORDS_PER_S)
        yield Row(f"baseline: {name}", rate, unit, our_figures=found.as_json())


def _watch(ground: Stage, source: str, target: str, *more: str) -> Watched:
    command = [*_REPLAY, source, target, *_ALWAYS, *more]
    return Watched(command, ground.environment(), ground.servers)


def _replay(ground: Stage, source: str, target: str, *more: str) -> tuple[Cost, dict[str, Any]]:
    """The whole command, and the proof that it prints."""
    with _watch(ground, source, target, *more) as it:
        cost = it.wait()
    return cost, json.loads(cost.said)


def _copied(ground: Stage, source: str, target: str, *more: str) -> Figures:
    cost, proof = _replay(ground, source, target, *more)
    return Figures.of(ground.records, _run_s(proof), cost)


def _run_s(proof: dict[str, Any]) -> float:
    return float(proof["took"]["run_s"])


def _rate_row(
    work: str, ours: Figures, baseline: str, theirs: Figures, *, at_least: float, note: str = ""
) -> Row:
    whole = (
        f"our rate is from the first task's start to the last commit; "
        f"the whole command took {ours.wall_s:.1f} s{note}"
    )
    return Row(
        work,
        ours.rate,
        RECORDS_PER_S,
        baseline,
        theirs.rate,
        at_least=at_least,
        our_figures=ours.as_json(),
        their_figures=theirs.as_json(),
        note=whole,
    )


def _postgres(ground: Stage) -> Iterator[Row]:
    source = f"kafka:{ground.loaded(ground.records)}"
    some = _some_rows(ground)
    table = ""

    def server_copy(_: int) -> Figures:
        return others.server_copy(ground)

    def fresh(_: int) -> Figures:
        nonlocal table
        table = ground.fresh_table()
        found = _copied(ground, source, f"postgres:{table}", "--id", table)
        others.expect(ground.rows_in(table), ground.records)
        return found

    def again(_: int) -> Figures:
        before = ground.untouched_sign(table)
        cost, _proof = _replay(ground, source, f"postgres:{table}", "--id", table)
        others.expect(ground.untouched_sign(table), before)
        ground.drop_table(table)
        return Figures.of(ground.records, cost.wall_s, cost)

    def staged(_: int) -> Figures:
        table = ground.fresh_table()
        ground.fill_table(table, some)
        rule = ["--on-conflict", "ignore", "--key", "car,seq"]
        found = _copied(ground, source, f"postgres:{table}", *rule)
        others.expect(ground.rows_in(table), ground.records)
        ground.drop_table(table)
        return found

    runs = {"COPY": server_copy, "fresh": fresh, "again": again, "staged": staged}
    theirs, ours, second, merged = in_rounds(runs, ground.rounds)
    copy = "server-side COPY of the same rows"
    work = "topic → Postgres, fresh table with primary key"
    yield _rate_row(work, ours, copy, theirs, at_least=0.85)
    work = "topic → Postgres, conflicts possible (stage)"
    note = f"; one row in {_CONFLICT_EVERY} was there before"
    yield _rate_row(work, merged, copy, theirs, at_least=0.6, note=note)
    yield Row(
        "the same span again, finished",
        second.wall_s,
        "s",
        "the first run, whole command",
        ours.wall_s,
        at_most=0.1,
        our_figures=second.as_json(),
        their_figures=ours.as_json(),
        note="whole commands; the table was not touched",
    )


def _some_rows(ground: Stage) -> Path:
    file = ground.folder / "some-rows.txt"
    with ground.rows_file.open() as every, file.open("w") as some:
        some.writelines(row for n, row in enumerate(every) if not n % _CONFLICT_EVERY)
    file.chmod(0o644)
    return file


def _topics(ground: Stage) -> Iterator[Row]:
    source = f"kafka:{ground.loaded(ground.records)}"

    def ours(number: int) -> Figures:
        topic = ground.fresh_topic()
        found = _copied(ground, source, f"kafka:{topic}")
        if number == 0:  # reading it all would warm and tire the broker in every round
            others.expect(ground.committed_in(topic), ground.records)
        ground.drop_topics(topic)
        return found

    def mirror(_: int) -> Figures:
        return others.mirror(ground)

    def loop(_: int) -> Figures:
        return others.loop(ground)

    found, mirrored, looped = in_rounds(
        {"ours": ours, "mirror": mirror, "loop": loop}, ground.rounds
    )
    work = "topic → topic, exactly once, timestamps kept"
    note = "; the mirror's rate and processor time are from its first to its last record"
    yield _rate_row(
        work, found, "MirrorMaker 2, tuned, not exactly once", mirrored, at_least=1.6, note=note
    )
    note = "; the loop's rate is from its first fetch to its last acknowledgement"
    yield _rate_row(
        work, found, "confluent-kafka loop, not exactly once", looped, at_least=0.9, note=note
    )


def _parquet(ground: Stage) -> Iterator[Row]:
    source = f"kafka:{ground.loaded(ground.records)}"

    def ours(number: int) -> Figures:
        folder = ground.folder / f"archive-{number}"
        found = _copied(ground, source, f"parquet:{folder}")
        others.expect(_archived(folder), ground.records)
        shutil.rmtree(folder)
        return found

    def perf(_: int) -> Figures:
        return others.consumer_perf(ground)

    found, read = in_rounds({"ours": ours, "consumer-perf": perf}, ground.rounds)
    note = "; kafka-consumer-perf-test only reads; the rate is the one that it prints"
    yield _rate_row(
        "topic → Parquet", found, "kafka-consumer-perf-test", read, at_least=0.4, note=note
    )


def _archived(folder: Path) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))


def _cold(ground: Stage) -> Iterator[Row]:
    topic = ground.loaded(_COLD_RECORDS, "cold")

    def ours(_: int) -> Figures:
        table = ground.fresh_table()
        found = others.until_first_row(
            ground,
            table,
            _COLD_RECORDS,
            lambda: _watch(ground, f"kafka:{topic}", f"postgres:{table}"),
        )
        ground.drop_table(table)
        return found

    def plain(_: int) -> Figures:
        return others.plain_spark(ground, topic, _COLD_RECORDS)

    found, plainly = in_rounds({"ours": ours, "plain": plain}, ground.rounds)
    yield Row(
        "cold command to first committed row, 10,000 records",
        found.run_s,
        "s",
        "a plain PySpark script: from_json, COPY",
        plainly.run_s,
        at_most=0.6,
        our_figures=found.as_json(),
        their_figures=plainly.as_json(),
        note="until another session sees a row; ours with the start-up cache that the first start "
        f"makes, theirs on the machine's own Java; to the end {found.wall_s:.1f} s and "
        f"{plainly.wall_s:.1f} s",
    )


def _memory(ground: Stage) -> Iterator[Row]:
    few, many = ground.records // 2, ground.records * 5

    def source(records: int) -> str:
        return f"kafka:{ground.loaded(records, f'of-{records}')}"

    def postgres(records: int) -> Figures:
        table = ground.fresh_table()
        cost, proof = _replay(ground, source(records), f"postgres:{table}")
        ground.drop_table(table)
        return Figures.of(records, _run_s(proof), cost)

    def kafka(records: int) -> Figures:
        copy = ground.fresh_topic()
        cost, proof = _replay(ground, source(records), f"kafka:{copy}")
        ground.drop_topics(copy)
        return Figures.of(records, _run_s(proof), cost)

    for name, run in {"Postgres": postgres, "topic": kafka}.items():
        found = {records: run(records) for records in (few, many)}
        yield Row(
            f"memory of driver and workers, {many:,} records, topic → {name}",
            found[many].peak_mb,
            "MB",
            f"{few:,} records",
            found[few].peak_mb,
            at_most=1.15,
            our_figures=found[many].as_json(),
            their_figures=found[few].as_json(),
            note="the peak of all processes' resident memory, shared pages counted in each",
        )
    ground.drop_topics("of-")


def _paced(ground: Stage) -> Iterator[Row]:
    records = load.RECORDS_PER_SECOND * _PACED_S
    source = f"kafka:{ground.loaded(records, 'paced')}"
    schedules: list[dict[str, Any]] = []

    def ours(_: int) -> Figures:
        topic = ground.fresh_topic()
        cost, proof = _replay(ground, source, f"kafka:{topic}", "--pace", "1x")
        others.expect(ground.committed_in(topic), records)
        others.expect(proof["pace"]["early"], 0)
        schedules.append(proof["pace"])
        ground.drop_topics(topic)
        return Figures.of(records, _run_s(proof), cost)

    (found,) = in_rounds({"paced": ours}, ground.rounds)
    p50, p99, most = (
        statistics.median(schedule[name] / 1000 for schedule in schedules[1:])
        for name in ("p50_us", "p99_us", "max_us")
    )
    yield Row(
        "paced run, schedule error p99 at 2,000 records/s",
        p99,
        "ms",
        at_most=20,
        our_figures=found.as_json(),
        note=f"--pace 1x into a topic; {_PACED_S} s of records took {found.run_s:.1f} s; "
        f"error p50 {p50:.1f} ms, greatest {most:.1f} ms",
    )
