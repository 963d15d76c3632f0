"""Charts without scripts: rankings, whose bars lie below their labels, and histograms, whose bars stand."""

from __future__ import annotations

from html import escape

from txn.audit.report.figures import Bar, Figure, Shape

WIDTH = 520
HEIGHT = 210
HEADROOM = 20
"""Above the highest bar, for its number."""
FOOTROOM = 24
ROOM = HEIGHT - HEADROOM - FOOTROOM
GAP_SHARE = 0.3
"""Of a bar's place."""
GRID_LINES = 4
BAR_MIN = 1.5
"""What is there is seen, however little it is."""


def chart(figure: Figure) -> str:
    """The drawing of a figure."""
    return _histogram(figure) if figure.shape is Shape.HISTOGRAM else _ranking(figure)


def _ranking(figure: Figure) -> str:
    greatest = max((sum(bar.parts) for bar in figure.bars), default=0) or 1
    rows = "".join(_row(bar, figure, greatest) for bar in figure.bars)
    return f'<ol class="ranking">{rows}</ol>'


def _row(bar: Bar, figure: Figure, greatest: float) -> str:
    text = _told(sum(bar.parts), figure.unit)
    parts = "".join(
        f'<i class="{_tone(bar, place)}" style="width:{part / greatest:.2%}"></i>'
        for place, part in enumerate(bar.parts)
        if part > 0
    )
    label = escape(bar.label)
    # A name that is too long loses its beginning: its end tells more.
    return (
        f'<li title="{label}: {text}"><span class="name"><bdi>{label}</bdi></span>'
        f'<span class="number">{text}</span><span class="track">{parts}</span></li>'
    )


def _histogram(figure: Figure) -> str:
    greatest = max((sum(bar.parts) for bar in figure.bars), default=0) or 1
    place_width = WIDTH / len(figure.bars)
    drawn = [_grid(), *(_column(bar, figure, number, place_width, greatest) for number, bar in enumerate(figure.bars))]
    label = escape(figure.title)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'


def _grid() -> str:
    heights = (HEADROOM + ROOM * number / GRID_LINES for number in range(GRID_LINES + 1))
    return "".join(f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in heights)


def _column(bar: Bar, figure: Figure, number: int, place_width: float, greatest: float) -> str:
    left, width = (number + GAP_SHARE / 2) * place_width, (1 - GAP_SHARE) * place_width
    middle, bottom = (number + 0.5) * place_width, float(HEADROOM + ROOM)
    boxes = []
    for place, part in enumerate(bar.parts):
        if part > 0:
            height = max(BAR_MIN, part / greatest * ROOM)
            bottom -= height
            box = f'x="{left:.1f}" y="{bottom:.1f}" width="{width:.1f}" height="{height:.1f}"'
            boxes.append(f'<rect class="{_tone(bar, place)}" {box} rx="2"/>')
    text = _told(sum(bar.parts), figure.unit)
    return (
        f"<g><title>{escape(bar.label)}: {text}</title>{''.join(boxes)}"
        f'<text class="number" x="{middle:.1f}" y="{bottom - 6:.1f}">{text}</text>'
        f'<text x="{middle:.1f}" y="{HEIGHT - 6}">{escape(bar.label)}</text></g>'
    )


def _tone(bar: Bar, place: int) -> str:
    return bar.tone or f"tone{place}"


def _told(number: float, unit: str) -> str:
    return escape(f"{number_text(number)} {unit}".strip())


def number_text(number: float) -> str:
    """A number with its thousands apart; fractions only of small ones."""
    return f"{number:,.1f}" if number != int(number) and number < 100 else f"{number:,.0f}"
