"""All rules that there are: those of this project, and those that other packages add.

A package adds its own by an entry point of the group `tidemark.audit.rules`: a `Rule`, or a sequence of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points

from txn.audit.dialect import DialectName
from txn.audit.rules.headers import HEADER_RULES
from txn.audit.rules.history import HISTORY_RULES
from txn.audit.rules.indexes import INDEX_RULES
from txn.audit.rules.model import Rule
from txn.audit.rules.operations import OPERATION_RULES
from txn.audit.rules.outcomes import OUTCOME_RULES
from txn.audit.rules.pulsar import PULSAR_RULES
from txn.audit.rules.segments import SEGMENT_RULES

GROUP = "tidemark.audit.rules"
OWN = (
    *HEADER_RULES,
    *OPERATION_RULES,
    *OUTCOME_RULES,
    *SEGMENT_RULES,
    *INDEX_RULES,
    *PULSAR_RULES,
    *HISTORY_RULES,
)


class UnknownRule(ValueError):
    """There is no rule of that name."""


def all_rules() -> tuple[Rule, ...]:
    """Every rule, those of others behind our own."""
    return combined(OWN, (point.load() for point in sorted(entry_points(group=GROUP), key=lambda each: each.name)))


def combined(own: Sequence[Rule], others: Iterable[Rule | Sequence[Rule]]) -> tuple[Rule, ...]:
    """Rules of several packages; a name that is taken is refused."""
    found = {rule.name: rule for rule in own}
    for other in others:
        for rule in [other] if isinstance(other, Rule) else other:
            if rule.name in found:
                raise UnknownRule(f"there are two rules {rule.name!r}: names of rules are unique")
            found[rule.name] = rule
    return tuple(found.values())


def rules_of(dialect: DialectName, names: Sequence[str] = (), *, history: bool | None = None) -> tuple[Rule, ...]:
    """The rules of a dialect, or of these only some."""
    known = {rule.name: rule for rule in all_rules()}
    for name in names:
        if name not in known:
            raise UnknownRule(f"there is no rule {name!r}: `tidemark audit rules` lists them")
        if dialect not in known[name].dialects:
            raise UnknownRule(f"rule {name!r} is not for records of {dialect.value}")
    chosen = [known[name] for name in names] if names else list(known.values())
    return tuple(
        rule for rule in chosen if dialect in rule.dialects and (history is None or rule.is_of_history == history)
    )


def rule_named(name: str) -> Rule:
    """A rule by its name."""
    for rule in all_rules():
        if rule.name == name:
            return rule
    raise UnknownRule(f"there is no rule {name!r}: `tidemark audit rules` lists them")
