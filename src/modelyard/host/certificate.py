"""The certificate of a daemon: read again when its files have been replaced, so that a renewal needs no restart.

`daemon` listens with it. Nothing watches the files; each handshake looks at their times.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from modelyard.host.settings import Tls

_log = structlog.get_logger()


class Certificate:
    """The files of a certificate and its key. `OSError` when they cannot be used to begin with."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._stamp = self._stamps()
        self._newest = self.context = self._read()
        # It is called without a server name as well: the operator may call by address.
        self.context.sni_callback = self._present

    def _present(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current()

    def _current(self) -> ssl.SSLContext:
        """Return a context with the newest certificate that can be used."""
        stamp = self._stamps()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._newest = self._read()
            except OSError as error:
                # The two files are replaced one after the other, and in between they do not match.
                _log.warning("the new certificate cannot be used, so the old one is", error=str(error))
            else:
                _log.info("serving with a new certificate", file=str(self._tls.certificate))
        return self._newest

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        """Return what differs after the files were replaced; empty: one of them is missing."""
        try:
            found = [file.stat() for file in (self._tls.certificate, self._tls.key)]
        except OSError:
            return ()
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in found)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._tls.certificate, self._tls.key)
        return context
