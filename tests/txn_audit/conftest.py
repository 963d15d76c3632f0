"""What the tests of the audit share: one session of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.spark import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, for all tests."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
