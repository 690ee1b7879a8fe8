"""TLS before a server that knows none: a `Proxy` that speaks it, with certificates made for the test."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Authority:
    """Who signs: for 127.0.0.1 and localhost, and for clients. Its files lie in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca, self.cert, self.key, self._server = (
            folder / name for name in ("ca.pem", "client.pem", "client.key", "server.pem")
        )
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca))
        server = authority.issue_cert("127.0.0.1", "localhost")
        server.private_key_and_cert_chain_pem.write_to_path(str(self._server))
        client = authority.issue_cert("client@example.org")
        client.private_key_pem.write_to_path(str(self.key))
        client.cert_chain_pems[0].write_to_path(str(self.cert))

    def context(self, *, ask_clients: bool = False) -> ssl.SSLContext:
        """For `Proxy(server.port, tls=…)`. If clients are asked, those without a certificate of ours are refused."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._server)
        if ask_clients:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context
