"""What a check found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from loadtest.check.measuring import Checked
from loadtest.check.profiles import RATES
from loadtest.check.recorder import Piece
from loadtest.check.usage import conclusion, inside_texts
from metastore.tables import Row, moment_text, write_rows

PROFILE_COLUMNS = (
    *("profile", "wanted/s", "reached/s"),
    *("p50 ms", "p99 ms", "slowest ms", "deviation ms"),
    *("failed", "verdict"),
)
SLOWEST_COLUMNS = ("profile", "took ms", "when", "what")
USAGE_COLUMNS = ("resource", "used", "seen")
PASS, FAIL, NOT_TRIED = "PASS", "FAIL", "not tried"


class Report:
    """Prints each work as it is done, and knows in the end whether all is well."""

    def __init__(self, out: TextIO, as_json: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._works = 0
        self._passed = 0

    @property
    def passed(self) -> bool:
        """Whether every work has passed the smallest size."""
        return self._passed == self._works

    def tell(self, url: str, kind: str, text: str, outcomes: Sequence[Checked], sizes: Sequence[str]) -> None:
        """One work."""
        assert outcomes, "the smallest size is always tried"
        self._works += 1
        self._passed += outcomes[0].passed
        if self._as_json:
            self._tell_programs(url, kind, outcomes)
        else:
            self._tell_people(url, kind, text, outcomes, sizes)

    # -- for people

    def _tell_people(self, url: str, kind: str, text: str, outcomes: Sequence[Checked], sizes: Sequence[str]) -> None:
        last = outcomes[-1]
        self._line(f"{url}: {text}, {last.evidence.seconds:.0f} s for each profile", "")
        self._rows(PROFILE_COLUMNS, [*map(_profile_row, outcomes), *_untried_rows(kind, sizes[len(outcomes) :])])
        unmet = [each.text for each in last.found if not each.is_met]
        if unmet:
            self._line("", f"why profile {last.size} is not passed: " + "; ".join(unmet))
        self._line("", "the slowest:")
        self._rows(SLOWEST_COLUMNS, [_slowest_row(each, piece) for each in outcomes for piece in each.measured.slowest])
        self._line("", f"what profile {last.size} used:")
        self._rows(
            USAGE_COLUMNS,
            [{"resource": each.resource, "used": f"{each.share:.0%}", "seen": each.seen} for each in last.used],
        )
        for inside in inside_texts(last.evidence):
            self._line(f"By the server's own clock {inside}.")
        for each in last.evidence.unknown:
            self._line(f"Not known: {each}.")
        self._line("", f"Profile {last.size}: {conclusion(last.used, last.passed)}.")
        passed = [each.size for each in outcomes if each.passed]
        self._line(f"{PASS}: {kind}, profile {passed[-1]}" if passed else f"{FAIL}: {kind}, profile {last.size}", "")

    def _line(self, *texts: str) -> None:
        for text in texts:
            print(text, file=self._out)

    def _rows(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        write_rows(columns, rows, self._out)

    # -- for programs

    def _tell_programs(self, url: str, kind: str, outcomes: Sequence[Checked]) -> None:
        for outcome in outcomes:
            for row in _rows_for_programs(outcome):
                whole = {"target": url, "work": kind, "profile": outcome.size, **row}
                write_rows(list(whole), [whole], self._out, as_json=True)


def _rows_for_programs(outcome: Checked) -> Iterator[Row]:
    """Of a profile: its verdict and figures, the slowest, what was used, how long it was inside, what is not known."""
    measured = outcome.measured
    yield {
        "type": "profile",
        "verdict": PASS if outcome.passed else FAIL,
        "wanted_per_s": outcome.rate,
        "reached_per_s": measured.rate,
        "answered": measured.answered,
        "failed": measured.failed,
        "p50_ms": measured.p50_s * 1000,
        "p99_ms": measured.p99_s * 1000,
        "slowest_ms": measured.slowest_s * 1000,
        "deviation_ms": measured.deviation_s * 1000,
        "conclusion": conclusion(outcome.used, outcome.passed),
    }
    for reason, times in measured.failures.items():
        yield {"type": "failure", "reason": reason, "times": times}
    for piece in measured.slowest:
        time_ms = outcome.began_ms + round(piece.intended_s * 1000)
        yield {"type": "slowest", "what": piece.what, "took_ms": piece.seconds * 1000, "time_ms": time_ms}
    for usage in outcome.used:
        yield {"type": "used", "resource": usage.resource, "share": usage.share, "seen": usage.seen}
    for text in inside_texts(outcome.evidence):
        yield {"type": "inside", "text": text}
    for text in outcome.evidence.unknown:
        yield {"type": "unknown", "text": text}


def _profile_row(outcome: Checked) -> Row:
    measured = outcome.measured
    return {
        "profile": outcome.size,
        "wanted/s": f"{outcome.rate:,.0f}",
        "reached/s": f"{measured.rate:,.0f}",
        "p50 ms": _ms(measured.p50_s),
        "p99 ms": _ms(measured.p99_s),
        "slowest ms": _ms(measured.slowest_s),
        "deviation ms": _ms(measured.deviation_s),
        "failed": measured.failed,
        "verdict": PASS if outcome.passed else FAIL,
    }


def _untried_rows(kind: str, sizes: Sequence[str]) -> list[Row]:
    """Sizes that are larger than one that was too much."""
    empty: dict[str, str | None] = dict.fromkeys(PROFILE_COLUMNS)
    return [empty | {"profile": size, "wanted/s": f"{RATES[kind][size]:,.0f}", "verdict": NOT_TRIED} for size in sizes]


def _slowest_row(outcome: Checked, piece: Piece) -> Row:
    when = moment_text(outcome.began_ms + round(piece.intended_s * 1000))
    return {"profile": outcome.size, "took ms": _ms(piece.seconds), "when": when, "what": piece.what}


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.2f}"
