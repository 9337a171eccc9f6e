"""One question to one API: over TLS that is verified, to nobody else, and with an end to everything.

No proxy and no other setting of the environment is obeyed, and no answer that points elsewhere is followed: the token
is for this host alone.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bridge.core.errors import AnswerLost, Refused, SoulError, Transient, Unusable
from bridge.core.words import readable

LARGEST = 1 << 20  # bytes of an answer
_PLAIN = re.compile(r"[\x21-\x7e]+")
FORM = "an API's address is https://HOST[:PORT][/PATH]; plain http only for this machine itself"


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: to connect, and for one step of an answer; for a whole answer."""

    step: float = 10.0
    whole: float = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said. headers: names in lower case. document: None when the body is not JSON."""

    status: int
    headers: Mapping[str, str]
    document: Any


@dataclass(frozen=True, slots=True)
class Base:
    """Where an API is. path: without a "/" at its end."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """Its host, as people write it."""
        usual = self.port == (443 if self.secure else 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if usual else f"{host}:{self.port}"


def base(url: str) -> Base:
    """The parts of an API's address. Raises Unusable(kind="usage") for one that must not get a token."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    secure = parts.scheme == "https"
    plain = host is not None and parts.scheme == "http" and _is_this_machine(host)
    if (
        not host
        or not (secure or plain)
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
        or not _PLAIN.fullmatch(url)
    ):
        raise Unusable(
            f"{readable(url.rpartition('@')[2], 200)!r} cannot be the address of an API: {FORM}",
            kind="usage",
            rule="AUTH-3",
            advice="Nothing was sent. Give it as --api https://HOST/api/v1, or leave --api out.",
        )
    return Base(secure, host, port or (443 if secure else 80), parts.path.rstrip("/"))


def _is_this_machine(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@dataclass(frozen=True, slots=True)
class Api:
    """An API, and what is said with every question; a token is among that."""

    base: Base
    headers: Mapping[str, str] = field(repr=False)
    patience: Patience = field(default_factory=Patience)

    def ask(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Answer:
        """One question and its answer, whatever its status.

        Raises Transient when nothing was heard, AnswerLost when something was asked for and its answer is not known,
        Refused(kind="hostkey") when the host could not show that it is itself: then nothing was sent.
        """
        connection = self._connected()
        line = connection.sock
        late = threading.Event()

        def cut() -> None:
            late.set()
            with contextlib.suppress(OSError):
                # Not the method of a TLS socket, which takes its state away under the thread that reads.
                socket.socket.shutdown(line, socket.SHUT_RDWR)

        watch = threading.Timer(self.patience.whole, cut)
        watch.daemon = True
        watch.start()
        try:
            body = None if document is None else json.dumps(document).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, self.base.path + path, body, {**self.headers, **kind})
            with connection.getresponse() as response:
                return _heard(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._lost(method, error, late.is_set()) from error
        finally:
            watch.cancel()
            watch.join()
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        host, port, step = self.base.host, self.base.port, self.patience.step
        connection: http.client.HTTPConnection
        if self.base.secure:
            connection = http.client.HTTPSConnection(host, port, timeout=step, context=_verifying())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=step)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise self._unmet(error) from error
        return connection

    def _unmet(self, error: OSError | UnicodeError) -> SoulError:
        shown, safe = self.base.shown, "Nothing was sent, and nothing was changed."
        if isinstance(error, ssl.SSLCertVerificationError):
            return Refused(
                f"{shown} did not prove to be itself: {readable(error.verify_message, 200).rstrip('.')}",
                kind="hostkey",
                rule="AUTH-3",
                advice=f"{safe} Is the address right? The certificate of a server of your own has to be one that this "
                "machine trusts: add its authority to the system, or name its file in SSL_CERT_FILE.",
            )
        words = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        what = "no TLS connection to" if isinstance(error, ssl.SSLError) else "cannot reach"
        return Transient(f"{what} {shown}, port {self.base.port}: {readable(words, 200)}", rule="AUTH-3", advice=safe)

    def _lost(self, method: str, error: Exception, late: bool) -> SoulError:
        silent = late or isinstance(error, TimeoutError)
        words = "it does not answer in time" if silent else readable(str(error), 200) or "the connection was cut"
        message = f"no answer of {self.base.shown}: {words}"
        if method == "GET":
            return Transient(message, rule="AUTH-3", advice="Nothing was changed.")
        return AnswerLost(
            message,
            rule="AUTH-3",
            advice="Whether it was done is not known; asking again is safe, since it looks first.",
        )


def _verifying() -> ssl.SSLContext:
    # Not the library's default context: that one writes down session keys where the environment asks for it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs()
    return context


def _heard(response: http.client.HTTPResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    content = response.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"more than {LARGEST // 1024} KiB came")
    if response.length:  # what was announced and did not come
        raise http.client.IncompleteRead(content, response.length)
    try:
        document = json.loads(content) if content else None
    except (ValueError, RecursionError):
        document = None
    return Answer(response.status, headers, document)
