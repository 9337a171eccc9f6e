"""paramiko, without what it loads and nobody here uses.

It has `invoke` for the `Match exec` of an ssh_config, and none is read here; loading that costs half of a start and
7 MiB. Where it cannot be imported, paramiko goes without.
"""

from __future__ import annotations

import sys

sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]

import paramiko  # noqa: E402

__all__ = ["paramiko"]
