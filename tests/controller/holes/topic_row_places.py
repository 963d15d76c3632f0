"""Where each row of the tables of whole parts is tested: V7, V10, V13, V14, V15, V16, and V17, which nobody else tests.

A place is a file of tests/controller and a test in it, and in brackets the one of its cases that is meant.
"""

from __future__ import annotations

from collections.abc import Mapping

SESSIONS = "subscriptions/test_sessions_rows.py::"
SCALING = "leading/test_leading_rows.py::test_v10_loads_and_policies"
SCALED = "leading/test_leading_scaling.py::"
WATCHES = "watches/test_watches_rows.py::"
LEADER = "leading/test_leading_rows.py::test_v14"
WIRE = "broker_topics/test_topics_wire_rows.py::"
STORIES = "client_consumers/test_consumers_rows.py::test_v16"
STREAM = "client_consumers/test_consumers_stream.py::"
QUEUE = "client_consumers/test_consumers_queue.py::"
CHECKPOINT = "client_consumers/test_consumers_checkpoint.py::"
NAMESPACE = "client_consumers/test_consumers_namespaces.py::"
INTAKE = "client_consumers/test_consumers_intake.py::"
CREDITS = "client_consumers/test_consumers_credits.py::"
IDS = "holes/test_topic_client_ids.py::"
STATES = "client_topics/test_topic_states.py::"
ADMIN = "admin/test_admin_calls.py::"

V7 = {
    "new": (f"{SESSIONS}test_v7_a_session[new]",),
    "restored": (f"{SESSIONS}test_v7_a_session[restored]",),
    "equal by name": (f"{SESSIONS}test_v7_a_session[same_name]",),
    "restored, then attached": (f"{SESSIONS}test_v7_a_session[attached]",),
    "disconnected": (f"{SESSIONS}test_v7_a_session[disconnected]",),
    "disconnected twice": (f"{SESSIONS}test_v7_a_session[disconnected_twice]",),
    "the grace cancelled twice": (f"{SESSIONS}test_v7_a_session[cancelled_twice]",),
    "told": (f"{SESSIONS}test_v7_what_is_said[told_on_its_connection]",),
    "told when restored or disconnected": (
        f"{SESSIONS}test_v7_what_is_said[restored_is_told_nothing]",
        f"{SESSIONS}test_v7_what_is_said[disconnected_is_told_nothing]",
    ),
    "message of epoch 9": (f"{SESSIONS}test_v7_what_is_said_on_the_wire[three whole segments]",),
    "message with buckets": (f"{SESSIONS}test_v7_what_is_said_on_the_wire[a shared one]",),
    "message of nothing": (f"{SESSIONS}test_v7_what_is_said_on_the_wire[none]",),
}

V10 = {
    "2, load 20000": (f"{SCALING}[a hot one]",),
    "2, load 100": (f"{SCALING}[a cool one]",),
    "2, disabled": (f"{SCALING}[disabled]",),
    "4, loads of 1": (f"{SCALING}[all are cold]",),
    "1, two consumers": (f"{SCALED}test_consumers_that_come_have_a_segment_each_without_any_tick",),
    "2, disabled in the namespace, enabled by the topic": (
        f"{SCALING}[disabled in the namespace]",
        f"{SCALING}[enabled by the topic]",
        f"{SCALED}test_a_topics_policy_stands_above_its_namespaces_and_is_heard_of_at_once",
    ),
    "2, at most 2": (f"{SCALING}[at most two by the topic]",),
    "2, at most 3": (f"{SCALING}[at most three by the topic]",),
    "2, policies that contradict each other": (f"{SCALING}[namespace and topic contradict each other]",),
    "1, four consumers": (f"{SCALED}test_consumers_that_come_have_a_segment_each_without_any_tick",),
    "2, in the cooldown": (f"{SCALING}[the cooldown of a split]",),
    "2, in the cooldown of the leader before": (
        f"{SCALED}test_h7_the_cooldown_survives_the_leader_and_the_pruning_of_parents",
    ),
    "2, a segment cannot be created once": (f"{SCALED}test_what_fails_burns_no_cooldown_and_is_tried_again",),
}

V13 = {
    "missing, and may not be created": (f"{WATCHES}test_v13[a topic that is not there]",),
    "missing, and is not to be created": (
        f"{WATCHES}test_v13[a topic that is not there]",
        "broker_topics/test_topics_wire_watches.py::test_a_topic_that_is_not_there_is_gone_until_it_is_there",
        f"{STREAM}test_what_cannot_be_is_refused_by_name",
    ),
    "missing, and is to be created": ("broker_topics/test_topics_wire_watches.py::test_who_watches_may_create",),
    "old, not partitioned": (f"{WATCHES}test_v13[an old one that is not partitioned]",),
    "old, of four partitions": (f"{WATCHES}test_v13[an old one with four partitions]",),
    "a partition": (f"{WATCHES}test_v13_a_partition_by_itself",),
    "told under its scalable name": (f"{WATCHES}test_v13[a scalable one by its old name]",),
    "begun and closed": (f"{WATCHES}test_v13[begun, and closed twice]",),
    "what is no news": (f"{WATCHES}test_v13[another topic, a deletion, behind the end]",),
    "what is news": (f"{WATCHES}test_v13[modified]",),
    "all fields": (f"{WATCHES}test_v13_all_fields_of_a_layout",),
    "behind the end, and nobody serves": (
        f"{WATCHES}test_v13_the_newest_alone_is_told_and_nothing_behind_the_end",
        f"{WATCHES}test_v13_nobody_serves_anything",
    ),
}

V14 = {
    "initialize": (f"{LEADER}[initialize]",),
    "missing": (f"{LEADER}[a topic that is missing]",),
    "lock": (f"{LEADER}[the lock]",),
    "not initialized": (f"{LEADER}[not leading]",),
    "register": (f"{LEADER}[register, twice]",),
    "unregister": (f"{LEADER}[unregister, and what is unknown]",),
    "create a subscription": (f"{LEADER}[create a subscription]",),
    "delete a subscription": (f"{LEADER}[delete a subscription]",),
    "split": (f"{LEADER}[split]",),
    "merge": (f"{LEADER}[merge]",),
    "numbers of a new topic": (f"{WIRE}test_v14_the_numbers_of_a_topic_that_is_new",),
    "numbers after a split": (f"{WIRE}test_v14_the_numbers_of_a_topic_after_a_split_with_consumers",),
    "closed, and a new one": (f"{LEADER}[closed, and a new one]",),
    "seek by times": ("leading/test_leading_topics.py::test_a_seek_goes_to_each_segment_as_its_time_says",),
    "skip all": (f"{LEADER}[skip all]",),
    "seek that fails": (f"{LEADER}[seek without cursors]", f"{LEADER}[seek that fails]"),
    "retention of a minute": (f"{LEADER}_a_retention_of_a_minute",),
    "retention for ever": (f"{LEADER}[retention for ever]",),
    "create": (f"{LEADER}[create]",),
    "get twice": (f"{LEADER}[get, twice]",),
    "delete": (f"{LEADER}[delete]",),
    "segments that are created by use": (f"{WIRE}test_v14_who_writes_to_a_segment_creates_none",),
    "migrate": (
        f"{ADMIN}test_what_cannot_be_is_refused_by_name",
        "holes/test_topic_layout_table.py::test_v4_a_topic_of_the_old_kind",
    ),
    "the old name of what is there": (f"{WIRE}test_v14_the_old_name_of_a_topic_that_is_there_is_taken",),
    "who may": (
        "admin/test_admin_gate.py::test_without_a_token_nobody_is_let_in",
        "admin/test_admin_gate.py::test_with_a_token_all_may_be_done",
    ),
    "command line": (
        "console/test_console_commands.py::test_v14_properties_stand_before_or_behind_the_name_and_may_have_commas",
    ),
    "blanks": (f"{ADMIN}test_what_cannot_be_is_refused_by_name",),
}

V15 = {
    "a layout: sealed ones": (f"{STATES}test_v15_what_is_sealed_is_not_among_the_active",),
    "a layout: order": (f"{STATES}test_v15_the_active_are_in_the_order_of_their_ranges",),
    "a layout: brokers": (f"{STATES}test_v15_who_leads_and_who_serves_is_kept",),
    "a layout: empty": (
        f"{STATES}test_v15_a_layout_without_segments_makes_no_sense",
        f"{STATES}test_v15_nobody_leads_and_nobody_serves",
    ),
    "a checkpoint: positions": (
        f"{IDS}test_v15_three_positions_and_none_come_back",
        f"{IDS}test_v15_a_checkpoint_has_the_same_frame",
    ),
    "a checkpoint: the ends": (f"{IDS}test_v15_a_checkpoint_has_the_same_frame",),
    "a checkpoint: what is none": (f"{IDS}test_v15_what_pulsar_refuses_is_refused",),
    "an id: equality": (f"{IDS}test_v15_ids_are_equal_by_their_place_alone_and_compared_with_nothing_else",),
    "an id: order": (f"{IDS}test_v15_ids_are_ordered_by_segment_first_as_values_and_as_bytes",),
    "an id: bytes": (f"{IDS}test_v15_a_message_id_begins_with_its_segment",),
    "an id: what is none": (
        f"{IDS}test_v15_an_id_of_another_length_is_refused",
        f"{IDS}test_v15_a_length_that_cannot_be_is_refused",
    ),
    "a buffer: full, and room again": (
        f"{CREDITS}test_what_was_taken_is_granted_again_when_it_is_worth_a_request",
        f"{CREDITS}test_who_grants_nothing_is_full_at_his_part_and_always_takes_one",
    ),
    "a buffer: several wait for room": (f"{CREDITS}test_who_got_less_is_woken_when_there_is_room",),
    "a buffer: bound": (f"{CREDITS}test_never_more_than_the_bound_and_the_least_of_each",),
    "a buffer: its end": (f"{INTAKE}test_everybody_who_waits_is_told_the_end_and_the_first_reason",),
    "a buffer: who gives up": (f"{INTAKE}test_v15_who_gives_up_waiting_swallows_nothing",),
    "a buffer: first in, first out": (f"{INTAKE}test_v15_who_waits_first_is_served_first",),
    "a buffer: several at once": (f"{INTAKE}test_v15_who_receives_several_gets_as_many_as_are_there_in_their_order",),
}

V16 = {
    "50 before a split, 50 after": (f"{STORIES}[50 before a split and 50 after it]",),
    "two generations": (f"{STORIES}[two generations]",),
    "a second one joins a drained subscription": (f"{STORIES}[drained by the first, joined by the second]",),
    "acknowledged over a split": (f"{STORIES}[acknowledged over a split, opened again]",),
    "sends at once behind a split": (f"{STORIES}[sent at once behind a split]",),
    "a checkpoint over a change": (f"{STORIES}[a checkpoint and a split]", f"{STORIES}[a checkpoint and a merge]"),
    "a segment deleted by force": (f"{STORIES}[a segment is deleted by force]",),
    "two consumers, through any brokers": (
        f"{STREAM}test_two_consumers_divide_the_segments_and_the_second_one_takes_over",
        f"{STORIES}[through brokers that do not lead]",
    ),
    "back by its name in time": (
        f"{STREAM}test_h10_without_leaving_its_segments_wait_for_it_and_it_comes_back_by_its_name",
    ),
    "not back in time": (f"{STORIES}_a_client_that_does_not_come_back_leaves_its_segments_to_the_others",),
    "all of a group gone": (f"{STORIES}_when_all_clients_of_a_group_are_closed_it_has_no_consumers",),
    "asked of who does not lead": (
        "admin/test_admin_brokers.py::test_whoever_is_asked_does_it",
        "broker_topics/test_topics_wire_changes.py::test_who_does_not_lead_says_who_does",
    ),
    "every broker leads some": (
        "leading/test_leading_topics.py::test_brokers_share_topics_and_every_one_knows_who_leads",
    ),
    "each key on one of two who share": (
        f"{STREAM}test_more_consumers_than_segments_share_one_and_keep_each_keys_order",
    ),
    "slow acknowledgements, who joins and leaves": (f"{STORIES}[slow acknowledgements]",),
    "dead letters": (f"{QUEUE}test_dead_letters_are_moved_with_all_that_they_say",),
    "seek to the mark": (f"{STORIES}[a seek to the mark]",),
    "a subscription made before": (f"{STORIES}[a subscription that was there before]",),
    "migrated": (
        "leading/test_leading_hosts.py::"
        "test_h15_data_of_the_old_kind_are_read_to_their_end_and_then_the_segments_behind_them",
    ),
    "topics of a namespace": (
        f"{NAMESPACE}test_topics_that_come_and_go_are_consumed_while_they_are_there",
        f"{STORIES}_who_consumes_a_namespace_creates_no_topic_that_was_deleted",
    ),
    "the last acknowledgement of a namespace": (
        f"{STORIES}_the_last_acknowledgement_of_a_namespace_covers_all_before_it",
        f"{NAMESPACE}test_one_acknowledgement_covers_all_topics_and_their_splits",
    ),
}

V17 = {
    "1 a leader that is deposed while it lives": (
        "leading/test_leading_deaths.py::test_h1_a_frozen_leader_is_deposed_and_changes_nothing_any_more",
        "leading/test_leading_deaths.py::test_a_topic_changes_leaders_again_and_again",
    ),
    "2 a crash after each step": (
        "leading/test_leading_deaths.py::test_h2_a_leader_dies_at_any_point_and_the_next_one_finishes",
        "leading/test_leading_holes.py::test_h2_a_split_that_was_written_down_is_finished_by_whoever_leads_next",
    ),
    "3 splits at once, and a pruning": (
        "leading/test_leading_holes.py::test_h3_splits_of_different_segments_and_a_pruning_at_once",
    ),
    "4 a queue that a client made, over a split and a pruning": (
        "leading/test_leading_hosts.py::test_h4_what_nobody_needs_is_pruned_and_its_log_is_gone",
        f"{QUEUE}test_a_queue_begins_at_the_end_and_gets_what_children_get_h4",
    ),
    "5 drained parents, three generations": (
        "assignment/test_assignment.py::test_h5_three_generations_are_read_in_their_order",
        "leading/test_leading_pruning.py::test_h5_an_empty_segment_that_was_read_at_once_stays_behind_its_parents",
    ),
    "6 nobody is withdrawn by a new leader": (
        "subscriptions/test_sessions_leaders.py::test_h6_a_new_leader_withdraws_nothing_from_anybody",
    ),
    "7 the depth after pruning": (
        "autoscale/test_autoscale_decisions.py::test_h7_merges_are_counted_although_their_traces_are_pruned",
        "holes/test_topic_layout_table.py::test_v4_h7_merges_are_counted_and_pruning_does_not_make_them_forgotten",
    ),
    "8 consumers as many as segments, a segment of one hash": (
        "autoscale/test_autoscale_decisions.py::test_h8_nothing_is_merged_that_consumers_need",
        f"{SCALED}test_h8_a_hot_segment_of_a_single_hash_harms_nobody",
        f"{SCALED}test_h8_cold_segments_are_merged_when_a_consumer_leaves_and_not_before",
    ),
    "9 leaving, and an old connection": (
        "subscriptions/test_sessions_consumers.py::test_h10_who_leaves_frees_its_segments_at_once",
        "subscriptions/test_sessions_consumers.py::test_h10_a_late_word_of_an_old_connection_changes_nothing",
        f"{STREAM}test_h10_a_consumer_that_is_closed_leaves_and_others_get_its_segments_at_once",
    ),
    "10 a topic that is deleted and created anew": (
        "leading/test_leading_topics.py::test_h11_a_topic_can_be_created_anew_under_the_same_name",
        "leading/test_leading_reporting.py::"
        "test_h11_a_report_that_comes_too_late_is_not_taken_for_one_of_the_next_topic",
    ),
    "11 an older layout": (
        "watches/test_watches_topic_lives.py::test_h12_a_broker_that_lags_tells_nothing_older",
        "client_topics/test_topic_admin.py::test_h12_what_is_older_than_what_is_known_is_dropped",
    ),
    "12 data of the old kind": (
        "subscriptions/test_sessions_values.py::test_h15_data_of_the_old_kind_are_read_where_they_are",
        "leading/test_leading_hosts.py::"
        "test_h15_data_of_the_old_kind_are_read_to_their_end_and_then_the_segments_behind_them",
        "watches/test_watches_topics.py::test_a_topic_of_the_old_kind_is_told_as_one_whose_segments_are_its_partitions",
    ),
    "13 what is in flight over a split": (
        "client_topics/test_topic_producing.py::test_h16_the_order_of_a_key_outlives_splits_and_merges",
        "client_topics/test_topic_restarts.py::test_a_restart_across_splits_and_merges_stores_nothing_twice",
    ),
    "14 checkpoints over a split, and handed over": (
        f"{CHECKPOINT}test_h17_from_the_end_on_it_misses_nothing_that_children_get",
        f"{CHECKPOINT}test_h17_a_member_that_leaves_hands_over_what_it_has_committed",
    ),
    "15 names": (
        "topics/test_topic_records.py::test_h20_names_of_subscriptions_and_consumers_are_encoded",
        "admin/test_admin_names.py::test_topics_are_what_they_are_called",
    ),
}

PLACES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "V7": V7,
    "V10": V10,
    "V13": V13,
    "V14": V14,
    "V15": V15,
    "V16": V16,
    "V17": V17,
}
COUNTS = {"V7": 12, "V10": 13, "V13": 12, "V14": 27, "V15": 18, "V16": 21, "V17": 15}
"""How many rows there are, so that none is dropped."""
