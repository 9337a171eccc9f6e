# ruff: noqa: F401, F811 - fixtures that are imported
"""What the program says to type leads out of where a person is, and not in a circle."""

from __future__ import annotations

import shutil

from tests.app.test_doctor import rows, type_in
from tests.real.pair import fleet, host, laptop, server, template
from tests.real.quick import Body


def test_a_checkout_that_is_gone_under_a_daemon_comes_back_by_the_remedy(laptop: Body) -> None:
    """GUARD-2: the daemon goes on being asked until it is stopped, and every place says that first."""
    laptop.sync()
    laptop.start()
    try:
        shutil.rmtree(laptop.soul)
        for words in (("sync",), ("init", laptop.agent)):
            done = laptop.run(*words)
            assert done.code == 1 and "systemctl --user stop" in done.err, done
        told = laptop.json("status")
        assert isinstance(told, dict) and "systemctl --user stop" in told["problem"]["advice"]
        type_in(laptop, rows(laptop)["checkout"]["remedy"])
    finally:
        laptop.stop()
    assert laptop.read("notes/tea/sencha.md") is not None
    assert laptop.run("sync").code == 0


def test_without_a_daemon_the_remedy_is_the_same_init(laptop: Body) -> None:
    """GUARD-2."""
    shutil.rmtree(laptop.soul)
    done = laptop.run("sync")
    assert f"`soul-bridge init {laptop.agent}`" in done.err, done
    assert rows(laptop)["checkout"]["remedy"] == f"soul-bridge init {laptop.agent}"
