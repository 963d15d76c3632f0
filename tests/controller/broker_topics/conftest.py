"""Brokers under test are those of the tests beside these: their helpers serve here as well."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "broker"))
