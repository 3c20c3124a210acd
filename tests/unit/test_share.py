"""How much of the machine a replay takes: what was said, or half of it beside a live pipeline."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from playhead.cli.options import Run
from playhead.cli.output import Output
from playhead.cli.replay.replay_options import share
from playhead.config.context import configure
from playhead.endpoint import Endpoint
from playhead.errors import BadValue
from playhead.replay.engine import Engine
from playhead.replay.pipelines import Pipelines, pipeline_id
from tests.unit.test_live import PIPELINE

TARGET = Endpoint.parse(PIPELINE.target)


def said(text: str | None) -> Run:
    return Run(Output(quiet=True), {"max_share": text})


@pytest.mark.parametrize(
    ("text", "needed"), [("50%", 0.5), ("12.5%", 0.125), ("100%", 1.0), ("0.25", 0.25), ("1", 1.0)]
)
def test_a_share_that_is_said(text: str, needed: float) -> None:
    assert share(said(text), TARGET) == needed


@pytest.mark.parametrize("text", ["0%", "101%", "2", "half", "", "-1%", "0"])
def test_a_share_that_is_none(text: str) -> None:
    with pytest.raises(BadValue):
        share(said(text), TARGET)


def test_beside_a_live_pipeline_it_is_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    pipelines = Pipelines()
    pipelines.keep(PIPELINE)
    run = replace(said(None), output=Output())
    assert share(run, TARGET) is None
    with pipelines.journal.held(pipeline_id(PIPELINE.name)):
        assert share(run, TARGET) == 0.5
        assert "laps writes to postgres:laps live" in capsys.readouterr().err
        assert share(run, Endpoint.parse("postgres:other")) is None
        assert share(said("100%"), TARGET) == 1.0


def test_a_share_bounds_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    configuration = configure({})
    slots = [Engine(configuration, share=part).slots for part in (None, 1.0, 0.5, 0.3, 0.01)]
    assert slots == [8, 8, 4, 2, 1]
    assert not Engine(configuration).is_bounded
    # Tasks of a pace wait most of the time.
    assert Engine(configuration, wanted_slots=16, share=0.5).slots == 16
