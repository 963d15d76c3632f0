"""One Spark session for all tests that need one: small, quiet, on loopback."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

from metastore.spark import register
from metastore.spark.views import GROUP

PROJECT_ROOT = Path(__file__).resolve().parents[2]
LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
# Every task that fails is told by the error that the test sees.
logger.tasks.name = org.apache.spark
logger.tasks.level = off
"""
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    # Of few rows a plan costs more than its execution: nothing is compiled, nothing is planned anew.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""For sessions that see few rows."""


def settings(folder: Path) -> dict[str, str]:
    """What the sessions of tests are started with; `folder` takes what they write."""
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Dlog4j2.configurationFile={log4j}",
        **FEW_ROWS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.task.maxFailures": "1",
    }


def start_session(folder: Path) -> SparkSession:
    """A session that knows the source `tidemark`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    places = [PROJECT_ROOT, PROJECT_ROOT / "tests", _installed_view(folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, places), *filter(None, [os.environ.get("PYTHONPATH")])])
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in settings(folder).items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Spark thinks of the versions around it
        session = builder.getOrCreate()
    register(session)
    return session


def _installed_view(folder: Path) -> Path:
    """A place where a distribution seems to be installed that has the view `words`."""
    place = folder / "installed"
    about = place / "tidemark_test_views-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tidemark-test-views\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nwords = support.spark_views:WORDS\n", encoding="utf-8")
    return place
