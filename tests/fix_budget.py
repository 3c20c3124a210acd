"""A budget for unit tests: a case that takes long has to say so with the mark `slow`."""

import resource
from collections.abc import Generator
from pathlib import Path

import pytest

# Of CPU time, which does not depend on what else the machine does; most cases take a hundredth of a second.
BUDGET_S = 3.0
_UNIT = Path(__file__).parent / "unit"


def _cpu_s() -> float:
    """CPU time of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


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
    if is_bound and spent_s > BUDGET_S:
        pytest.fail(
            f"{spent_s:.1f} s of CPU time, and a unit test has {BUDGET_S:g} s: "
            "make it cheaper, or mark it slow and say why",
            pytrace=False,
        )
    return result
