"""The scenarios in which a real Pulsar 5.0.0-M1 was recorded, and the holes of its design, each against ours.

The idea. A scenario is a short story, told once and played on one shard and on four, with a store that has `transact`
and with one that has not: a few brokers in one process, over a store in memory, with a time that a test can look ahead
of. Each asserts what its recording shows to have gone wrong, and in the end everything is read once more and judged by
the checker of `txn_histories`, so a story cannot go wrong in a way that nobody thought of.

The scenarios are named by their letters (test_scenario_a_…), the holes by their numbers (test_h1_…). That each hole has
a test somewhere, and where, is asserted in test_txn_holes_covered.py.

Start reading at scene.py, then any story.
"""
