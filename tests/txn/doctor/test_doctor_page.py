"""Every command on the page of the doctor runs, and every operation and option has an example there.

All but the one that goes on until something happens: that one is run on a live server, in test_doctor_live.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
from pathlib import Path

import pytest
from doctor_program import stage_all
from doctor_vectors import load

from metastore.commandline import EXIT_SUCCESS, build_parser, main
from metastore.interface import open_store
from txn.doctor.command import register

PAGE = Path(__file__).resolve().parents[3] / "docs" / "doctor.md"
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
OURS, PULSARS = "lmdb:///var/lib/tidemark", "lmdb:///var/lib/pulsar"


async def stage_ours(url: str) -> None:
    async with await open_store(url) as store:
        staged = await stage_all(store)
        assert list(staged) == ["md_0_0", "md_0_1", "md_0_2", "md_0_3"]


async def stage_pulsars(url: str) -> None:
    async with await open_store(url) as store:
        await load(store, "11-c-open")


@pytest.mark.parametrize("command", [each for each in COMMANDS if "--follow" not in each])
def test_a_command_of_the_page_runs(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, pulsars = f"lmdb://{tmp_path}/tidemark?sync=false", f"lmdb://{tmp_path}/pulsar?sync=false"
    asyncio.run(stage_ours(ours) if OURS in command else stage_pulsars(pulsars))
    arguments = shlex.split(command.replace(OURS, ours).replace(PULSARS, pulsars))
    assert arguments[:2] == ["tidemark", "txn"]
    assert main(arguments[1:], [register]) == EXIT_SUCCESS
    output = capsys.readouterr()
    assert output.out
    assert output.err == ""


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [action] = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(action.choices)


def test_every_operation_and_option_has_an_example() -> None:
    operations = subcommands(subcommands(build_parser([register]))["txn"])
    assert len(operations) == 5
    missing = []
    for name, parser in operations.items():
        examples = [command for command in COMMANDS if f" {name}" in command]
        options = {each for action in parser._actions for each in action.option_strings if each.startswith("--")}
        missing += [
            f"{name} {option}"
            for option in options - {"--help"}
            if not any(f"{option} " in f"{example} " for example in examples)
        ]
    # These stand before or after every operation: one example is enough.
    general = ("--store", "--dialect", "--records", "--json")  # the two in the middle are one
    assert {each for each in missing if each.partition(" ")[2] not in general} == set()
    for option in ("--store", "--dialect", "--json"):
        assert any(option in command for command in COMMANDS)
