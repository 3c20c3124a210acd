"""A unit test that takes more CPU time than its budget fails, unless it is marked slow."""

import pytest

from tests import fix_budget


def spends(
    item: pytest.Item, monkeypatch: pytest.MonkeyPatch, seconds: float, slowness: float = 1.0
) -> None:
    clock = iter([10.0, 10.0 + seconds])
    with monkeypatch.context() as patch:
        patch.setattr(fix_budget, "_cpu_s", lambda: next(clock))
        patch.setattr(fix_budget, "_slowness", lambda: slowness)
        call = fix_budget.pytest_runtest_call(item)
        next(call)
        with pytest.raises(StopIteration):
            call.send(None)


def test_within_its_budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    spends(request.node, monkeypatch, fix_budget.BUDGET_S)


def test_beyond_it(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^8\.1 s of CPU time.* has 8\.0 s"):
        spends(request.node, monkeypatch, fix_budget.BUDGET_S + 0.1)


def test_a_slow_machine_has_more(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spends(request.node, monkeypatch, fix_budget.BUDGET_S + 0.1, slowness=1.1)
    with pytest.raises(pytest.fail.Exception, match=r"^9\.0 s of CPU time.* has 8\.8 s"):
        spends(request.node, monkeypatch, fix_budget.BUDGET_S + 1.0, slowness=1.1)


@pytest.mark.slow
def test_beyond_it_with_the_mark(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spends(request.node, monkeypatch, fix_budget.BUDGET_S + 0.1)


def test_the_slowness_is_measured_and_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for spent_s, slowness in ((0.05, 1.0), (0.1, 1.0), (0.25, 2.5)):
        clock = iter([10.0, 10.0 + spent_s])
        with monkeypatch.context() as patch:
            patch.setattr(fix_budget, "_cpu_s", lambda clock=clock: next(clock))
            assert fix_budget._slowness() == pytest.approx(slowness)


def test_the_clock_counts_work() -> None:
    before_s = fix_budget._cpu_s()
    while fix_budget._cpu_s() < before_s + 0.05:
        sum(range(1_000))
