"""The page: what was found, the charts, the violations with their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from pyspark.sql import Row

from metastore.tables import moment_text
from txn.audit.report.charts import chart, number_text
from txn.audit.report.figures import Figure
from txn.audit.rules.model import SUBJECT, Rule

STYLE = """
:root { --ink: #1d2433; --pale: #5b6577; --line: #dfe4ec; --page: #f5f7fa; --card: #fff;
  --part0: #2f6fdb; --part1: #35a37c; --part2: #e0913a; --critical: #c62f3b; --error: #d9722e; --warning: #b8941f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf2; --pale: #9aa5b8; --line: #313a4a; --page: #141922;
  --card: #1c232f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0; }
main { max-width: 860px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 0 0 2px; }
p { color: var(--pale); margin: 2px 0 12px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 22px;
  margin: 18px 0; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: var(--ink); }
svg .label { text-anchor: end; } svg .number { fill: var(--pale); }
.part0 { fill: var(--part0); background: var(--part0); } .part1 { fill: var(--part1); background: var(--part1); }
.part2 { fill: var(--part2); background: var(--part2); }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 12px; }
.tiles { display: flex; gap: 14px; margin: 18px 0; } .tile { flex: 1; background: var(--card); border-radius: 10px;
  border: 1px solid var(--line); padding: 12px 18px; } .tile b { font-size: 26px; display: block; }
.critical { color: var(--critical); } .error { color: var(--error); } .warning { color: var(--warning); }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; } td, th { text-align: left; vertical-align: top;
  border-top: 1px solid var(--line); padding: 5px 8px 5px 0; overflow-wrap: anywhere; } th { color: var(--pale); }
code { font-size: 11.5px; } details { margin-top: 8px; } summary { cursor: pointer; }
"""


def page_of(
    store: str,
    as_of_ms: int,
    rules: Sequence[Rule],
    counts: Mapping[str, int],
    examples: Mapping[str, Sequence[Row]],
    figures: Sequence[Figure],
) -> str:
    """The whole page."""
    broken = sorted((rule for rule in rules if rule.name in counts), key=lambda rule: rule.severity.rank)
    parts = [
        f"<h1>Audit of transactions</h1><p>{escape(store)}, {moment_text(as_of_ms)}</p>",
        _tiles(rules, broken, counts),
        *(_figure(each) for each in figures if each.bars),
        *(_rule(each, counts[each.name], examples.get(each.name, ())) for each in broken),
    ]
    head = f'<meta charset="utf-8"><title>Audit of transactions</title><style>{STYLE}</style>'
    viewport = '<meta name="viewport" content="width=device-width">'
    body = f"<body><main>{''.join(parts)}</main></body>"
    return f'<!doctype html><html lang="en"><head>{head}{viewport}</head>{body}</html>'


def _tiles(rules: Sequence[Rule], broken: Sequence[Rule], counts: Mapping[str, int]) -> str:
    tiles = [("rules", len(rules), ""), ("broken", len(broken), "")]
    for severity in ("critical", "error", "warning"):
        count = sum(counts[rule.name] for rule in broken if rule.severity.value == severity)
        tiles.append((severity, count, severity if count else ""))
    drawn = (
        f'<div class="tile"><b class="{kind}">{number_text(count)}</b>{escape(label)}</div>'
        for label, count, kind in tiles
    )
    return f'<div class="tiles">{"".join(drawn)}</div>'


def _figure(figure: Figure) -> str:
    keys = (
        f'<span class="key part{place}"></span>{escape(name)}' for place, name in enumerate(figure.legend)
    )
    said = f"<p>{escape(figure.said)}{''.join(keys)}</p>"
    return f"<section><h2>{escape(figure.title)}</h2>{said}{chart(figure)}</section>"


def _rule(rule: Rule, count: int, rows: Sequence[Row]) -> str:
    names = [name for name in (*SUBJECT, "evidence") if any(row[name] is not None for row in rows)]
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    cells = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in rows)
    kind = rule.severity.value
    return (
        f'<section id="{escape(rule.name)}"><h2>{escape(rule.title)}</h2>'
        f'<p><b class="{kind}">{kind}</b> · {escape(rule.name)} · {number_text(count)} violations</p>'
        f"<p>{escape(rule.why)}</p><p><b>What to do.</b> {escape(rule.remedy)}</p>"
        f"<details><summary>{len(rows)} of them</summary><table><tr>{heads}</tr>{cells}</table></details></section>"
    )


def _cell(value: object) -> str:
    return f"<td><code>{'' if value is None else escape(str(value))}</code></td>"
