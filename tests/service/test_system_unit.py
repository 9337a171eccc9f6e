"""The service of a whole machine, in one with a real systemd as first process (systemd-nspawn over a copy of /)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.machine import absent, lived

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What was found inside."""
    if reason := absent():
        pytest.skip(reason)
    return lived("inside.py", 170)


def test_all_of_it_was_lived_through(found: dict[str, Any]) -> None:
    assert "failed" not in found, found["failed"]


def test_without_a_configuration_the_command_that_makes_one_is_told(found: dict[str, Any]) -> None:
    refused = found["unconfigured"]
    assert refused["code"] == 2
    assert "CONFIGURATION_DIRECTORY=/etc/soul-bridge" in refused["answer"]["error"]["advice"]
    assert found["joined"]["code"] == 0


def test_it_runs_as_the_owner_of_the_checkout_without_any_right(found: dict[str, Any]) -> None:
    assert found["installed"]["code"] == 0, found["installed"]
    assert found["installed"]["answer"]["scope"] == "system"
    assert (found["show"]["ActiveState"], found["show"]["UnitFileState"]) == ("active", "enabled")
    assert found["show"]["User"] == "alice"
    fields = dict(line.split(":", 1) for line in found["process"].splitlines())
    assert fields["Uid"].split() == ["4711"] * 4
    facts = {name: fields[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd")}
    assert facts == {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16, "CapBnd": "0" * 16}


def test_the_key_stays_with_root_and_is_handed_over(found: dict[str, Any]) -> None:
    """AUTH-2: readable by one user, in the folder of credentials only."""
    assert found["credential"] in ("alice 400", "root 440")
    assert found["owners"] == {
        "/var/lib/soul-bridge/kaoru": "alice 700",
        "/etc/soul-bridge/keys/kaoru.server": "root 600",
        "/etc/soul-bridge/keys": "root 700",
    }


def test_it_synchronises_and_tells_how_it_is(found: dict[str, Any]) -> None:
    assert "I live on a server." in found["published"]
    status = found["status"]["answer"]
    assert (status["active"], status["enabled"], status["current"]) == ("active", True, True)


def test_killed_it_begins_again(found: dict[str, Any]) -> None:
    assert int(found["after_kill"]["NRestarts"]) >= 1


def test_a_key_that_is_gone_is_a_failure_that_is_mended_by_installing_again(found: dict[str, Any]) -> None:
    assert found["without_key"]["code"] != 0
    assert found["installed_again"]["code"] == 0


def test_uninstalled_nothing_is_left_of_it(found: dict[str, Any]) -> None:
    assert found["uninstalled"]["code"] == 0
    assert set(found["uninstalled"]["answer"]["left"]) == {"soul", "key", "configuration", "state"}
    assert found["traces"] == []
    assert found["show_after"]["LoadState"] == "not-found"
