"""What PySpark leaves behind in the process is undone."""

import logging
import subprocess
import sys
import time

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


GONE = """
import sys, threading, time
from playhead.spark import session

remote = {"remote": "sc://127.0.0.1:9"}
threading.Thread(target=session.session, args=("x",), kwargs=remote, daemon=True).start()
while not any("retries" in frame.f_code.co_filename for frame in sys._current_frames().values()):
    time.sleep(0.1)
"""


def test_a_process_ends_although_its_spark_connect_server_does_not_answer():
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", GONE], check=True, timeout=120, capture_output=True)
    assert time.monotonic() - began < 60
