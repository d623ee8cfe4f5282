"""``python -m tests.gateway.azure [FILE ...] [OPTION OF PYTEST ...]``: fails if a test fails that is not listed, and if
one passes that is. Without files it runs all tests of messages and of the administration.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".postgres"

#: How long a test may take, in seconds: some sleep for five minutes.
PATIENCE = 420

#: Tests that need no server; those of tracing switch it on for all that come after them.
IGNORED = ("perf_tests", "unittests", "test_tracing.py")


def main(arguments: list[str]) -> int:
    tests = sources() / "tests"
    certificate = CACHE / "azure.pem"
    write_certificate(certificate)
    files = [argument for argument in arguments if (tests / argument.partition("::")[0]).exists()]
    options = [argument for argument in arguments if argument not in files]
    trusted = dict.fromkeys(("PGQUEUE_AZURE_CERTIFICATE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(certificate))
    environment = {
        "PYTHONPATH": str(ROOT),
        "SERVICEBUS_ENDPOINT_SUFFIX": ".pgqueue.test",
        "SERVICEBUS_RESOURCE_GROUP": "group",
    }
    command = [
        sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={tests}", "-p", "tests.gateway.azure.plugin",
        "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function",
        "--show-capture=no", "-q", "--numprocesses=4", "--dist=worksteal", f"--timeout={PATIENCE}",
        "--timeout-method=signal", *[f"--ignore={tests / name}" for name in IGNORED], *options, *(files or ["."]),
    ]  # fmt: skip
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, cwd=tests, env=inherited | trusted | environment, check=False).returncode


def sources() -> Path:
    """The unpacked source distribution of the installed SDK."""
    name = f"azure_servicebus-{version('azure-servicebus')}"
    if not (CACHE / name).exists():
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
            options = ["--dest", folder, f"azure-servicebus=={version('azure-servicebus')}"]
            subprocess.run([*pip, *options], check=True)
            (archive,) = Path(folder).glob("*.tar.gz")
            with tarfile.open(archive) as opened:
                opened.extractall(CACHE, filter="data")
    return CACHE / name


def write_certificate(path: Path) -> None:
    """A certificate of all hosts that the tests connect to, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pgqueue.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("*.pgqueue.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + private)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
