"""The names of locust's users, which are classes."""

from __future__ import annotations


def class_name_of(scenario: str) -> str:
    """`metadata-mixed` is MetadataMixed."""
    return "".join(word.capitalize() for word in scenario.split("-"))
