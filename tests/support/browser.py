"""A real browser for tests of pages: Chromium without a window, spoken to over a pipe.

    with Browser() as browser:
        page = browser.open(path.as_uri(), width=1000, is_dark=True)
        page.wait_for("document.querySelector('svg')")
        assert not page.errors
        page.evaluate("document.body.innerText"), page.html(), page.screenshot()

It speaks the DevTools protocol: JSON with a zero byte behind each message, on descriptors 3 and 4 of the browser.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

FIND = Path(__file__).resolve().parents[2] / ".ci" / "find-chromium"
ANSWER_WITHIN_S = 60.0
CHUNK_BYTES = 1 << 20
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
OVERFLOWING = """
[...document.querySelectorAll('body *')]
  .filter(each => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(each => each.outerHTML.slice(0, 120))
"""
"""The elements that stick out of the window at its right."""


COLOURS = """
new Promise((done, failed) => {{
  const image = new Image();
  image.onerror = failed;
  image.onload = () => {{
    const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
    canvas.drawImage(image, 0, 0);
    const pixels = new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
    const counts = new Map();
    pixels.forEach(each => counts.set(each, (counts.get(each) ?? 0) + 1));
    const hex = pixel => '#' + [0, 8, 16].map(by => (pixel >> by & 255).toString(16).padStart(2, '0')).join('');
    done(Object.fromEntries([...counts].map(([pixel, count]) => [hex(pixel), count])));
  }};
  image.src = 'data:image/png;base64,{encoded}';
}})
"""


class BrowserFailed(RuntimeError):
    """The browser ended, or does not answer, or a script in the page failed."""


class Browser:
    """A process of Chromium with a folder of its own; both are gone when it is left."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._numbers = 0
        self._pending = b""
        self._events: deque[dict[str, Any]] = deque()

    def __enter__(self) -> Browser:
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="tidemark-browser-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            chromium = subprocess.run(["sh", str(FIND)], check=True, capture_output=True, text=True).stdout.strip()
            heard, self._to = os.pipe()
            stack.callback(os.close, self._to)
            self._from, told = os.pipe()
            stack.callback(os.close, self._from)
            self._log = folder / "log"
            with self._log.open("wb") as log:
                process = subprocess.Popen(
                    [
                        *("bash", "-c", f'exec "$0" "$@" 3<&{heard} 4>&{told}'),
                        *(chromium, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(heard, told),
                    start_new_session=True,
                )
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)  # it has children
            os.close(heard)
            os.close(told)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self, url: str, *, width: int = 1000, height: int = 800, is_dark: bool = False) -> Page:
        """A page, when it is loaded."""
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.ask(f"{domain}.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        page.ask("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        page.ask("Emulation.setEmulatedMedia", {"features": [scheme]})
        failure = page.ask("Page.navigate", {"url": url}).get("errorText")
        if failure:
            raise BrowserFailed(f"{url} cannot be opened: {failure}")
        page.hear("Page.loadEventFired")
        return page

    # -- the protocol

    def ask(self, method: str, parameters: Mapping[str, object] | None = None, session: str | None = None) -> Any:
        """What the browser answers."""
        self._numbers += 1
        number = self._numbers
        message: dict[str, object] = {"id": number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session
        _write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                if "error" in heard:
                    raise BrowserFailed(f"{method}: {heard['error']['message']}")
                return heard["result"]
            self._events.append(heard)

    def next_event(self) -> dict[str, Any]:
        """Something that happened by itself."""
        return self._events.popleft() if self._events else self._hear()

    def passed_events(self) -> list[dict[str, Any]]:
        """What has happened by now."""
        passed = list(self._events)
        self._events.clear()
        return passed

    def _hear(self) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._from, CHUNK_BYTES) if ready else b""
            if not chunk:
                raise BrowserFailed(f"Chromium {'ended' if ready else 'is silent'}:\n{self._log.read_text()}")
            self._pending += chunk
        message, _, self._pending = self._pending.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        return heard


class Page:
    """An open page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self._errors: list[str] = []

    def ask(self, method: str, parameters: Mapping[str, object] | None = None) -> Any:
        """Something of the DevTools protocol."""
        return self._browser.ask(method, parameters, self._session)

    def hear(self, method: str) -> None:
        """Returns when this has happened."""
        while True:
            event = self._browser.next_event()
            self._take(event)
            if event["method"] == method and event.get("sessionId") == self._session:
                return

    def _take(self, event: Mapping[str, Any]) -> None:
        if event.get("sessionId") != self._session:
            return
        said = event["params"]
        match event["method"]:
            case "Runtime.exceptionThrown":
                self._errors.append(said["exceptionDetails"]["exception"]["description"])
            case "Runtime.consoleAPICalled" if said["type"] == "error":
                self._errors.append(" ".join(str(each.get("value")) for each in said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] == "error":
                self._errors.append(f"{said['entry']['text']} {said['entry'].get('url', '')}".strip())

    @property
    def errors(self) -> list[str]:
        """Errors of scripts, of the console, and of what could not be loaded, so far."""
        self.ask("Runtime.evaluate", {"expression": "0"})  # what happened before was told before its answer
        for event in self._browser.passed_events():
            self._take(event)
        return self._errors

    def evaluate(self, expression: str) -> Any:
        """A value that a script in the page has, as JSON can say it; of a promise, what it comes to."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.ask("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise BrowserFailed(str(answer["exceptionDetails"]["exception"].get("description")))
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Returns when a condition holds in the page, which is asked before each frame that it draws."""
        look = f"const look = () => ({condition}) ? done(true) : setTimeout(look, 20); look()"
        self.evaluate(f"new Promise(done => {{ {look} }})")

    def html(self) -> str:
        """The document as it is now."""
        found: str = self.evaluate("document.documentElement.outerHTML")
        return found

    def overflowing(self) -> list[str]:
        """What does not fit into the width of the window."""
        found: list[str] = self.evaluate(OVERFLOWING)
        return found

    def colours(self, png: bytes) -> dict[str, int]:
        """How many pixels of an image have which colour, as `#rrggbb`."""
        found: dict[str, int] = self.evaluate(COLOURS.format(encoded=base64.b64encode(png).decode()))
        return found

    def screenshot(self, *, height_max: int = 16_000) -> bytes:
        """The whole page as PNG, as far as this height."""
        self.ask("Page.bringToFront")  # what is behind another page is not drawn
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height_max), "scale": 1}
        asked = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(self.ask("Page.captureScreenshot", asked)["data"])


def _write(descriptor: int, message: bytes) -> None:
    while message:
        message = message[os.write(descriptor, message) :]
