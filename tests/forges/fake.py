"""A host's API on the loopback interface, as the three kinds document it: deploy keys of a repository, and refusals."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "tok_en-7Jq2XWv9ZpLr4Nc8"
# How each kind is told whose call it is.
SIGNED = {"github": f"Bearer {TOKEN}", "gitlab": f"Bearer {TOKEN}", "forgejo": f"token {TOKEN}"}
BASES = {"github": "/api/v3", "gitlab": "/api/v4", "forgejo": "/api/v1"}
UNSIGNED = {
    "github": {"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest", "status": "401"},
    "gitlab": {"message": "401 Unauthorized"},
    "forgejo": {"message": "token is required", "url": "https://forge.example/api/swagger"},
}
UNKNOWN = {
    "github": {"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"},
    "gitlab": {"message": "404 Project Not Found"},
    "forgejo": {"errors": [], "message": "The target couldn't be found.", "url": "https://forge.example/api/swagger"},
}
TAKEN = {
    "github": (
        422,
        {
            "message": "Validation Failed",
            "errors": [{"resource": "PublicKey", "code": "custom", "field": "key", "message": "key is already in use"}],
            "documentation_url": "https://docs.github.com/rest/deploy-keys/deploy-keys#create-a-deploy-key",
            "status": "422",
        },
    ),
    "gitlab": (400, {"message": {"deploy_key.fingerprint_sha256": ["has already been taken"]}}),
    "forgejo": (422, {"message": "Key content has been used as non-deploy key", "url": "https://forge.example/api"}),
}


@dataclass
class Asked:
    """One question: its line, its headers in lower case, its document."""

    method: str
    path: str
    headers: Mapping[str, str]
    document: Any


@dataclass
class FakeForge:
    """The API of one kind of host. answer: said instead of everything, as (status, headers, body).

    added: hears of each key that comes, as the line and whether it may write. drips: says it too slowly.
    """

    kind: str
    repository: str = "me/kaoru.soul"
    rows: list[dict[str, Any]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked], tuple[int, Mapping[str, str], bytes] | None] = lambda asked: None
    added: Callable[[str, bool], None] = lambda line, write: None
    per_page: int = 100
    drips: bool = False

    def __post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What to give as --api."""
        return f"http://127.0.0.1:{self.port}{BASES[self.kind]}"

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def has(self, line: str, title: str, write: bool = True) -> dict[str, Any]:
        """Lay a key there."""
        blob = " ".join(line.split()[:2])
        row: dict[str, Any] = {"id": 101 + len(self.rows), "title": title, "key": blob}
        if self.kind == "gitlab":
            row |= {"can_push": write, "created_at": "2026-01-02T10:12:29Z", "expires_at": None}
        else:
            row |= {"read_only": not write, "created_at": "2026-01-02T10:12:29Z", "url": f"{self.url}/keys"}
        self.rows.append(row)
        return row

    def respond(self, asked: Asked) -> tuple[int, Mapping[str, str], bytes]:
        """What the API says."""
        instead = self.answer(asked)
        if instead is not None:
            return instead
        status, document = self._document(asked)
        return status, {"Content-Type": "application/json"}, json.dumps(document).encode()

    def _document(self, asked: Asked) -> tuple[int, Any]:
        if asked.headers.get("authorization") != SIGNED[self.kind] or "user-agent" not in asked.headers:
            return 401, UNSIGNED[self.kind]
        parts = urlsplit(asked.path)
        if unquote(parts.path) != BASES[self.kind] + self._place():
            return 404, UNKNOWN[self.kind]
        if self.kind == "gitlab" and parts.path.count("/") != 5:
            return 404, {"error": "404 Not Found"}
        if asked.method == "GET":
            query = parse_qs(parts.query)
            size = min(self.per_page, int(query.get("per_page" if self.kind != "forgejo" else "limit", ["30"])[0]))
            first = (int(query.get("page", ["1"])[0]) - 1) * size
            return 200, self.rows[first : first + size]
        return self._create(asked.document)

    def _place(self) -> str:
        if self.kind == "gitlab":
            return f"/projects/{self.repository}/deploy_keys"
        return f"/repos/{self.repository}/keys"

    def _create(self, document: Any) -> tuple[int, Any]:
        if set(document) != {"title", "key", "can_push" if self.kind == "gitlab" else "read_only"}:
            return 422, {"message": f"Invalid request: {sorted(document)}"}
        if self.kind == "forgejo" and document["title"] in [row["title"] for row in self.rows]:
            return 422, {"message": "A key with the same name already exists", "url": "https://forge.example/api"}
        write = document["can_push"] if self.kind == "gitlab" else not document["read_only"]
        self.added(document["key"], write)
        return 201, self.has(document["key"], document["title"], write)


def _answering(forge: FakeForge) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *words: object) -> None:
            pass

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            content = self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, json.loads(content) if content else None)
            forge.asked.append(asked)
            status, told, body = forge.respond(asked)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | dict(told)).items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # whoever asked may have gone
                for at in range(len(body)) if forge.drips else ():
                    self.wfile.write(body[at : at + 1] if at < len(body) - 1 else b"")
                    time.sleep(0.4)
                self.wfile.write(b"" if forge.drips else body)

    return Answering
