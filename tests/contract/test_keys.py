"""This body's key: made private, and refused whenever it is not."""

from __future__ import annotations

import base64
import os
import resource
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from bridge.adapters import keys
from bridge.core.errors import Refused, Transient, Unusable


@pytest.fixture
def soul(tmp_path: Path) -> Path:
    place = tmp_path / "souls" / "kaoru.soul"
    (place / "notes").mkdir(parents=True)
    return place


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys" / "kaoru.laptop"


def refusal(path: Path, soul: Path) -> Refused:
    with pytest.raises(Refused) as caught:
        keys.load(path, soul)
    assert caught.value.advice
    return caught.value


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_new_key_is_private_whatever_the_umask(path: Path, soul: Path, umask: int) -> None:
    """AUTH-2."""
    path.parent.parent.mkdir()
    before = os.umask(umask)
    try:
        made = keys.generate(path, "kaoru.laptop soul-bridge")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.with_name("kaoru.laptop.pub").read_text() == made.line + "\n"
    assert made.line.startswith("ssh-ed25519 AAAA")
    assert made.line.endswith(" kaoru.laptop soul-bridge")
    loaded = keys.load(path, soul)
    assert (loaded.public, loaded.line, loaded.fingerprint) == (made, made.line, made.fingerprint)
    assert keys.public(path) == made


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    keys.generate(tmp_path / "shared" / "key", "c")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_a_key_is_never_replaced(path: Path, soul: Path) -> None:
    made = keys.generate(path, "first")
    with pytest.raises(Unusable) as caught:
        keys.generate(path, "second")
    assert caught.value.kind == "auth"
    assert keys.load(path, soul).public == made
    path.unlink()
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(Unusable):
        keys.generate(path, "through a link")


def test_a_place_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((Transient, Unusable)):
        keys.generate(tmp_path / "file" / "key", "c")


def test_a_comment_cannot_smuggle_in_a_second_line(path: Path) -> None:
    assert keys.generate(path, "one\nssh-ed25519 AAAA two").line.count("\n") == 0


def test_ssh_keygen_agrees(path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    made = keys.generate(path, "kaoru")

    def run(*args: str) -> str:
        return subprocess.run(["ssh-keygen", *args], check=True, capture_output=True, text=True).stdout

    assert made.fingerprint in run("-lf", str(path))
    assert run("-yf", str(path)).split()[1] == made.blob


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(path: Path, soul: Path, mode: int) -> None:
    """AUTH-2."""
    keys.generate(path, "c")
    path.chmod(mode)
    refused = refusal(path, soul)
    assert (refused.kind, refused.rule) == ("auth", "AUTH-2")
    assert f"chmod 600 {path}" in refused.advice
    path.chmod(0o600)
    keys.load(path, soul)
    path.chmod(0o400)
    keys.load(path, soul)


def test_a_missing_key_is_refused_and_work_goes_on(path: Path, soul: Path) -> None:
    """AUTH-4."""
    refused = refusal(path, soul)
    assert (refused.kind, refused.rule, refused.exit_code) == ("auth", "AUTH-4", 4)


def test_a_key_of_another_user_is_refused(path: Path, soul: Path) -> None:
    """AUTH-2."""
    if os.geteuid() != 0:
        pytest.skip("sudo is not here: giving a file away needs the root user")
    keys.generate(path, "c")
    os.chown(path, 12345, 12345)
    assert "another user" in refusal(path, soul).message


@pytest.mark.parametrize("spelling", ["plain", "dots", "link to the file", "link to the folder", "link inside"])
def test_a_key_inside_the_soul_is_refused_however_it_is_spelled(tmp_path: Path, soul: Path, spelling: str) -> None:
    """AUTH-2, CONTENT-2."""
    inside, outside = soul / "notes" / "key", tmp_path / "outside"
    outside.mkdir()
    keys.generate(inside, "c")
    spelled = {
        "plain": inside,
        "dots": tmp_path / "souls" / ".." / "souls" / "kaoru.soul" / "notes" / "key",
        "link to the file": outside / "link",
        "link to the folder": outside / "folder" / "key",
        "link inside": soul / "link",
    }[spelling]
    (outside / "link").symlink_to(inside)
    (outside / "folder").symlink_to(soul / "notes")
    keys.generate(outside / "key", "c")
    (soul / "link").symlink_to(outside / "key")
    refused = refusal(spelled, soul)
    assert (refused.kind, refused.rule, refused.exit_code) == ("rule", "AUTH-2", 3)


def test_a_soul_reached_through_a_link_hides_no_key(tmp_path: Path, soul: Path) -> None:
    """AUTH-2."""
    keys.generate(soul / "key", "c")
    (tmp_path / "alias").symlink_to(soul)
    assert refusal(soul / "key", tmp_path / "alias").kind == "rule"
    assert refusal(tmp_path / "alias" / "key", soul).kind == "rule"


def test_a_key_beside_a_soul_of_a_like_name_is_fine(tmp_path: Path, soul: Path) -> None:
    beside = tmp_path / "souls" / "kaoru.soul.keys" / "key"
    keys.generate(beside, "c")
    keys.load(beside, soul)
    keys.load(beside, tmp_path / "no soul yet")


def test_other_configuration_inside_the_soul_is_refused_by_its_own_rule(soul: Path) -> None:
    """CONTENT-2."""
    with pytest.raises(Refused) as caught:
        keys.refuse_inside(soul / "kaoru.yaml", soul, "CONTENT-2")
    assert caught.value.rule == "CONTENT-2"


def test_what_is_no_ed25519_key_without_passphrase_is_refused(path: Path, soul: Path) -> None:
    """AUTH-2."""
    locked = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, BestAvailableEncryption(b"secret")
    )
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )  # fmt: skip
    path.parent.mkdir(parents=True)
    for content, words in ((locked, "passphrase"), (other, "ed25519"), (b"", "OpenSSH"), (b"x" * 99, "OpenSSH")):
        path.write_bytes(content)
        path.chmod(0o600)
        refused = refusal(path, soul)
        assert (refused.kind, refused.rule) == ("auth", "AUTH-2")
        assert words in refused.message
    path.write_bytes(b"x" * (keys.LARGEST + 1))
    assert "not a key file" in refusal(path, soul).message


def test_a_pipe_or_a_folder_is_refused_and_not_waited_for(path: Path, soul: Path) -> None:
    """AUTH-2."""
    path.mkdir(parents=True)
    assert refusal(path, soul).kind == "auth"
    path.rmdir()
    os.mkfifo(path, 0o600)
    assert refusal(path, soul).kind == "auth"


def test_the_public_line_is_shown_without_the_private_key_and_a_wrong_one_is_refused(path: Path) -> None:
    """AUTH-3."""
    made = keys.generate(path, "kaoru")
    path.unlink()
    assert keys.public(path) == made
    for words in ("", "ssh-rsa AAAA x", "ssh-ed25519 not-base64!", "ssh-ed25519"):
        path.with_name(path.name + ".pub").write_text(words)
        with pytest.raises(Refused):
            keys.public(path)


def test_a_public_line_of_another_key_does_not_deceive(path: Path, soul: Path) -> None:
    made = keys.generate(path, "kaoru")
    other = keys.generate(path.with_name("other"), "other")
    path.with_name(path.name + ".pub").write_text(other.line)
    loaded = keys.load(path, soul)
    assert loaded.public.blob == made.blob
    assert loaded.line.endswith(path.name)


def test_a_key_does_not_show_its_secret(path: Path, soul: Path) -> None:
    """CONTENT-2: nothing that is logged or printed holds the private half."""
    keys.generate(path, "c")
    loaded = keys.load(path, soul)
    assert loaded.private.decode() not in repr(loaded)
    assert "PRIVATE" not in repr(loaded)
    assert base64.b64decode(loaded.public.blob)


def test_a_disk_that_is_full_leaves_nothing_in_the_way_of_the_next_try(tmp_path: Path) -> None:
    """AUTH-2: half a key is no key, and would have to be removed by hand."""
    path = tmp_path / "keys" / "kaoru.laptop"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(Transient):
            keys.generate(path, "kaoru")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(path.parent.iterdir()) == []
    public = path.with_name("kaoru.laptop.pub")
    public.mkdir()
    with pytest.raises(Transient):
        keys.generate(path, "kaoru")
    assert list(path.parent.iterdir()) == [public]
    public.rmdir()
    assert keys.generate(path, "kaoru").line
