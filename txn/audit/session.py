"""The session of Spark that an audit runs in: the one that there is, or one of its own, on whatever cluster."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from metastore.commandline import CommandError, UsageError
from metastore.spark import register
from txn.audit.starting import murmur_unheard

JAVA = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
"""Nobody waits for Java's answers, so its pauses may be long if they are few. And the conditions of all rules together
are so long a method that it would not be compiled."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    # An audit's plans are more classes than Spark keeps of its own accord: the next audit would compile them all again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Every task that groups or sorts takes a page: of its own accord Spark makes them 64 MB, and most have a few rows.
    "spark.buffer.pageSize": "2m",
    # What is kept are the bytes of rows: they are written and read as they are, without an object of Java for each.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}
"""Where nobody says otherwise. The messages of Spark's own are for those who look after Spark."""
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # What is left to join is added up already: to look at it again before each step costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
}
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""As many as there are cores, on one machine. Spark's own number is for clusters."""
LOCAL_MASTER = "local"
"""How the URLs of masters begin that are no cluster."""
LOCAL = f"{LOCAL_MASTER}[*]"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""What `spark-submit` sets: the master is its affair then."""
WHEEL = ".whl"
CODE = (".py", ".zip", ".egg", WHEEL)


@contextmanager
def session(master: str | None, settings: Sequence[str], code: Sequence[Path]) -> Iterator[SparkSession]:
    """A session that knows the data source; one that is begun here ends with the block.

    `settings` are `NAME=VALUE`; `code` is what executors are to import.
    """
    present = SparkSession.getActiveSession()
    if present is not None:
        with _code_sent(present, code):
            register(present)
            yield present
        return
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise CommandError("Spark needs Java 17 or later: install a JRE, as `apt-get install openjdk-17-jre-headless`")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tidemark audit")
    given = _given(settings)
    for name, value in {**_where(master), **given}.items():
        builder = builder.config(name, value)
    with murmur_unheard(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Spark thinks of the versions around it
        spark = builder.getOrCreate()
    if (spark.sparkContext.master or "").startswith(LOCAL_MASTER) and SHUFFLE_PARTITIONS not in given:
        spark.conf.set(SHUFFLE_PARTITIONS, spark.sparkContext.defaultParallelism)
    try:
        with _code_sent(spark, code):
            register(spark)
            yield spark
    finally:
        spark.stop()


def settings_of(master: str) -> dict[str, str]:
    """What a session of an audit is begun with there, where nobody says otherwise."""
    return {**SETTINGS, **(LOCAL_SETTINGS if master.startswith(LOCAL_MASTER) else {})}


def _where(master: str | None) -> dict[str, str]:
    if master is None and SUBMITTED in os.environ:
        return SETTINGS
    master = master or os.environ.get("MASTER", LOCAL)
    return {"spark.master": master, **settings_of(master)}


def _given(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--conf {setting!r}: NAME=VALUE is expected")
        found[name] = value
    return found


@contextmanager
def _code_sent(spark: SparkSession, code: Sequence[Path]) -> Iterator[None]:
    """Executors import from these files as long as the block lasts."""
    for path in code:
        if path.suffix not in CODE:
            raise UsageError(f"--py-files {path}: a file of Python is expected: {', '.join(CODE)}")
        if not path.is_file():
            raise UsageError(f"--py-files {path}: there is no such file")
    # The driver serves the files from where they are.
    with tempfile.TemporaryDirectory(prefix="tidemark-audit-") as folder:
        for path in code:
            sent = path
            if path.suffix == WHEEL:  # a zip, which Spark only knows by its name
                sent = Path(folder) / f"{path.stem}.zip"
                shutil.copyfile(path, sent)
            spark.sparkContext.addPyFile(str(sent))
        yield
