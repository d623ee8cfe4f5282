"""Settings that keep a Spark session small that works on a few rows, and does not live long."""

from __future__ import annotations

# Optimising takes longer than it gains, and so does looking whether the classes of known jars are well formed.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

CONFIGURATION = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than running a few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The usual one starts a process for each file that it looks at, on machines without Hadoop's native library.
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.driver.extraJavaOptions": JVM,
}
