"""What holds for every test: random examples replay, and a slow machine is no failure."""

from hypothesis import settings

# derandomize: a run that was green stays green until the code or the test changes; the simulation does the exploring.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=100, print_blob=True)
settings.load_profile("house")
