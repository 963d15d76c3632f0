"""One call of `tidemark topics`: what was asked, who is asked, and where it prints."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TextIO

from controller.client.topics.admin import Topics
from metastore.clock import Clock
from txn.doctor.texts import Section, line, write_section


@dataclass(frozen=True, slots=True)
class Visit:
    """What every operation works with."""

    arguments: argparse.Namespace
    topics: Topics
    clock: Clock
    out: TextIO

    @property
    def topic(self) -> str:
        """The topic that was named, by its full name."""
        return str(self.arguments.topic)

    @property
    def namespace(self) -> str:
        """The namespace that was named."""
        return str(self.arguments.namespace)

    def write(self, *sections: Section) -> None:
        """Prints rows: tables for people, objects for programs."""
        for section in sections:
            write_section(section, self.out, as_json=self.arguments.json)

    def say(self, *lines: str) -> None:
        """Prints lines for people; programs have no use for them."""
        if not self.arguments.json:
            for text in lines:
                print(line(text), file=self.out, flush=True)

    def report(self, kind: str, row: dict[str, object], text: str) -> None:
        """Says that something was done: in words for people, as an object for programs."""
        if self.arguments.json:
            self.write(Section(kind, [row]))
        else:
            self.say(text)


Action = Callable[[Visit], Awaitable[None]]
