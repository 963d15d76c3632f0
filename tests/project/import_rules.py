"""Which part of the project may import which, and a reading of the source that finds what breaks it.

Imports point down only: loadtest above all, controller on txn, txn on metastore's public doors. Inside
metastore the rooms have an order too. Imports count wherever they stand, in a function or under TYPE_CHECKING
as well: what the type checker must read, a reader must read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

FLOORS = ("metastore", "txn", "controller", "loadtest")

# All that txn and controller may use of metastore: the contract, leadership, the log, and plain tools.
DOORS = ("metastore.interface", "metastore.coordination", "metastore.log", "metastore.spark")
TOOLS = (
    "metastore.addresses",
    "metastore.clock",
    "metastore.commandline",
    "metastore.dialling",
    "metastore.faults",
    "metastore.files",
    "metastore.logs",
    "metastore.metrics_server",
    "metastore.quantities",
    "metastore.stagecraft",
    "metastore.tables",
    "metastore.tokens",
)

# Rooms that may import only what is named here (and themselves) of the project.
ONLY: Mapping[str, tuple[str, ...]] = {
    "metastore.pb": (),
    "metastore.clock": (),
    "metastore.faults": (),
    "metastore.files": (),
    "metastore.tables": (),
    "metastore.addresses": (),
    "metastore.allocation": (),
    "metastore.logs": (),
    "metastore.tokens": ("metastore.clock",),
    "metastore.dialling": ("metastore.clock",),
    "metastore.quantities": (),
    "metastore.metrics_server": (),
    "metastore.stagecraft": (),
    "metastore.commandline": ("metastore.quantities",),
    "metastore.log": ("metastore.clock", "metastore.faults", "metastore.files"),
    "metastore.interface": ("metastore.addresses", "metastore.clock", "metastore.faults"),
    "metastore.coordination": ("metastore.interface", "metastore.clock", "metastore.faults"),
    "metastore.client": (
        "metastore.interface",
        "metastore.coordination",
        "metastore.clock",
        "metastore.commandline",
        "metastore.tables",
    ),
}

# What stands on the engine, side by side.
FRONTS = ("metastore.server", "metastore.providers", "metastore.coordination", "metastore.client")
ABOVE = ("metastore.interface", "metastore.commandline", "metastore.tables")

# Rooms that may not import the rooms named here.
NEVER: Mapping[str, tuple[str, ...]] = {
    "metastore.engine": (*FRONTS, "metastore.watch", *ABOVE),
    "metastore.watch": (*FRONTS, *ABOVE),
    "metastore.server": ("metastore.client", "metastore.providers", "metastore.coordination", "metastore.interface"),
    "metastore.providers": ("metastore.client", "metastore.server", "metastore.coordination"),
}

# Rooms of a floor from the lowest to the highest: none imports a higher one.
LADDERS = (
    ("txn.pb", "txn.model", "txn.outcomes", "txn.coordinator", "txn.segment", "txn.posts", "txn.hosting", "txn.doctor"),
    (
        "controller.pb",
        "controller.layout",
        "controller.assignment",
        "controller.autoscale",
        "controller.topics",
        "controller.operations",
        "controller.subscriptions",
        "controller.watches",
        "controller.leading",
        "controller.peers",
        "controller.broker",
        "controller.client",
        "controller.admin",
        "controller.standalone",
        "controller.demo",
    ),
)

# grpcio's core has no stable interface: one place depends on it.
CORE = "grpc._cython"
CORE_USER = "metastore.server.transport"


@dataclass(frozen=True, slots=True)
class Import:
    """One module imports another, in this line."""

    importer: str
    imported: str
    path: Path
    line: int

    def complaint(self, reason: str) -> str:
        return f"{self.path}:{self.line}: {self.importer} imports {self.imported}: {reason}"


def is_within(name: str, *rooms: str) -> bool:
    """Whether a module is one of these or lies below one of them."""
    return any(name == room or name.startswith(room + ".") for room in rooms)


def find_modules(root: Path) -> dict[str, Path]:
    """The modules of all floors, by their dotted names."""
    modules = {}
    for floor in FLOORS:
        for path in sorted((root / floor).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def find_imports(root: Path) -> list[Import]:
    """Every import in every module; of the project's own names, the module they come from."""
    modules = find_modules(root)
    found = []
    for importer, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node in ast.walk(tree):
            for imported in _targets(node, importer, path.name == "__init__.py", modules):
                found.append(Import(importer, imported, path.relative_to(root), getattr(node, "lineno", 0)))
    return found


def _targets(node: ast.AST, importer: str, is_package: bool, modules: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        source = _absolute(node, importer, is_package)
        for alias in node.names:
            whole = f"{source}.{alias.name}"
            yield source if is_within(source, *FLOORS) and whole not in modules else whole


def _absolute(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    """The module that a `from … import` names, its leading dots resolved."""
    if node.level == 0:
        assert node.module is not None
        return node.module
    parts = importer.split(".")
    kept = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*kept, node.module] if node.module else kept)


def find_violations(root: Path) -> list[str]:
    """Every import that goes where it may not, and every circle of modules."""
    imports = find_imports(root)
    helpers = sorted(path.stem for path in (root / "tests").glob("*") if path.name not in FLOORS)
    found = []
    for each in imports:
        if is_within(each.imported, "tests", *helpers):
            found.append(each.complaint("the tests are above everything"))
        elif is_within(each.imported, CORE) and not each.importer.startswith(CORE_USER):
            found.append(each.complaint(f"only {CORE_USER}* may depend on grpcio's core"))
        elif is_within(each.imported, *FLOORS):
            reason = _judge_floors(each) or _judge_rooms(each)
            if reason:
                found.append(each.complaint(reason))
    return found + _find_circles(root, imports)


def _judge_floors(each: Import) -> str | None:
    own, other = each.importer.partition(".")[0], each.imported.partition(".")[0]
    if FLOORS.index(other) > FLOORS.index(own):
        return f"{other} is above {own}"
    if own in ("txn", "controller") and other == "metastore" and not _is_allowed(each.imported, *DOORS, *TOOLS):
        return f"{own} uses only metastore's public doors: {', '.join(DOORS + TOOLS)}"
    return None


def _judge_rooms(each: Import) -> str | None:
    if each.importer == "metastore":
        return "the package itself imports nothing, so that every room may be used alone"
    for room, allowed in ONLY.items():
        if is_within(each.importer, room) and not _is_allowed(each.imported, room, *allowed):
            return f"{room} uses {'only ' + ', '.join(allowed) if allowed else 'nothing'} of the project"
    for room, barred in NEVER.items():
        if is_within(each.importer, room) and is_within(each.imported, *barred):
            return f"{room} must not know of {', '.join(barred)}"
    for ladder in LADDERS:
        own, other = (_rung(name, ladder) for name in (each.importer, each.imported))
        if own is not None and other is not None and other > own:
            return f"{ladder[other]} is above {ladder[own]}"
    return None


def _rung(name: str, ladder: tuple[str, ...]) -> int | None:
    """How high a module's room is on a ladder."""
    return next((place for place, room in enumerate(ladder) if is_within(name, room)), None)


def _is_allowed(imported: str, *rooms: str) -> bool:
    """Every room may ask the package `metastore` itself for its version."""
    return imported == "metastore" or is_within(imported, *rooms)


def _find_circles(root: Path, imports: list[Import]) -> list[str]:
    """Modules that need each other; a package whose essay re-exports its modules is no part of a circle."""
    packages = {name for name, path in find_modules(root).items() if path.name == "__init__.py"}
    graph: dict[str, set[str]] = {}
    for each in imports:
        if is_within(each.imported, *FLOORS) and each.imported not in packages and each.imported != each.importer:
            graph.setdefault(each.importer, set()).add(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"modules that need each other: {' > '.join(reversed(error.args[1]))}"]
    return []
