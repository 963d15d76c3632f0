"""Every hole of Pulsar's scalable topics, and every table of what its tests assert, has a test of ours; and where."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

HOLES = range(1, 22)
TESTS = Path(__file__).parents[2]
ABOUT_TOPICS = (
    *(TESTS / "controller" / room for room in ("assignment", "autoscale", "layout", "topics", "operations")),
    *(TESTS / "controller" / room for room in ("subscriptions", "watches", "leading", "holes", "admin")),
    *(TESTS / "controller" / room for room in ("broker_topics", "client_topics", "client_consumers")),
    *(TESTS / room for room in ("topics_simulation", "topics_end_to_end")),
)
"""Elsewhere the same letters count the holes of another design."""

TABLES = {
    "V1 ranges and names": (
        "layout/test_layout_names.py::test_names_are_read_as_recorded",
        "layout/test_layout_vectors.py::test_ranges_are_as_recorded",
        "layout/test_layout_names.py::test_what_is_no_name_is_refused_with_what_is_expected",
    ),
    "V2 first layouts": ("layout/test_layout_vectors.py::test_first_layouts_are_as_recorded",),
    "V3 hashes and routing": (
        "layout/test_layout_vectors.py::test_keys_are_hashed_as_recorded",
        "layout/test_layout_vectors.py::test_messages_are_routed_as_recorded",
    ),
    "V4 layouts": (
        "holes/test_topic_layout_table.py::test_v4_a_split",
        "layout/test_layout_vectors.py::test_layouts_change_as_recorded",
    ),
    "V5 buckets": (
        "layout/test_layout_vectors.py::test_buckets_are_as_recorded",
        "layout/test_layout_vectors.py::test_buckets_are_spread_over_consumers_as_recorded",
    ),
    "V6 assignments": (
        "assignment/test_assignment.py::test_v6_four_segments_and_more_and_more_consumers",
        "subscriptions/test_sessions_vectors.py::test_divisions_and_pushes_are_as_recorded_where_the_rules_coincide",
    ),
    "V7 sessions": (
        "subscriptions/test_sessions_values.py::test_a_restored_session_has_one_grace_and_no_connection",
        "subscriptions/test_sessions_values.py::test_what_a_consumer_is_told_of_whole_segments",
    ),
    "V8 configuration": ("autoscale/test_autoscale_config.py::test_overrides_come_out_as_recorded",),
    "V9 decisions": (
        "autoscale/test_autoscale_decisions.py::test_v9_one_step_at_a_time",
        "autoscale/test_autoscale_decisions.py::test_decisions_are_as_recorded",
    ),
    "V10 scaling": ("leading/test_leading_scaling.py::test_loads_decide",),
    "V11 loads": ("leading/test_leading_loads.py::test_only_what_is_different_enough_is_written",),
    "V12 namespaces": (
        "watches/test_watches_sets.py::test_hashes_are_as_recorded",
        "watches/test_watches_namespaces.py::test_a_set_is_followed_from_its_beginning",
        "topics/test_topic_records.py::test_topics_are_found_by_properties_as_recorded",
    ),
    "V13 watches of topics": (
        "watches/test_watches_topics.py::test_the_state_comes_first_and_then_every_change",
        "watches/test_watches_topics.py::test_a_partition_is_not_watched_by_itself",
    ),
    "V14 leaders": (
        "leading/test_leading_topics.py::test_a_topic_is_created_split_merged_and_deleted",
        "leading/test_leading_topics.py::test_a_seek_goes_to_each_segment_as_its_time_says",
        "leading/test_leading_pruning.py::test_retentions_and_what_goes_by_them",
    ),
    "V15 clients": (
        "holes/test_topic_client_ids.py::test_v15_a_checkpoint_has_the_same_frame",
        "client_topics/test_topic_admin.py::test_what_is_older_than_what_is_known_is_dropped",
        "client_consumers/test_consumers_credits.py::test_what_was_taken_is_granted_again_when_it_is_worth_a_request",
        "client_consumers/test_consumers_intake.py::test_everybody_who_waits_is_told_the_end_and_the_first_reason",
    ),
    "V16 from end to end": (
        "client_consumers/test_consumers_stream.py::test_order_of_each_key_is_kept_over_a_split_and_a_merge",
        "client_consumers/test_consumers_stream.py::test_two_consumers_divide_the_segments_and_the_second_one_takes_over",
        "client_consumers/test_consumers_stream.py::test_more_consumers_than_segments_share_one_and_keep_each_keys_order",
        "client_consumers/test_consumers_stream.py::test_seek_to_the_beginning_and_to_the_end",
        "client_consumers/test_consumers_checkpoint.py::test_wherever_it_stops_another_one_goes_on_behind_it",
        "client_consumers/test_consumers_queue.py::test_what_was_acknowledged_never_comes_again_and_the_rest_does",
        "client_consumers/test_consumers_queue.py::test_dead_letters_are_moved_with_all_that_they_say",
        "client_consumers/test_consumers_namespaces.py::test_topics_that_come_and_go_are_consumed_while_they_are_there",
        "client_consumers/test_consumers_namespaces.py::test_one_acknowledgement_covers_all_topics_and_their_splits",
        "broker_topics/test_topics_wire_changes.py::test_segments_are_split_and_merged_wherever_they_are",
        "leading/test_leading_topics.py::test_brokers_share_topics_and_every_one_knows_who_leads",
    ),
    "V17.1 a leader that is deposed while it lives": (
        "leading/test_leading_deaths.py::test_a_frozen_leader_is_deposed_and_changes_nothing_any_more",
        "leading/test_leading_deaths.py::test_a_topic_changes_leaders_again_and_again",
    ),
    "V17.2 a crash after each step": (
        "leading/test_leading_deaths.py::test_a_leader_dies_at_any_point_and_the_next_one_finishes",
        "leading/test_leading_holes.py::test_h2_a_split_that_was_written_down_is_finished_by_whoever_leads_next",
    ),
    "V17.3 splits at once, and a pruning": (
        "leading/test_leading_holes.py::test_h3_splits_of_different_segments_and_a_pruning_at_once",
    ),
    "V17.4 a queue that a client made, over a split and a pruning": (
        "leading/test_leading_hosts.py::test_what_nobody_needs_is_pruned_and_its_log_is_gone",
        "client_consumers/test_consumers_queue.py::test_a_queue_begins_at_the_end_and_gets_what_children_get_h4",
    ),
    "V17.5 drained parents, three generations": (
        "assignment/test_assignment.py::test_h5_three_generations_are_read_in_their_order",
        "leading/test_leading_pruning.py::test_h5_an_empty_segment_that_was_read_at_once_stays_behind_its_parents",
    ),
    "V17.6 nobody is withdrawn by a new leader": (
        "subscriptions/test_sessions_leaders.py::test_h6_a_new_leader_withdraws_nothing_from_anybody",
    ),
    "V17.7 the depth after pruning": (
        "autoscale/test_autoscale_decisions.py::test_h7_merges_are_counted_although_their_traces_are_pruned",
        "holes/test_topic_layout_table.py::test_v4_h7_merges_are_counted_and_pruning_does_not_make_them_forgotten",
    ),
    "V17.8 consumers as many as segments, a segment of one hash": (
        "autoscale/test_autoscale_decisions.py::test_h8_nothing_is_merged_that_consumers_need",
        "leading/test_leading_scaling.py::test_a_hot_segment_of_a_single_hash_harms_nobody",
    ),
    "V17.9 leaving, and an old connection": (
        "subscriptions/test_sessions_consumers.py::test_h10_who_leaves_frees_its_segments_at_once",
        "subscriptions/test_sessions_consumers.py::test_h10_a_late_word_of_an_old_connection_changes_nothing",
        "client_consumers/test_consumers_stream.py::"
        "test_h10_a_consumer_that_is_closed_leaves_and_others_get_its_segments_at_once",
    ),
    "V17.10 a topic that is deleted and created anew": (
        "leading/test_leading_topics.py::test_a_topic_can_be_created_anew_under_the_same_name",
        "leading/test_leading_reporting.py::"
        "test_h11_a_report_that_comes_too_late_is_not_taken_for_one_of_the_next_topic",
    ),
    "V17.11 an older layout": (
        "watches/test_watches_topic_lives.py::test_h12_a_broker_that_lags_tells_nothing_older",
        "client_topics/test_topic_admin.py::test_what_is_older_than_what_is_known_is_dropped",
    ),
    "V17.12 data of the old kind": (
        "subscriptions/test_sessions_values.py::test_h15_data_of_the_old_kind_are_read_where_they_are",
        "watches/test_watches_topics.py::test_a_topic_of_the_old_kind_is_told_as_one_whose_segments_are_its_partitions",
    ),
    "V17.13 what is in flight over a split": (
        "client_topics/test_topic_producing.py::test_the_order_of_a_key_outlives_splits_and_merges",
        "client_topics/test_topic_restarts.py::test_a_restart_across_splits_and_merges_stores_nothing_twice",
    ),
    "V17.14 checkpoints over a split, and handed over": (
        "client_consumers/test_consumers_checkpoint.py::test_h17_from_the_end_on_it_misses_nothing_that_children_get",
        "client_consumers/test_consumers_checkpoint.py::"
        "test_a_member_that_leaves_hands_over_what_it_has_committed",
    ),
    "V17.15 names": (
        "topics/test_topic_records.py::test_h20_names_of_subscriptions_and_consumers_are_encoded",
        "admin/test_admin_names.py::test_topics_are_what_they_are_called",
    ),
}
"""Where each table of vectors is tested; of V17, which nobody else tests, each row."""


def named_after(name: str, docstring: str) -> set[int]:
    """The holes that a test names, or says that it is about: `test_h6_…`, `…_h18`, "H9: …"."""
    in_name = re.findall(r"_h(\d+)(?=_|$)", name)
    return {int(each) for each in [*in_name, *re.findall(r"\bH(\d+)\b", docstring)]}


@cache
def told_in(path: Path) -> dict[str, str]:
    """The tests of a file, and what they say of themselves."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    return {each.name: ast.get_docstring(each) or "" for each in functions if each.name.startswith("test_")}


def files() -> Iterator[Path]:
    for folder in ABOUT_TOPICS:
        yield from sorted(folder.rglob("test_*.py"))


@pytest.mark.parametrize("hole", HOLES)
def test_every_hole_has_a_test_that_is_named_after_it(hole: int) -> None:
    found = [
        f"{path.relative_to(TESTS)}::{name}"
        for path in files()
        for name, docstring in told_in(path).items()
        if hole in named_after(name, docstring)
    ]
    assert found, f"H{hole}"


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_its_tests(table: str) -> None:
    for place in TABLES[table]:
        path, _, name = place.partition("::")
        assert name in told_in(TESTS / "controller" / path), place


def test_no_table_and_no_hole_is_left_out() -> None:
    counted: dict[str, set[int]] = defaultdict(set)
    for table in TABLES:
        number, _, row = table.split()[0].removeprefix("V").partition(".")
        counted["rows" if row else "tables"].add(int(row or number))
    assert counted == {"tables": set(range(1, 17)), "rows": set(range(1, 16))}


def test_what_a_test_is_named_after() -> None:
    assert named_after("test_h6_h7_names", "") == {6, 7}
    assert named_after("test_a_queue_h4", "H9: theirs does not.") == {4, 9}
    assert named_after("test_hosts_h1go_there", "") == set()
