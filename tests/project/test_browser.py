"""What tests of pages stand on: a browser that shows what a page is, and what goes wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.browser import Browser, BrowserFailed

PNG = b"\x89PNG\r\n\x1a\n"
PAGE = """<!doctype html><meta charset="utf-8"><title>A page</title>
<style>body { margin: 0 } @media (prefers-color-scheme: dark) { body { background: #000 } }</style>
<p id="said"></p><div id="wide" style="width: 900px">wide</div>
<script>setTimeout(() => document.getElementById("said").textContent = "later", 1)</script>"""


def test_a_page_is_rendered(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.html", tmp_path / "broken.html"
    whole.write_text(PAGE, encoding="utf-8")
    broken.write_text("<script>console.error('said so'); nothing.here()</script><img src='missing.png'>")
    with Browser() as browser:
        light = browser.open(whole.as_uri(), width=1000)
        light.wait_for("document.getElementById('said').textContent")
        assert light.evaluate("document.title + ', ' + document.getElementById('said').textContent") == "A page, later"
        assert light.html().count("<p id=") == 1
        assert light.errors == light.overflowing() == []
        dark = browser.open(whole.as_uri(), width=500, is_dark=True)
        assert [each.partition(" style")[0] for each in dark.overflowing()] == ['<div id="wide"']
        assert dark.screenshot().startswith(PNG)
        assert dark.screenshot() != light.screenshot()
        errors = browser.open(broken.as_uri()).errors
        assert any("said so" in each for each in errors)
        assert any("nothing is not defined" in each for each in errors)
        assert any("missing.png" in each for each in errors)
        with pytest.raises(BrowserFailed, match=r"absent\.html cannot be opened"):
            browser.open((tmp_path / "absent.html").as_uri())
