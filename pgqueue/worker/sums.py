"""Metrics of several processes on one page: what is counted is added up, what is measured names its process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: The types whose samples can be added up.
COUNTS = ("counter", "histogram", "summary")

Key = tuple[str, tuple[tuple[str, str], ...]]


def counts(families: Iterable[Metric]) -> Iterator[Metric]:
    """What remains of a process that has ended."""
    return (family for family in families if family.type in COUNTS)


def named(families: Iterable[Metric], process: int) -> Iterator[Metric]:
    """The metrics that handlers keep themselves: nobody knows what the sum of their gauges means."""
    from prometheus_client.metrics_core import Metric

    for family in families:
        if family.type in COUNTS:
            yield family
            continue
        marked = Metric(family.name, family.documentation, family.type)
        marked.samples = [
            sample._replace(labels={"process": str(process), **sample.labels}) for sample in family.samples
        ]
        yield marked


def summed(families: Iterable[Metric]) -> list[Metric]:
    """One family for each name, and in it one sample for each name and labels."""
    from prometheus_client.metrics_core import Metric

    sums: dict[str, Metric] = {}
    samples: dict[str, dict[Key, float]] = {}
    for family in families:
        sums.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        values = samples.setdefault(family.name, {})
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            values[key] = _together(sample.name, values[key], sample.value) if key in values else sample.value
    for name, total in sums.items():
        for (sample_name, labels), value in samples[name].items():
            total.add_sample(sample_name, dict(labels), value)
    return list(sums.values())


def _together(name: str, one: float, other: float) -> float:
    """A count, or the time since when something is counted."""
    return min(one, other) if name.endswith("_created") else one + other
