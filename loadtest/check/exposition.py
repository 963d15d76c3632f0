"""Metrics as Prometheus' text has them: read, and subtracted from each other. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from loadtest.check.usage import LogUse, ShardUse

Series = tuple[str, tuple[tuple[str, str], ...]]
Samples = Mapping[Series, float]

CPU = "process_cpu_seconds_total"
PUTS = "oxia_server_db_puts_total"


def parse(text: str) -> Samples:
    """The samples of an exposition; ValueError if it is none."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def grown(before: Samples, after: Samples) -> Samples | None:
    """By how much each has grown; None if the process was started anew in between, which makes counters fall."""
    if after.get((CPU, ()), 0.0) < before.get((CPU, ()), 0.0):
        return None
    return {series: value - before.get(series, 0.0) for series, value in after.items()}


def total(samples: Samples, name: str) -> float:
    """Of all label values."""
    return sum(value for (each, _), value in samples.items() if each == name)


def logs_of(samples: Samples) -> list[LogUse]:
    """What the logs of a broker's segments have done, where they were written to."""
    kinds = [labels for name, labels in samples if name == "tidemark_segment_log_sync_seconds_count"]
    logs = (
        LogUse(
            kind=dict(each)["log"],
            syncs=samples["tidemark_segment_log_sync_seconds_count", each],
            sync_s=samples["tidemark_segment_log_sync_seconds_sum", each],
        )
        for each in kinds
    )
    return [log for log in logs if log.syncs > 0]


def shards_of(samples: Samples, seconds: float) -> list[ShardUse]:
    """What the shards of our metadata service have done."""
    labels = [labels for name, labels in samples if name == "tidemark_round_sync_seconds_count"]

    def of(name: str, of_shard: tuple[tuple[str, str], ...]) -> float:
        return samples.get((name, of_shard), 0.0)

    return [
        ShardUse(
            name="shard {shard} of {oxia_namespace}".format_map(dict(each)),
            seconds=seconds,
            rounds=of("tidemark_round_sync_seconds_count", each),
            sync_s=of("tidemark_round_sync_seconds_sum", each),
            paced_s=of("tidemark_writes_paced_seconds_total", each),
            writes=of("tidemark_write_seconds_count", each),
            write_s=of("tidemark_write_seconds_sum", each),
        )
        for each in labels
    ]
