"""The certificate with which the service proves who it is: loaded once, when it starts."""

import ssl
from pathlib import Path

from online.errors import SetupError


def create_tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a server needs to speak TLS 1.2 or newer.

    certificate: PEM, with the certificates that lead to a known authority after it. key: PEM, without a passphrase.
    Raises SetupError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # never ask on a terminal
    except (OSError, ValueError) as error:
        raise SetupError(
            f"tls_certificate {certificate} and tls_key {key} cannot be used: {describe(error)}; both are PEM files, the key "
            "belongs to the certificate and has no passphrase"
        ) from None
    return context


def describe(error: OSError | ValueError) -> str:
    """Return the reason of a TLS error in lower case."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
