"""What is written into unit files means what it says, to systemd itself."""

from __future__ import annotations

import plistlib
import shutil
from pathlib import Path

import pytest

from bridge.adapters.systemd import Systemd
from bridge.app import units
from bridge.app.units import Site
from tests.service.manager import Manager

ODD = "a b%n\"c\\d$HOME'e;f#g"
PLAIN = Site("kaoru", ("/usr/bin/env",), (Path("/srv/souls"),))


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_a_drop_in_names_what_only_this_machine_knows() -> None:
    site = Site(
        "kaoru",
        ("/opt-in/soul-bridge",),
        (Path("/home/k/.local/state/soul-bridge"), Path("/home/k/souls"), Path("/home/k/souls")),
        {"SOUL_BRIDGE_HOME": "/home/k/b"},
        ("/home/k/bin",),
        owner=("k", "users"),
        credential=("kaoru.laptop", Path("/etc/soul-bridge/keys/kaoru.laptop")),
    )
    assert lines(units.drop_in(site)) == [
        "[Service]",
        "ExecStart=",
        'ExecStart="/opt-in/soul-bridge" run %i',
        'Environment="PATH=/home/k/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"',
        'Environment="SOUL_BRIDGE_HOME=/home/k/b"',
        "User=k",
        "Group=users",
        "LoadCredential=kaoru.laptop:/etc/soul-bridge/keys/kaoru.laptop",
        'ReadWritePaths="-/home/k/.local/state/soul-bridge"',
        'ReadWritePaths="-/home/k/souls"',
    ]


def test_only_where_commands_are_configured_may_they_do_what_their_owner_may() -> None:
    assert "MemoryDenyWriteExecute" not in units.drop_in(PLAIN)
    with_commands = units.drop_in(Site("kaoru", ("/usr/bin/env",), (), commands=True))
    assert {"MemoryDenyWriteExecute=no", "ProtectHome=no", "SystemCallFilter="} <= set(lines(with_commands))


@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize("commands", [False, True])
@pytest.mark.parametrize("confined", [False, True])
def test_systemd_likes_every_drop_in_and_says_what_it_does_not_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: bool, commands: bool, confined: bool
) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing (Debian, Ubuntu: apt-get install systemd)")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    place = (Path(f"/srv/{ODD.replace('/', '')}"),)
    owner, key = (("daemon", "daemon"), ("kaoru.laptop", Path("/etc/a%b"))) if system else (None, None)
    site = Site("kaoru", ("/usr/bin/env", ODD), place, {"ODD": ODD}, (), commands, owner, key)
    unit, drop_in = tmp_path / site.unit, tmp_path / f"{site.unit}.d" / units.DROP_IN
    drop_in.parent.mkdir()
    unit.write_text(units.template(system=system))
    drop_in.write_text(units.drop_in(site, confined=confined))
    assert Systemd(system=system).verify(unit, drop_in) == ""
    drop_in.write_text(units.drop_in(site) + "ProtectNothing=yes\n")
    assert "ProtectNothing" in Systemd(system=system).verify(unit, drop_in)


def test_a_program_gets_exactly_the_words_and_the_environment_that_were_meant(manager: Manager, tmp_path: Path) -> None:
    out = manager.home.parent / "said"
    site = Site("kaoru", ("/bin/sh", "-c", f'printf "%s|" "$@" "$ODD" > {out}', ODD, "${HOME} $HOME"), (), {"ODD": ODD})
    manager.clean()
    manager.units.mkdir(parents=True)
    (manager.units / "soul-bridge@.service").write_text(f"[Service]\nType=oneshot\n{units.drop_in(site)}")
    manager.call("daemon-reload")
    manager.call("start", site.unit)
    assert out.read_text() == f"${{HOME}} $HOME|run|kaoru|{ODD}|"
    manager.clean()


def test_the_agent_of_launchd_starts_the_same_and_begins_again_after_a_crash() -> None:
    site = Site("kaoru", ("/usr/local/bin/soul-bridge",), (), {"SOUL_BRIDGE_HOME": "/Users/k/b"}, ("/opt-in/bin",))
    found = plistlib.loads(units.plist(site, Path("/Users/k/log")))
    assert found["ProgramArguments"] == ["/usr/local/bin/soul-bridge", "run", "kaoru"]
    assert found["EnvironmentVariables"]["SOUL_BRIDGE_HOME"] == "/Users/k/b"
    assert found["EnvironmentVariables"]["PATH"].startswith("/opt-in/bin:")
    assert (found["RunAtLoad"], found["KeepAlive"]) == (True, {"SuccessfulExit": False})
