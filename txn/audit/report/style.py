"""How the page looks: light or dark, as its reader's system does."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark;
  --ink: #172033; --pale: #5d687c; --faint: #8b95a7; --line: #e3e8f0; --page: #f3f5f9; --card: #ffffff;
  --track: #eef1f6; --tone0: #3b7ddd; --tone1: #2ba37c; --tone2: #f0a441; --critical: #d6344a; --error: #e4722b;
  --warning: #cf9a14; --well: #23966f; --shade: 0 1px 2px rgb(23 32 51 / 6%), 0 4px 16px rgb(23 32 51 / 5%); }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e8ecf4; --pale: #a3aec2; --faint: #76819a; --line: #2b3445; --page: #10151e; --card: #1a212d;
  --track: #252e3d; --tone0: #5b9bf0; --tone1: #3fc09a; --tone2: #f2b45f; --critical: #f2637a; --error: #f58b4c;
  --warning: #e6b93d; --well: #3fc09a; --shade: none; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink); background: var(--page);
  margin: 0; }
main { max-width: 1160px; margin: 0 auto; padding: 36px 24px 72px; }
h1, h2, h3, p { margin: 0; } h1 { font-size: 27px; letter-spacing: -.02em; line-height: 1.2; }
h2 { font-size: 19px; margin: 38px 0 14px; letter-spacing: -.01em; } h3 { font-size: 16px; line-height: 1.35; }
code { font: 12px/1.5 ui-monospace, "Cascadia Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
header { display: flex; flex-wrap: wrap; gap: 10px 24px; align-items: center; justify-content: space-between; }
header p { color: var(--pale); font-size: 14px; margin-top: 4px; overflow-wrap: anywhere; }
.verdict { font-weight: 600; padding: 8px 16px; border-radius: 999px; color: var(--card); background: var(--well); }
.verdict.critical { background: var(--critical); } .verdict.error { background: var(--error); }
.verdict.warning { background: var(--warning); }
.tiles { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 14px; margin: 24px 0 14px; }
@media (max-width: 860px) { .tiles { grid-template-columns: repeat(3, minmax(0, 1fr)); } }
@media (max-width: 460px) { .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; box-shadow: var(--shade);
  min-width: 0; }
.tile { padding: 13px 18px; color: var(--pale); font-size: 13px; }
.tile b { display: block; font-size: 25px; line-height: 1.25; color: var(--ink); letter-spacing: -.02em;
  font-variant-numeric: tabular-nums; }
.tile b.critical { color: var(--critical); } .tile b.error { color: var(--error); }
.tile b.warning { color: var(--warning); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 14px; }
.card { padding: 18px 22px 20px; } .said { color: var(--pale); font-size: 13px; margin: 2px 0 12px; }
.nothing { color: var(--faint); padding: 56px 0 64px; text-align: center; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12.5px; color: var(--pale); margin-bottom: 8px; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
svg { display: block; width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--pale); text-anchor: middle; }
svg .number { fill: var(--ink); font-weight: 600; } svg line { stroke: var(--line); stroke-dasharray: 2 4; }
svg line:last-of-type { stroke-dasharray: none; }
.ranking { list-style: none; margin: 0; padding: 0; }
.ranking li { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 2px 14px; margin-bottom: 8px;
  font-size: 12.5px; }
.ranking .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; direction: rtl; text-align: left; }
.ranking .number { font-weight: 600; font-variant-numeric: tabular-nums; }
.ranking .track { grid-column: 1 / -1; display: flex; height: 8px; border-radius: 4px; background: var(--track);
  overflow: hidden; }
.ranking .track i { min-width: 2px; }
.tone0 { fill: var(--tone0); background: var(--tone0); } .tone1 { fill: var(--tone1); background: var(--tone1); }
.tone2 { fill: var(--tone2); background: var(--tone2); }
i.critical { background: var(--critical); } i.error { background: var(--error); }
i.warning { background: var(--warning); }
.rule { border-left: 4px solid var(--line); margin-bottom: 14px; }
.rule.critical { border-left-color: var(--critical); }
.rule.error { border-left-color: var(--error); } .rule.warning { border-left-color: var(--warning); }
.rule .mark { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: baseline; font-size: 12.5px;
  color: var(--pale); margin-bottom: 4px; } .rule .mark b { text-transform: uppercase; letter-spacing: .06em;
  font-size: 11.5px; }
.rule.critical .mark b { color: var(--critical); } .rule.error .mark b { color: var(--error); }
.rule.warning .mark b { color: var(--warning); }
.rule p { margin-top: 6px; font-size: 14px; color: var(--pale); } .rule p b { color: var(--ink); font-weight: 600; }
details { margin-top: 12px; } summary { cursor: pointer; font-size: 13px; color: var(--tone0); }
.example { border-top: 1px solid var(--line); padding: 9px 0; margin-top: 9px; display: grid; gap: 4px;
  font-size: 12.5px; }
.pairs { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 0; } .pairs div { min-width: 0; }
.pairs dt, .pairs dd { display: inline; margin: 0; } .pairs dt { color: var(--faint); margin-right: 5px; }
.evidence { color: var(--pale); }
footer { color: var(--faint); font-size: 13px; margin-top: 36px; }
@media print { body { background: none; } .card, .tile { break-inside: avoid; box-shadow: none; } }
"""
