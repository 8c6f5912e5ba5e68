"""The training log: what became of each token, when and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold.errors import ArtifactError

Kind = Literal["merged", "marked", "reinstated"]
KINDS = ("merged", "marked", "reinstated")
Row = tuple[Kind, str, int, tuple[str, ...], int]  # an Event but for its merge


class Event(NamedTuple):
    """One thing that happened to a token in training.

    Args:
        kind: "merged": a pair became the token. "marked": the token became a scaffold, as it was rarer than
            the head of the queue. "reinstated": the scaffold token became a normal token again, as it was the
            head itself; or, where text spells an affix, as another pair became the token.
        token: The token.
        frequency: Its occurrences then; of "merged" those right after the merge.
        head: The head of the queue that decided it: the two tokens of a pair, or one scaffold token.
        head_frequency: Its occurrences.
        merge: The pair merged last at that time: for "merged" the token's own, for "marked" the one that
            took its occurrences. None before the first merge.
    """

    kind: Kind
    token: str
    frequency: int
    head: tuple[str, ...]
    head_frequency: int
    merge: tuple[str, ...] | None


@dataclass(frozen=True, repr=False)
class TrainingLog:
    """All events of a training run in the order in which they happened, and what was left at the end.

    Args:
        events: The events.
        frequencies: How often each token, scaffold tokens included, occurs in the corpus once all merges are
            done, before scaffold tokens are demolished.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"Arizona": 50, "zone": 3, "banana": 20})
        >>> log = hs.train(counts, vocab_size=260, log=True).log
        >>> log
        TrainingLog(10 merges, 7 tokens marked, 1 reinstated)
        >>> log.of("zo")[-1][:5]
        ('reinstated', 'zo', 3, ('zo',), 3)
        >>> log.frequencies["zo"]
        3
    """

    events: tuple[Event, ...]
    frequencies: dict[str, int]

    def of(self, token: str) -> list[Event]:
        """The events of one token, by its string in the vocabulary."""
        return [event for event in self.events if event.token == token]

    def __repr__(self) -> str:
        merged, marked, reinstated = (sum(event.kind == kind for event in self.events) for kind in KINDS)
        return f"TrainingLog({merged} merges, {marked} tokens marked, {reinstated} reinstated)"

    # ---- file

    def to_jsonl(self) -> str:
        """One JSON object a line: the events in order, then `{"frequencies": {token: occurrences}}`.

        An event's `merge` is left out: it is the head of the last line before, or the same, that is "merged".
        """
        rows = [
            {
                "event": event.kind,
                "token": event.token,
                "frequency": event.frequency,
                "head": event.head,
                "head_frequency": event.head_frequency,
            }
            for event in self.events
        ]
        lines = [json.dumps(row, ensure_ascii=False) for row in [*rows, {"frequencies": self.frequencies}]]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_jsonl(cls, text: str, source: str = "training log") -> TrainingLog:
        """What `to_jsonl` wrote.

        Raises:
            ArtifactError: it is truncated or something else; names source and line.
        """
        *lines, last = text.removesuffix("\n").split("\n")
        rows: list[Row] = []
        for number, line in enumerate(lines, start=1):
            try:
                rows.append(_parse_event(line))
            except ValueError as error:
                raise ArtifactError(f"{source}, line {number}: {line[:100]!r} is no event: {error}") from None
        try:
            frequencies = parse(last)["frequencies"]
            are_counts = all(type(n) is int and n >= 0 for n in frequencies.values())
        except (ValueError, TypeError, KeyError, AttributeError):
            are_counts = False
        if not are_counts:
            raise ArtifactError(f"{source}: truncated: the last line must hold the frequencies")
        return cls(tuple(with_merges(rows)), frequencies)


def _parse_event(line: str) -> Row:
    row = parse(line)
    if not isinstance(row, dict):
        raise ValueError(f"it is a {type(row).__name__}")
    if row.get("event") not in KINDS:
        raise ValueError(f"the event is {shown(row.get('event'))}, not one of {', '.join(KINDS)}")
    token, head = row.get("token"), row.get("head")
    frequency, head_frequency = row.get("frequency"), row.get("head_frequency")
    if not isinstance(token, str):
        raise ValueError("its token is no string")
    if not isinstance(head, list) or len(head) not in (1, 2) or not all(isinstance(t, str) for t in head):
        raise ValueError("its head is not one token or two")
    if type(frequency) is not int or type(head_frequency) is not int:
        raise ValueError("its frequencies are no whole numbers")
    return row["event"], token, frequency, tuple(head), head_frequency


def with_merges(rows: Iterable[Row]) -> Iterator[Event]:
    """Events in order, each with the pair merged last."""
    merge: tuple[str, ...] | None = None
    for kind, token, frequency, head, head_frequency in rows:
        if kind == "merged":
            merge = head
        yield Event(kind, token, frequency, head, head_frequency, merge)


# ---- in words


def life_of(
    token: str,
    log: TrainingLog,
    ranks: Mapping[Any, int],
    demolished: tuple[str, ...] | None,
) -> str:
    """One token's life, a line for each event and one for the end.

    Args:
        token: A token that is not special.
        log: The run's log.
        ranks: Pair to merge rank.
        demolished: The normal tokens that stand for it if it is a scaffold, else None.
    """
    events = log.of(token)
    lines = [_sentence(event, ranks) for event in events] or [f"{token} is a symbol of the alphabet."]
    left = f"{_times(log.frequencies[token])} in the training text"
    if demolished is None:
        lines.append(f"At the end: a normal token, {left}.")
    else:
        lines.append(f"At the end: a scaffold token, {left}; demolished to {' '.join(demolished)}.")
    return "\n".join(lines)


def _sentence(event: Event, ranks: Mapping[Any, int]) -> str:
    head = " ".join(event.head)
    if event.kind == "merged":
        return f"Merge {ranks[event.head]:,}: {head}, {_times(event.head_frequency)}, became {event.token}."
    when = "" if event.merge is None else f"After merge {ranks[event.merge]:,} ({' '.join(event.merge)}): "
    if event.kind == "marked":
        return (
            f"{when}marked as a scaffold: {_times(event.frequency)} left, "
            f"while {head} had {event.head_frequency:,}."
        )
    if len(event.head) == 1:
        return f"{when}reinstated: nothing else was as frequent as its {_times(event.frequency)}."
    return f"{when}reinstated: {head}, {_times(event.head_frequency)}, is to become {event.token}, too."


def _times(n: int) -> str:
    return "1 occurrence" if n == 1 else f"{n:,} occurrences"
