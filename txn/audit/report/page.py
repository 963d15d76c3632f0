"""The page: what was found, the charts, the violations with their evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from metastore.tables import moment_text
from txn.audit.report.charts import chart, number_text
from txn.audit.report.figures import Figure, Totals
from txn.audit.report.style import STYLE
from txn.audit.rules.model import SUBJECT, Rule, Severity

TITLE = "Audit of transactions"
_QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Findings:
    """What an audit has found, as far as a page shows it."""

    store: str
    as_of_ms: int
    rules: Sequence[Rule]
    counts: Mapping[str, int]
    """By rule; of those that are broken."""
    examples: Mapping[str, Sequence[Mapping[str, str | None]]]
    """Some violations of each of them."""
    totals: Totals
    figures: Sequence[Figure]

    @property
    def broken(self) -> Sequence[Rule]:
        """The gravest first, of those the most frequent."""
        found = (rule for rule in self.rules if rule.name in self.counts)
        return sorted(found, key=lambda rule: (rule.severity.rank, -self.counts[rule.name], rule.name))

    def count_of(self, severity: Severity) -> int:
        """How many violations are of that kind."""
        return sum(self.counts[rule.name] for rule in self.broken if rule.severity is severity)


def page_of(findings: Findings) -> str:
    """The whole page."""
    parts = [
        _header(findings),
        _tiles(findings),
        f'<div class="charts">{"".join(map(_figure, findings.figures))}</div>',
        *(["<h2>What is wrong</h2>"] if findings.broken else []),
        *(_rule(each, findings.counts[each.name], findings.examples.get(each.name, ())) for each in findings.broken),
        "<footer><code>tidemark audit explain RULE</code> says more of each rule.</footer>",
    ]
    head = (
        f'<meta charset="utf-8"><title>{TITLE}</title><meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style>"
    )
    body = f"<body><main>{''.join(parts)}</main></body>"
    return f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>'


def _header(findings: Findings) -> str:
    kind = findings.broken[0].severity.value if findings.broken else "well"
    verdict = _verdict(findings) if findings.broken else "Nothing is wrong"
    where = f"<code>{escape(findings.store)}</code> at {moment_text(findings.as_of_ms)}"
    return (
        f"<header><div><h1>{TITLE}</h1><p>{where}</p></div>"
        f'<span class="verdict {kind}">{escape(verdict)}</span></header>'
    )


def _verdict(findings: Findings) -> str:
    severity = findings.broken[0].severity
    count = findings.count_of(severity)
    return f"{number_text(count)} {_named(severity, count)}"


def _named(severity: Severity, count: int) -> str:
    return severity.value if severity is Severity.CRITICAL or count == 1 else f"{severity.value}s"


def _tiles(findings: Findings) -> str:
    tiles = [
        ("transactions", findings.totals.transactions, ""),
        ("operations", findings.totals.operations, ""),
        ("rules held", len(findings.rules) - len(findings.broken), ""),
    ]
    for severity in Severity:
        count = findings.count_of(severity)
        tiles.append((_named(severity, count), count, severity.value if count else ""))
    drawn = (
        f'<div class="tile"><b class="{kind}">{number_text(count)}</b>{escape(label)}</div>'
        for label, count, kind in tiles
    )
    return f'<div class="tiles">{"".join(drawn)}</div>'


def _figure(figure: Figure) -> str:
    keys = "".join(
        f'<span><i class="tone{place}"></i>{escape(name)}</span>' for place, name in enumerate(figure.legend)
    )
    legend = f'<div class="legend">{keys}</div>' if keys else ""
    drawn = f"{legend}{chart(figure)}" if figure.bars else f'<p class="nothing">{escape(figure.nothing)}</p>'
    said = f'<p class="said">{escape(figure.said)}</p>'
    return f'<section class="card"><h3>{escape(figure.title)}</h3>{said}{drawn}</section>'


def _rule(rule: Rule, count: int, examples: Sequence[Mapping[str, str | None]]) -> str:
    kind = rule.severity.value
    mark = f"<b>{kind}</b><code>{escape(rule.name)}</code><span>{number_text(count)} times</span>"
    is_open = " open" if rule.severity is Severity.CRITICAL else ""
    return (
        f'<section class="card rule {kind}" id="{escape(rule.name)}"><div class="mark">{mark}</div>'
        f"<h3>{escape(rule.title)}</h3><p>{_prose(rule.why)}</p><p><b>What to do.</b> {_prose(rule.remedy)}</p>"
        f"<details{is_open}><summary>{len(examples)} of {number_text(count)}, with evidence</summary>"
        f"{''.join(map(_example, examples))}</details></section>"
    )


def _prose(text: str) -> str:
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def _example(violation: Mapping[str, str | None]) -> str:
    subject = [(name, violation[name]) for name in SUBJECT if violation[name] is not None]
    evidence = json.loads(violation["evidence"] or "{}")
    shown = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in evidence.items()]
    return f'<div class="example">{_pairs(subject)}{_pairs(shown, "evidence")}</div>'


def _pairs(pairs: Iterable[tuple[str, str | None]], kind: str = "") -> str:
    drawn = "".join(
        f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd><code>{escape(str(value))}</code></dd></div>"
        for name, value in pairs
    )
    return f'<dl class="pairs {kind}">{drawn}</dl>' if drawn else ""
