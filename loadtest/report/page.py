"""The page: what was asked for, what came of it, whether it was enough, charts, and every operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Any

from loadtest.report.curves import Chart, drawn, legend
from loadtest.report.sections import charts_of
from metastore.tables import moment_text

COLOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "bad", "worse")
STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --pale: #5b6577; --line: #e0e5ed; --page: #f5f7fa; --card: #fff;
  --one: #2f6fdb; --two: #8fa3bf; --three: #35a37c; --four: #e08a1e; --five: #8a5cd6; --six: #0f9bb4; --seven: #c2527f;
  --eight: #7a8b2e; --bad: #d3414b; --worse: #7d1d3f; --good: #2b8a63; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf2; --pale: #9aa5b8; --line: #2c3545; --page: #12161e;
  --card: #1a212c; --one: #5b95f5; --two: #6c7f9c; --three: #4cc497; --four: #f0a94a; --five: #ad86f0; --six: #3fc2da;
  --seven: #e57aa5; --eight: #a9bc56; --bad: #f0646d; --worse: #c65a86; --good: #4cc497; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0; }
main { max-width: 1040px; margin: 0 auto; padding: 30px 20px 60px; }
header { display: flex; align-items: baseline; gap: 14px; flex-wrap: wrap; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 17px; margin: 0; } p { color: var(--pale); margin: 2px 0 10px; }
.verdict { font-weight: 600; border-radius: 6px; padding: 2px 10px; color: var(--card); background: var(--good); }
.verdict.failed { background: var(--bad); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 20px 14px;
  margin: 16px 0; overflow-x: auto; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px;
  color: var(--pale); font-size: 13px; } .tile b { display: block; font-size: 24px; color: var(--ink);
  font-variant-numeric: tabular-nums; } .tile b.bad { color: var(--bad); }
svg { width: 100%; height: auto; display: block; } .tick { font-size: 11px; fill: var(--pale); }
.grid { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .area { opacity: 0.16; stroke: none; }
.strip { font-size: 13px; font-weight: 600; fill: var(--ink); } .strip, .halo { paint-order: stroke;
  stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; } .touch { fill: transparent; }
.stem { stroke-width: 1.5; opacity: 0.45; }
.mark line { stroke: var(--pale); stroke-width: 1; stroke-dasharray: 1 4; opacity: 0.6; }
.mark path { fill: var(--five); } .mark.merge path { fill: var(--three); }
.names { margin: 2px 0 6px; font-size: 13px; color: var(--pale); } .name { margin-right: 16px; white-space: nowrap; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
td, th { padding: 5px 10px 5px 0; border-top: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--pale); font-weight: 500; border-top: none; } td:first-child, th:first-child { text-align: left; }
tbody th { color: var(--ink); font-weight: 600; padding-top: 14px; } td:first-child { padding-left: 14px; }
tr.step td { color: var(--pale); } td.bad { color: var(--bad); } ul { margin: 6px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 8px 0 0; font-size: 13px; }
dt { color: var(--pale); } dd { margin: 0; overflow-wrap: anywhere; }
""" + "\n".join(
    f"circle.{name}, rect.{name}, .area.{name} {{ fill: var(--{name}); }} i.{name} {{ background: var(--{name}); }} "
    f".curve.{name}, .stem.{name} {{ stroke: var(--{name}); }}"
    for name in COLOURS
)
KINDS = {"arrival": "", "step": "of an arrival, from its own start", "event": "from the start of its cause"}
COLUMNS = (
    ("count", "count"),
    ("rate", "per s"),
    ("p50_ms", "p50 ms"),
    ("p90_ms", "p90"),
    ("p99_ms", "p99"),
    ("p999_ms", "p99.9"),
    ("max_ms", "max"),
)


def page_of(result: Mapping[str, Any]) -> str:
    """The whole page."""
    title = f"Load: {result['scenario']}"
    charts = [_chart(each, result) for each in charts_of(result)] if result["timeline"] else []
    parts = [_head(result, title), _complaints(result), _tiles(result), *charts, _operations(result), _run(result)]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    viewport = '<meta name="viewport" content="width=device-width">'
    body = f"<body><main>{''.join(parts)}</main></body>"
    return f'<!doctype html><html lang="en"><head>{head}{viewport}</head>{body}</html>'


def _head(result: Mapping[str, Any], title: str) -> str:
    plan = result["plan"]
    failed = bool(result["violations"] or result["failure"])
    verdict = "failed" if failed else "passed"
    said = (
        f"{plan['rate']:g} arrivals a second, {plan['shape']}, for {result['seconds']:g} s, "
        f"from {_when(result['began_ms'])} on"
    )
    return f'<header><h1>{escape(title)}</h1><span class="verdict {verdict}">{verdict}</span></header><p>{said}</p>'


def _complaints(result: Mapping[str, Any]) -> str:
    found = [
        f"{each['what']}: {each['value']:.6g}, where {each['bound']:.6g} is allowed" for each in result["violations"]
    ]
    found += [result["failure"]] if result["failure"] else []
    lines = "".join(f"<li>{escape(each)}</li>" for each in found)
    return f"<section><h2>Why it failed</h2><ul>{lines}</ul></section>" if found else ""


def _tiles(result: Mapping[str, Any]) -> str:
    whole = result["whole"]
    tiles = [
        ("arrivals", f"{result['arrivals']:,}", False),
        ("median", _ms_text(whole["p50_ms"]), False),
        ("p99", _ms_text(whole["p99_ms"]), False),
        ("slowest", _ms_text(whole["max_ms"]), False),
        ("errors", f"{result['errors']:,}", result["errors"] > 0),
        ("not started in time", f"{result['not_started']:,}", result["not_started"] > 0),
    ]
    drawn_tiles = (
        f'<div class="tile"><b class="{"bad" if bad else ""}">{value}</b>{name}</div>' for name, value, bad in tiles
    )
    return f'<div class="tiles">{"".join(drawn_tiles)}</div>'


def _chart(chart: Chart, result: Mapping[str, Any]) -> str:
    marks = [(mark["second"], mark["text"]) for mark in result["marks"]]
    kinds = dict.fromkeys(text for _, text in marks)
    named = "".join(
        f'<span class="name mark {escape(text)}"><svg style="display:inline;width:11px;height:8px" '
        f'viewBox="0 0 8 7"><path d="M0 0h8l-4 7z"/></svg> {escape(text)}</span>'
        for text in kinds
    )
    names = f'<div class="names">{legend(chart)}{named if chart.has_marks else ""}</div>'
    picture = drawn(chart, result["seconds"], result["step_s"], marks)
    return f"<section><h2>{escape(chart.title)}</h2><p>{escape(chart.said)}</p>{names}{picture}</section>"


def _operations(result: Mapping[str, Any]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("operation", *(head for _, head in COLUMNS), "errors"))
    rows = "".join(_scenarios(result["operations"]))
    said = (
        "Latencies in ms. Arrivals count from when they were meant to begin; steps (pale) are parts of arrivals and "
        "count from their own start; events come by themselves and count from when their cause was meant to begin."
    )
    return f"<section><h2>Operations</h2><p>{said}</p><table><thead><tr>{heads}</tr></thead>{rows}</table></section>"


def _scenarios(operations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows of each, below its name."""
    for name, of_scenario in groupby(operations, itemgetter("scenario")):
        rows = "".join(map(_operation, of_scenario))
        yield f'<tbody><tr><th colspan="{len(COLUMNS) + 2}">{escape(name)}</th></tr>{rows}</tbody>'


def _operation(each: Mapping[str, Any]) -> str:
    errors = ", ".join(f"{name} {count:,}" for name, count in each["errors"].items())
    cells = [escape(each["operation"])]
    cells += [f"{each[name]:,}" if name == "count" else f"{each[name]:,.1f}" for name, _ in COLUMNS]
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    hint = escape(KINDS[each["kind"]])
    bad = "bad" if errors else ""
    return f'<tr class="{each["kind"]}" title="{hint}">{row}<td class="{bad}">{escape(errors) or "0"}</td></tr>'


def _run(result: Mapping[str, Any]) -> str:
    plan, late_ms = result["plan"], f"{result['late_p99_ms']:.3g} ms"
    facts: Sequence[tuple[str, object]] = [
        ("targets", ", ".join(result["targets"])),
        ("arrivals", f"{plan['spacing']}, seed {plan['seed']}, from {plan['processes']} process(es)"),
        ("begun late", f"99 of 100 arrivals no more than {late_ms} after they were meant to begin"),
        *((name, value) for name, value in result["machine"].items()),
        ("versions", ", ".join(f"{name} {value}" for name, value in result["versions"].items())),
    ]
    rows = "".join(f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(str(said))}</dd>" for name, said in facts)
    return f"<section><h2>The run</h2><dl>{rows}</dl></section>"


def _when(time_ms: int) -> str:
    return moment_text(time_ms).replace("T", " ").replace("Z", " UTC")


def _ms_text(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:,.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"
