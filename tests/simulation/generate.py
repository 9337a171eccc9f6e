"""Scripts from seeds: what may happen, and how often."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.script import Script, Step
from tests.simulation.world import NAMES

MEMORIES = ("memories/MEMORY.md", "memories/USER.md", "memories/more.md")
SHARED = ("notes/shared-a.md", "notes/shared-b.md", "notes/deep/shared-c.md", "SOUL.md", "extra.txt")
CLASHING = ("notes/clash", "notes/clash/in.md", "notes/clash/deep/in.md", "notes/clash.md", "extra", "extra/x")
IGNORES = ("*.tmp\n", "extra.txt\n", "shared-b.md\n", "shared-?.md\n", "")
HOW = ("write", "rename", "append")
# Where a crash, or somebody who comes in between, hurts most.
SORE = (
    "repo.flush after", "repo.move before", "repo.move after", "repo.tip after", "repo.state after",
    "seen.remember before", "seen.remember after", "seen.transaction inside", "seen.transaction after",
    "tree.look after", "tree.read after", "tree.leftovers after", "tree.keep before", "tree.drop before",
    "tree replace.note", "tree replace.exchange", "tree replace.sync", "tree.replace after",
    "tree create.parents", "tree create.rename", "tree create.sync", "tree.create after",
    "tree remove.rename", "tree remove.prune", "tree.remove after",
    "remote.fetch before", "remote.fetch after", "remote.push before", "remote.push after",
)  # fmt: skip


class Maker:
    """Draws steps for a number of bodies; texts never repeat."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bodies = self.random.choice((2, 2, 2, 3, 3, 4, 5, 8) if self.random.random() < 0.99 else (16, 64))
        self.texts = 0
        # Some worlds are calm in some respect, so that a rule is also seen by itself.
        self.memories = self.random.sample(MEMORIES, self.random.choice((1, 1, 2, 3)))
        self.shared = self.random.sample(SHARED, self.random.choice((1, 1, 2, 4)))
        self.faults = self.random.random() < 0.7
        self.people = self.random.random() < 0.25
        self.accidents = self.random.random() < 0.3
        self.backups = self.random.random() < 0.1
        self.odd = self.random.random() < 0.4
        self.scanner = self.random.random() < 0.15
        self.stale = self.random.random() < 0.3
        self.crashes = self.random.choice((0.0, 0.1, 0.3, 0.5))
        self.others = self.random.random() < 0.15
        self.leases = self.random.random() < 0.2
        self.meanwhile = self.random.choice((0.0, 0.3, 0.6))

    def script(self, seed: int) -> Script:
        """Everything that happens."""
        length = self.random.choice((10, 20, 40, 80, 140))
        drift = [1.0 + self.random.choice((0, 0, 1e-3, -1e-3)) for _ in range(self.bodies)]
        steps: list[Step] = []
        if self.random.random() < 0.15:
            steps.append(["alone", self.number()])
        if self.scanner:
            steps.append(["scan", 0, True, self.random.random() < 0.5])
        if self.random.random() < 0.7:
            for number in range(self.bodies):
                steps += [["pass", number, {}], ["advance", 3.0], ["pass", number, {}]]
        while len(steps) < length:
            if self.random.random() < 0.12:
                steps += self.a_bad_moment()
            else:
                steps.append(self.step())
        hinted, tick = self.random.random() < 0.5, self.random.choice((0, 0, 10_000_000, 1_000_000_000))
        return Script(self.bodies, steps, seed, hinted, drift, tick)

    def step(self, depth: int = 0) -> Step:
        """One step."""
        draw = self.random.random()
        if draw < 0.35:
            return self.a_pass(depth)
        if draw < 0.5:
            return ["advance", self.random.choice((0.1, 0.3, 0.6, 1.0, 2.5, 5.0, 30.0, 70.0, 400.0))]
        if draw < 0.85 or not (self.faults or self.people or self.accidents or self.odd or self.leases or self.others):
            return self.a_write()
        kinds: list[Callable[[], Step]] = []
        kinds += [self.a_fault] * (3 * self.faults) + [self.a_person] * (2 * self.people)
        kinds += [self.another] * (4 * self.others)
        kinds += [self.a_lease] * (4 * self.leases)
        kinds += [self.an_accident] * (2 * self.accidents) + [self.an_oddity] * (2 * self.odd)
        return self.random.choice(kinds)()

    def a_bad_moment(self) -> list[Step]:
        """Somebody writes; a pass is cut short, or run into, where it hurts; then the same place is written again."""
        number, how, path = self.number(), self.random.choice(HOW), self.random.choice(self.memories)
        author = self.random.choice((number, self.number()))
        words: dict[str, object] = {"look": self.random.choice(("full", "hints"))}
        disturbance = self.a_person() if self.people else self.a_write()
        if self.crashes and self.random.random() < 0.7:
            words["crash"] = self.point()
        else:
            words["between"] = [[self.point(), [disturbance]]]
        first: Step = ["add", author, path, self.text(), how]
        second: Step = ["drop", number, path, -1, how]
        if self.random.random() < 0.3:
            name = NAMES[number]
            author, path = number, f"notes/own-{name}-0.md"
            first, second = ["write", author, path, self.text(), how], ["delete", number, path]
        published: list[Step] = [["advance", 1.0], ["pass", author, {}]] if author != number else [["advance", 1.0]]
        return [first, *published, ["pass", number, words], second, ["advance", 1.0], ["pass", number, {}]]

    def number(self) -> int:
        """A body."""
        return self.random.randrange(self.bodies)

    def a_pass(self, depth: int = 0) -> Step:
        """A pass, perhaps with something going on meanwhile, perhaps cut short."""
        words: dict[str, object] = {"look": self.random.choice(("full", "hints", "hints"))}
        if self.random.random() < 0.1:
            words["waive"] = True
        if self.random.random() < 0.05:
            words["now"] = True
        if self.random.random() < 0.05:
            words["remote"] = False
        if self.random.random() < self.crashes:
            words["crash"] = self.point()
        if depth < 2 and self.random.random() < self.meanwhile:
            words["between"] = [
                [self.point(), [self.step(depth + 1) for _ in range(self.random.randint(1, 3))]]
                for _ in range(self.random.randint(1, 3))
            ]
        return ["pass", self.number(), words]

    def point(self) -> int | list[object]:
        """Where in a pass: often where it hurts, else the beginning is as likely as the end."""
        if self.random.random() < 0.6:
            return [self.random.choice(SORE), self.random.choice((1, 1, 1, 2, 2, 3, 4, 6))]
        return int(2 ** self.random.uniform(0, 7.2))

    def text(self) -> str:
        """Words that nobody wrote before."""
        self.texts += 1
        secret = self.scanner and self.random.random() < 0.15
        return f"t{self.texts} SECRET" if secret else f"t{self.texts}"

    def a_write(self) -> Step:
        """Something an agent does to its files."""
        number, how = self.number(), self.random.choice(HOW)
        if self.stale and self.random.random() < 0.4:
            memory = self.random.choice(self.memories)
            if self.random.random() < 0.5:
                return ["remember", number, memory]
            return ["stale", number, memory, self.text(), how]
        name, memory = NAMES[number], self.random.choice(self.memories)
        own = f"notes/own-{name}-{self.random.randrange(2)}.md"
        shared = self.random.choice(self.shared)
        path = self.random.choice((memory, memory, shared, own))
        journal = f"journal/{name}/2027-01-{self.random.randint(1, 2):02}.md"
        return self.random.choice(
            (
                ["add", number, memory, self.text(), how],
                ["add", number, memory, self.text(), how],
                ["add", number, memory, self.text(), how],
                ["drop", number, memory, self.random.randrange(9), how],
                ["drop", number, memory, -1, how],
                ["edit", number, memory, self.random.randrange(9), self.text(), how],
                ["write", number, shared, self.text(), how],
                ["write", number, shared, self.text(), how],
                ["append", number, shared, self.text()],
                ["write", number, own, self.text(), how],
                ["append", number, journal, f"## 10:00 {self.text()}\n"],
                ["delete", number, self.random.choice((shared, own, "memories/more.md", "notes/shared-a.md"))],
                ["move", number, own, f"notes/own-{name}-{self.random.randrange(3)}.md"],
                ["move", number, shared, f"notes/shared-{self.random.choice('abd')}.md"],
                ["open_file", number, path],
                ["scribble", number, path, self.text()],
                ["scribble", number, path, self.text()],
                ["close_file", number, path],
                ["grip", number, path],
                ["late", number, path, self.text()],
                ["late", number, path, self.text()],
                ["chmod", number, shared, self.random.random() < 0.5],
            )
        )

    def a_fault(self) -> Step:
        """Something that goes wrong with a network, a disk, a clock, a process."""
        number = self.number()
        if self.backups and self.random.random() < 0.1:
            return ["roll_back", 0, self.random.randint(1, 3)]
        if self.scanner and self.random.random() < 0.3:
            return ["scan", 0, self.random.random() < 0.7, self.random.random() < 0.5]
        return self.random.choice(
            (
                ["offline", number],
                ["online", number],
                ["online", number],
                ["revoke", number],
                ["read_only", number],
                ["drop_answers", number, 1],
                ["swallow", number, 1],
                ["full", number, True],
                ["full", number, False],
                ["full", number, False],
                ["step_clock", number, self.random.choice((-4000.0, -200.0, -1.0, 1.0, 200.0, 4000.0))],
                ["restart", number],
                ["forget", number, self.random.random() < 0.6],
                ["hide", number, self.random.choice(("notes", "memories", "journal"))],
                ["show", number, self.random.choice(("notes", "memories", "journal"))],
            )
        )

    def a_person(self) -> Step:
        """Somebody uses git in the checkout."""
        number = self.number()
        return self.random.choice(
            (
                ["reset", number, self.random.randint(1, 3), self.random.random() < 0.5],
                ["commit", number],
                ["commit", number],
                ["rebase", number, True],
                ["rebase", number, False],
                ["detach", number, True],
                ["detach", number, False],
            )
        )

    def in_a_blink(self, number: int) -> Step:
        """What may happen while everything is gone: less than any guard goes by."""
        words: dict[str, object] = {"look": self.random.choice(("full", "hints"))}
        if self.random.random() < self.crashes:
            words["crash"] = self.point()
        other: Step = ["pass", self.number(), {"look": "hints"}]
        return self.random.choice(([*["pass", number], words], [*["pass", number], words], ["advance", 3.0], other))

    def an_accident(self) -> Step:
        """Files go without anybody wanting it, or an agent empties much."""
        number = self.number()
        return self.random.choice(
            (
                ["vanish", number, self.random.choice((*self.memories, *self.shared))],
                ["wipe", number],
                ["blink", number, [self.in_a_blink(number) for _ in range(self.random.randint(1, 6))]],
                ["blink", number, [self.in_a_blink(number) for _ in range(self.random.randint(1, 6))]],
                ["come_back", number],
                ["come_back", number],
                ["drop_all", number, self.random.choice(self.memories), self.random.choice(HOW)],
                ["delete", number, self.random.choice(self.memories)],
            )
        )

    def another(self) -> Step:
        """What a body does that runs another implementation."""
        number, memory = self.random.randrange(2), self.random.choice(self.memories)
        return self.random.choice(
            (
                ["other", number, "sync"],
                ["other", number, "sync"],
                ["other", number, "sync"],
                ["other", number, "add", memory, self.text()],
                ["other", number, "add", memory, self.text()],
                ["other", number, "drop", memory],
                ["other", number, "note", self.random.choice(self.shared), self.text()],
                ["other", number, "fixed", self.text()],
            )
        )

    def a_lease(self) -> Step:
        """Somebody takes the lease, or rewrites memories under it."""
        words: dict[str, object] = {}
        if self.random.random() < self.crashes:
            words["crash"] = self.point()
        elif self.random.random() < 0.2:
            words["dead"] = True
        if self.random.random() < self.meanwhile:
            words["between"] = [[self.point(), [self.a_pass(2)]]]
        what = self.random.choice(
            ("acquire", "acquire", "renew", "release", "begin", "begin", "begin", "end", "end", "end")
        )
        number = self.number()
        return ["die", number] if self.random.random() < 0.1 else ["lease", number, what, words]

    def an_oddity(self) -> Step:
        """Something that agents do rarely, or should not do at all."""
        number, other, how = self.number(), self.number(), self.random.choice(HOW)
        clash = self.random.choice(CLASHING)
        return self.random.choice(
            (
                ["foreign", number, other, self.text()],
                ["lock", number, self.text()],
                ["field", number, self.random.choice(("displayName", "pronouns", "id", "mood")), self.text()],
                ["break_identity", number],
                ["link", number, self.random.choice((*self.shared, *CLASHING))],
                ["alone", number],
                ["copy_of", number, other],
                ["write", number, clash, self.text(), how],
                ["write", number, clash, self.text(), how],
                ["write", number, clash, self.text(), how],
                ["delete", number, clash],
                ["move", number, clash, self.random.choice(CLASHING)],
                ["write", number, self.random.choice(self.shared), f"{self.text()}\r\nmore\r\n", how],
                ["write", number, ".gitignore", self.random.choice(IGNORES), how],
            )
        )


def generate(seed: int) -> Script:
    """The script of a seed, always the same."""
    return Maker(seed).script(seed)
