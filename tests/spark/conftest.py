"""What the tests of the data source share: one session of Spark, and servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.fixtures import pytest_runtest_makereport, start_server, stop_like_interrupted
from support.spark import start_session

__all__ = ["pytest_runtest_makereport", "spark", "start_server", "stop_like_interrupted"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, for all tests."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
