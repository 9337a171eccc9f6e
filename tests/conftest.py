"""What holds for every test: random examples replay, a slow machine is no failure, and `--torture` makes more of it."""

import pytest
from hypothesis import settings

# derandomize: a run that was green stays green until the code or the test changes; the simulation does the exploring.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=100, print_blob=True)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option of our own."""
    words = "so many times as many kills and random stories, and every effect of a pass instead of a sample"
    parser.addoption("--torture", type=int, default=1, metavar="N", help=words)


@pytest.fixture(scope="session")
def torture(request: pytest.FixtureRequest) -> int:
    """How many times as much as usual; 1 is what `make test` does."""
    return int(request.config.getoption("--torture"))
