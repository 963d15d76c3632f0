"""What Java and Spark always say when they start is not heard; anything else is."""

from __future__ import annotations

import subprocess
import threading

import pytest

from txn.audit.starting import LISTENER, murmur_unheard

SAYS = """
echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2
echo "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties" >&2
echo '26/11/19 02:01:35 WARN NativeCodeLoader: Unable to load native-hadoop library' >&2
echo 'WARN: the disk is full' >&2
echo 'Setting Spark log level to "OFF".' >&2
cat >&2 <<END
Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/worker.py", line 1, in main
MemoryError
END
echo 'no room' >&2
"""
HEARD = """\
WARN: the disk is full
Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/worker.py", line 1, in main
MemoryError
no room
"""


def test_only_what_means_nobody_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with murmur_unheard():
        subprocess.run(["sh", "-c", SAYS], check=True)
    for thread in threading.enumerate():
        if thread.name == LISTENER:
            thread.join()
    assert capfd.readouterr().err == HEARD


def test_who_fails_has_been_heard(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError), murmur_unheard():
        subprocess.run(["sh", "-c", SAYS + "exit 1"], check=True)
    assert capfd.readouterr().err == HEARD
