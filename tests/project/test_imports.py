"""Imports point down only, and the check of that is checked itself on small trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_rules import find_imports, find_modules, find_violations

ROOT = Path(__file__).resolve().parents[2]


def plant(root: Path, files: dict[str, str]) -> Path:
    """Writes a small project: a source text for each path."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_project_imports_downwards_only() -> None:
    modules = find_modules(ROOT)
    assert "metastore.commandline" in modules
    assert len(find_imports(ROOT)) > len(modules)
    assert find_violations(ROOT) == []


ALLOWED = {
    "metastore/__init__.py": "",
    "metastore/clock.py": "import time\n",
    "metastore/commandline.py": "from metastore import __version__\n",
    "metastore/log/__init__.py": "from metastore.log.files import Files\n",
    "metastore/log/files.py": "from metastore import faults\nfrom metastore.log import names\n",
    "metastore/log/names.py": "from ..clock import Clock\n",
    "metastore/engine/__init__.py": "",
    "metastore/engine/shard.py": "from metastore.log import Files\nfrom metastore.pb import oxia_pb2\n",
    "metastore/faults.py": "",
    "metastore/pb/__init__.py": "",
    "metastore/pb/oxia_pb2.py": "from google.protobuf import message\nimport metastore.pb.other_pb2\n",
    "metastore/pb/other_pb2.py": "",
    "metastore/server/transport.py": "from grpc._cython import cygrpc\n",
    "metastore/server/transport_streams.py": "import grpc._cython.cygrpc\n",
    "metastore/server/__init__.py": "",
    "metastore/server/command.py": "from metastore.engine.shard import Shard\nimport grpc\n",
    "txn/coordinator.py": "from metastore.interface import MetadataStore\nfrom metastore import log, clock\n",
    "controller/broker.py": "import txn.coordinator\nimport metastore.coordination\n",
    "loadtest/users.py": "import controller.broker\nimport metastore.engine.shard\n",
    "tests/helpers/__init__.py": "",
}


def test_a_tree_that_keeps_the_rules_is_not_accused(tmp_path: Path) -> None:
    assert find_violations(plant(tmp_path, ALLOWED)) == []


VIOLATIONS = [
    ("metastore/engine/extra.py", "import txn.coordinator", "txn is above metastore"),
    ("txn/extra.py", "from controller import broker", "controller is above txn"),
    ("controller/extra.py", "import loadtest.users", "loadtest is above controller"),
    ("txn/extra.py", "from metastore.engine import shard", "txn uses only metastore's public doors"),
    ("txn/extra.py", "from metastore import engine", "txn uses only metastore's public doors"),
    ("txn/extra.py", "import metastore.interfaces", "txn uses only metastore's public doors"),
    ("controller/extra.py", "import metastore.server", "controller uses only metastore's public doors"),
    ("metastore/log/extra.py", "from metastore.engine import shard", "metastore.log uses only"),
    ("metastore/log/extra.py", "from ..engine.shard import Shard", "metastore.log uses only"),
    ("metastore/log/extra.py", "from .. import engine", "metastore.log uses only"),
    ("metastore/log/deep/__init__.py", "from ...engine import shard", "metastore.log uses only"),
    ("metastore/engine/extra.py", "import metastore.server.command", "metastore.engine must not know of"),
    (
        "metastore/engine/extra.py",
        "def later():\n    import metastore.client",
        "metastore.engine must not know of",
    ),
    (
        "metastore/engine/extra.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from metastore import client",
        "metastore.engine must not know of",
    ),
    ("txn/model/extra.py", "import txn.hosting.host", "txn.hosting is above txn.model"),
    ("controller/layout/extra.py", "from controller.topics import paths", "controller.topics is above"),
    ("metastore/server/extra.py", "import metastore.client.parser", "metastore.server must not know of"),
    ("metastore/client/extra.py", "from metastore import server", "metastore.client uses only"),
    ("metastore/pb/extra.py", "from metastore import clock", "metastore.pb uses nothing of the project"),
    ("metastore/clock.py", "import metastore.faults", "metastore.clock uses nothing of the project"),
    ("metastore/__init__.py", "import metastore.clock", "the package itself imports nothing"),
    ("metastore/engine/extra.py", "from grpc._cython import cygrpc", "only metastore.server.transport*"),
    ("metastore/server/extra.py", "from grpc import _cython", "only metastore.server.transport*"),
    ("metastore/extra.py", "import tests.helpers", "the tests are above everything"),
    ("metastore/extra.py", "from helpers import plant", "the tests are above everything"),
]


@pytest.mark.parametrize(("path", "text", "reason"), VIOLATIONS)
def test_a_wrong_import_is_found(path: str, text: str, reason: str, tmp_path: Path) -> None:
    tree = ALLOWED | {"metastore/client/__init__.py": "", "metastore/client/parser.py": "", path: text + "\n"}
    found = find_violations(plant(tmp_path, tree))
    assert len(found) == 1
    assert found[0].startswith(f"{path}:{text.count(chr(10)) + 1}: ")
    assert reason in found[0]


def test_a_circle_of_modules_is_found(tmp_path: Path) -> None:
    circle = {
        "metastore/__init__.py": "",
        "metastore/engine/__init__.py": "",
        "metastore/engine/egg.py": "from metastore.engine import hen\n",
        "metastore/engine/hen.py": "from metastore.engine.egg import Egg\n",
    }
    found = find_violations(plant(tmp_path, circle))
    assert len(found) == 1
    assert "metastore.engine.egg > metastore.engine.hen" in found[0]
