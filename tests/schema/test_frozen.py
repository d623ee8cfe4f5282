"""Revisions are frozen: a database that has run one would not get what is added to it."""

from __future__ import annotations

import hashlib

import pytest

from pgqueue.schema import files

#: A digest of each. A change of a table is a new revision, with a digest of its own.
DIGESTS = {
    "0001_queues.sql": "16685bbaf6b2",
    "0002_messages.sql": "e45209bc298b",
    "0003_sessions.sql": "c049c9028ef2",
    "0004_topics.sql": "e7b79a3d6747",
    "0005_schedules.sql": "aa1f359d89b4",
    "0006_spark.sql": "c3bfa4b34cdf",
    "0007_operations.sql": "9e6df0cc2c4e",
    "0008_unique_keys.sql": "36892eb4ccdf",
    "0009_results.sql": "162b804947d9",
    "0010_groups.sql": "f003904790b5",
    "0011_batches.sql": "37188b5a541e",
    "0012_rules.sql": "dc400377caef",
    "0013_topics.sql": "f33ad7614c3e",
    "0014_unbound_rows.sql": "9da6af51413b",
    "0015_gateway_keys.sql": "f069c9c7738e",
    "0016_state_times.sql": "678471c8eb20",
    "0017_replica_identity.sql": "690616ea3fd3",
}


@pytest.mark.core
def test_no_revision_was_changed() -> None:
    revisions = sorted((files.folder("migrations") / "versions").glob("*.sql"))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in revisions}
    assert found == DIGESTS
