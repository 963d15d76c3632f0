"""Bars as SVG: horizontal, stacked where a bar has parts, with its label before and its number behind."""

from __future__ import annotations

from html import escape

from txn.audit.report.figures import Bar, Figure

WIDTH = 760
LABEL_WIDTH = 270
NUMBER_WIDTH = 90
BAR_HEIGHT = 18
ROW_HEIGHT = 26
LABEL_CHARACTERS_MAX = 40
ROOM = WIDTH - LABEL_WIDTH - NUMBER_WIDTH


def chart(figure: Figure) -> str:
    """The drawing of a figure."""
    greatest = max((sum(bar.parts) for bar in figure.bars), default=0) or 1
    rows = [_row(bar, number, greatest, figure.unit) for number, bar in enumerate(figure.bars)]
    height = ROW_HEIGHT * len(rows)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(figure.title)}">{"".join(rows)}</svg>'
    )


def _row(bar: Bar, number: int, greatest: float, unit: str) -> str:
    top = number * ROW_HEIGHT
    middle = top + ROW_HEIGHT / 2 + 4
    total = sum(bar.parts)
    drawn = [f'<text class="label" x="{LABEL_WIDTH - 10}" y="{middle}">{_label(bar.label)}</text>']
    left = float(LABEL_WIDTH)
    for place, part in enumerate(bar.parts):
        width = part / greatest * ROOM
        if width > 0:
            box = f'x="{left:.1f}" y="{top + 4}" width="{max(width, 1.0):.1f}" height="{BAR_HEIGHT}"'
            drawn.append(f'<rect class="part{place}" {box} rx="2"/>')
        left += width
    text = escape(f"{number_text(total)} {unit}".strip())
    drawn.append(f'<text class="number" x="{left + 8:.1f}" y="{middle}">{text}</text>')
    return f"<g><title>{escape(bar.label)}: {text}</title>{''.join(drawn)}</g>"


def _label(text: str) -> str:
    """The end of a long name tells more than its beginning."""
    return escape(text if len(text) <= LABEL_CHARACTERS_MAX else f"…{text[1 - LABEL_CHARACTERS_MAX :]}")


def number_text(number: float) -> str:
    """A number with its thousands apart; fractions only of small ones."""
    return f"{number:,.1f}" if number != int(number) and number < 100 else f"{number:,.0f}"
