"""The metrics of several processes together: counts are added up; gauges get a label with the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: The types whose samples can be added up.
COUNTS = ("counter", "histogram", "summary")

Key = tuple[str, tuple[tuple[str, str], ...]]


def counts(families: Iterable[Metric]) -> Iterator[Metric]:
    """The metrics that are kept of a process that has ended."""
    return (family for family in families if family.type in COUNTS)


def named(families: Iterable[Metric], process: int) -> Iterator[Metric]:
    """The handlers' own metrics, their gauges labelled with the process: a sum may be meaningless."""
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
    """One family for each name, with one sample for each name and labels."""
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
    """The sum of two counts, or the earlier of two times of creation."""
    return min(one, other) if name.endswith("_created") else one + other
