"""``python -m tests.gateway.azure.sample FILE`` runs a sample of the SDK where names of hosts lead to the gateway.

Samples take their credentials from ``azure.identity``; here the credential is a key, because there are no identities.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from types import ModuleType
from typing import Any

from tests.gateway.azure import tooling


class Credential:
    """A credential that is a key, for clients of either kind."""

    def __init__(self) -> None:
        super().__init__(os.environ["SERVICEBUS_SAS_POLICY"], os.environ["SERVICEBUS_SAS_KEY"])  # type: ignore[call-arg]

    def close(self) -> Any:
        """There is nothing to close."""


def main(path: str) -> None:
    host = os.environ["SERVICEBUS_FULLY_QUALIFIED_NAMESPACE"]
    known: dict[str, tuple[str, int]] = json.loads(os.environ["PGQUEUE_AZURE_PLACES"])
    tooling.places.update({(host, int(port)): place for port, place in known.items()})
    tooling.connect()
    from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
    from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential as AsyncKeyCredential

    class KeyCredential(Credential, ServiceBusSharedKeyCredential):
        def __enter__(self) -> KeyCredential:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    class AsyncCredential(Credential, AsyncKeyCredential):
        async def close(self) -> None:
            """There is nothing to close."""

        async def __aenter__(self) -> AsyncCredential:
            return self

        async def __aexit__(self, *_: object) -> None:
            await self.close()

    for name, kind in {"azure.identity": KeyCredential, "azure.identity.aio": AsyncCredential}.items():
        module = sys.modules[name] = ModuleType(name)
        module.__dict__.update(DefaultAzureCredential=kind, EnvironmentCredential=kind)
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
