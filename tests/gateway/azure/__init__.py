"""The live tests of the Azure SDK for Python against the gateway: ``python -m tests.gateway.azure``.

The tests are those of the source distribution of the installed ``azure-servicebus``, unchanged; pip downloads it once.
They import Microsoft's tools for Azure accounts: :mod:`~tests.gateway.azure.tooling` stands in for these, with a
namespace that is a database of its own and a gateway. ``cannot.toml`` lists the tests that cannot pass, and why.
"""
