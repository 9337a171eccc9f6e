"""A key that systemd hands to the unit (LoadCredential) is used, and is as private as any other."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bridge.adapters import config, hosts, keys
from bridge.core.errors import Refused

BODY = "agent: kaoru\nbody: laptop\nsoul: /srv/kaoru.soul\nremote: git@host:me/kaoru.soul.git\n"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """The folder that systemd made for the unit, with the key in it."""
    folder = tmp_path / "credentials"
    keys.generate(folder / "kaoru.laptop", "kaoru.laptop")
    (folder / "kaoru.laptop").chmod(0o400)
    return folder


def places(tmp_path: Path, given: Path | None) -> config.Places:
    environment = {"HOME": str(tmp_path), "CONFIGURATION_DIRECTORY": str(tmp_path / "soul-bridge")}
    (tmp_path / "soul-bridge").mkdir(exist_ok=True)
    if given is not None:
        environment["CREDENTIALS_DIRECTORY"] = str(given)
    return config.locate(environment)


@pytest.mark.parametrize("configured", ["", "key: /etc/elsewhere/kaoru\n"])
def test_the_credential_comes_before_the_configured_key(tmp_path: Path, given: Path, configured: str) -> None:
    found = places(tmp_path, given)
    found.config_file("kaoru").write_text(BODY + configured)
    assert config.load(found, "kaoru").key == given / "kaoru.laptop"


def test_without_a_credential_of_that_name_the_configured_key_is_used(tmp_path: Path, given: Path) -> None:
    for found in (places(tmp_path, None), places(tmp_path, tmp_path / "nowhere"), places(tmp_path, given)):
        found.config_file("kaoru").write_text(BODY.replace("laptop", "server"))
        assert config.load(found, "kaoru").key == found.keys / "kaoru.server"


def test_a_credential_of_root_may_be_read_by_the_one_user_it_is_for(tmp_path: Path, given: Path) -> None:
    """AUTH-2: systemd leaves it root's where it can give the user access by a list, whose mask shows as group bits."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of root's: sudo is missing")
    path = given / "kaoru.laptop"
    path.chmod(0o440)
    os.seteuid(65534)
    try:
        with pytest.raises(Refused, match="cannot read|belongs to another user"):
            keys.load(path, tmp_path / "soul")
    finally:
        os.seteuid(0)
    assert keys.load(path, tmp_path / "soul", given).path == path
    with pytest.raises(Refused, match="others may read"):
        keys.load(path, tmp_path / "soul")


@pytest.mark.parametrize("mode", [0o444, 0o460, 0o404])
def test_a_credential_that_others_may_read_or_write_is_refused(tmp_path: Path, given: Path, mode: int) -> None:
    """AUTH-2."""
    path = given / "kaoru.laptop"
    path.chmod(mode)
    with pytest.raises(Refused, match="others may read"):
        keys.load(path, tmp_path / "soul", given)


def test_only_the_folder_of_credentials_is_trusted_so_far(tmp_path: Path, given: Path) -> None:
    """AUTH-2."""
    path = tmp_path / "keys" / "kaoru.laptop"
    keys.generate(path, "kaoru.laptop")
    path.chmod(0o440)
    with pytest.raises(Refused, match="others may read"):
        keys.load(path, tmp_path / "soul", given)


def test_the_part_of_the_state_that_a_unit_owns_leads_to_the_whole(tmp_path: Path) -> None:
    environment = {"HOME": "/h", "STATE_DIRECTORY": "/var/lib/soul-bridge/kaoru"}
    assert config.locate(environment).state_dir("kaoru") == Path("/var/lib/soul-bridge/kaoru")


def test_what_a_service_was_let_to_read_stays_so_when_it_is_written_anew(tmp_path: Path) -> None:
    """The configuration and the pinned hosts of a whole machine are root's; their reader is another user."""
    found = places(tmp_path, None)
    path = found.config_file("kaoru")
    path.write_text(BODY)
    path.chmod(0o640)
    config.save(found, config.load(found, "kaoru"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    pinned = hosts.KnownHosts(found.known_hosts)
    key = hosts.HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIGq2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2Y2")
    pinned.pin("[host]:22", key)
    assert stat.S_IMODE(found.known_hosts.stat().st_mode) == 0o600
    found.known_hosts.chmod(0o644)
    pinned.pin("[other]:22", key)
    assert stat.S_IMODE(found.known_hosts.stat().st_mode) == 0o644
