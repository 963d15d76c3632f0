"""Prints the rules."""

from __future__ import annotations

import textwrap
from typing import TextIO

from metastore.tables import Row, write_fields, write_rows
from txn.audit.dialect import DialectName
from txn.audit.rules.model import Rule
from txn.audit.rules.registry import all_rules, rule_named

WIDTH = 100


def list_rules(dialect: str | None, out: TextIO, *, as_json: bool) -> None:
    """All rules, or those of one dialect; the gravest first."""
    rules = [rule for rule in all_rules() if dialect is None or DialectName(dialect) in rule.dialects]
    rules.sort(key=lambda rule: rule.severity.rank)
    columns = ["rule", "severity", "records", "over", "title"]
    write_rows(columns, map(_row, rules), out, as_json=as_json)


def _row(rule: Rule) -> Row:
    return {
        "rule": rule.name,
        "severity": rule.severity.value,
        "records": _dialects(rule),
        "over": _span(rule),
        "title": rule.title,
    }


def _dialects(rule: Rule) -> str:
    return " ".join(each.value for each in DialectName if each in rule.dialects)


def explain_rule(name: str, out: TextIO, *, as_json: bool) -> None:
    """One rule, with what to do."""
    rule = rule_named(name)
    row = {**_row(rule), "why": rule.why, "remedy": rule.remedy}
    if as_json:
        write_fields(row, out, as_json=True)
        return
    print(f"{rule.name} ({rule.severity.value}; records of {_dialects(rule)}; over {_span(rule)})\n", file=out)
    for text in (f"{rule.title}.", rule.why, rule.remedy):
        print(textwrap.fill(text, WIDTH), end="\n\n", file=out)


def _span(rule: Rule) -> str:
    return "history" if rule.is_of_history else "a point in time"
