"""The engine of one shard: its records, indexes and sessions, in order and durable."""
