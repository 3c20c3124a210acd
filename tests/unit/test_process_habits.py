"""What PySpark leaves behind in the process is undone."""

import logging

import pytest

from playhead.spark import process_habits


@pytest.mark.parametrize("name", [None, "py4j.java_gateway", "py4j.clientserver"])
def test_py4j_prints_no_traceback_about_a_connection_that_ends(name, caplog):
    with process_habits.kept_away():
        pass
    logger = logging.getLogger(name)
    for module, said in (("clientserver", 0), ("java_gateway", 0), ("own", 1)):
        caplog.clear()
        logger.handle(logger.makeRecord("n", logging.ERROR, f"/x/{module}.py", 1, "m", (), None))
        assert len(caplog.records) == said
