"""A budget for unit tests: a case that takes long has to say so with the mark `slow`."""

import resource
from collections.abc import Generator
from pathlib import Path

import pytest

# Of CPU time on a machine that does the work of `_slowness` in `_REFERENCE_S`; most cases take a hundredth of
# a second. A slower machine has more, by its own measure: a shared processor changes within the hour.
BUDGET_S = 8.0
_REFERENCE_S = 0.1
_UNIT = Path(__file__).parent / "unit"


def _cpu_s() -> float:
    """CPU time of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _slowness() -> float:
    """How much longer than on the reference machine a fixed work takes here and now; at least 1."""
    begun_s, total = _cpu_s(), 0
    for number in range(300_000):
        total += number * number % 7
    return max(1.0, (_cpu_s() - begun_s) / _REFERENCE_S)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    begun_s = _cpu_s()
    result = yield
    spent_s = _cpu_s() - begun_s
    is_bound = item.path.is_relative_to(_UNIT) and not (
        item.get_closest_marker("slow")
        or item.get_closest_marker("torture")
        or item.config.getoption("--hypothesis-profile") == "torture"
    )
    if is_bound and spent_s > BUDGET_S and spent_s > (budget_s := BUDGET_S * _slowness()):
        pytest.fail(
            f"{spent_s:.1f} s of CPU time, and a unit test has {budget_s:.1f} s on this machine now: "
            "make it cheaper, or mark it slow and say why",
            pytrace=False,
        )
    return result
