"""What holds for every test: random examples replay, a slow machine is no failure, and `--torture` makes more of it."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

# derandomize: a run that was green stays green until the code or the test changes; the simulation does the exploring.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=100, print_blob=True)
settings.load_profile("house")


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # In the background of a script this signal is ignored from birth, also by every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What waits longest for clocks and machines comes first, so that where several run at once nobody waits for it alone
# in the end; the quick ones fill the gaps.
FIRST = (
    "service/test_year",
    "service/test_user_unit",
    "soak",
    "service",
    "real",
    "traps",
    "contract",
    "hostile",
    "app",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order what was collected, file by file, by how long it waits."""
    tests = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        name = item.path.relative_to(tests).as_posix() if item.path.is_relative_to(tests) else ""
        return next((at for at, start in enumerate(FIRST) if name.startswith(start)), len(FIRST))

    items.sort(key=place)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option of our own."""
    words = "so many times as many kills and random stories, and every effect of a pass instead of a sample"
    parser.addoption("--torture", type=int, default=1, metavar="N", help=words)


@pytest.fixture(scope="session")
def torture(request: pytest.FixtureRequest) -> int:
    """How many times as much as usual; 1 is what `make test` does."""
    return int(request.config.getoption("--torture"))
