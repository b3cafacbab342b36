"""The settings of a job, `SET name = value`: one list that SQL, hints, the command line's help and the docs read.

A setting knows its field in the model, how its value is checked, and what it does. What holds between settings is in
`conflicts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from sqlglot import exp

from muntin.model import AUTO, DEFAULT_SETTINGS, Settings, UsageError
from muntin.plan.chains import CHAINS
from muntin.plan.invalidations import INVALIDATIONS
from muntin.plan.orderings import ORDERINGS
from muntin.plan.punctuation_modes import PUNCTUATION_MODES
from muntin.plan.registry import Registry
from muntin.plan.schedulers import SCHEDULERS
from muntin.plan.strategies import STRATEGIES
from muntin.sql.amounts import BYTES_HINT, parse_bytes
from muntin.sql.duration import parse_duration_us
from muntin.sql.places import SqlText, did_you_mean, listing

Value = str | int | float | bool


class Kind(Protocol):
    """How the text of a value is checked; a fault is a UsageError with a hint."""

    @property
    def form(self) -> str:
        """What may be written, for help."""

    def parse(self, name: str, text: str) -> Value: ...


@dataclass(frozen=True)
class OneOf:
    """One of some names; they are looked up when they are needed, so that a new policy is found."""

    names: Callable[[], tuple[str, ...]]

    @property
    def form(self) -> str:
        return " | ".join(f"'{name}'" for name in self.names())

    def parse(self, name: str, text: str) -> Value:
        values, chosen = self.names(), text.lower()
        if chosen not in values:
            hint = did_you_mean(chosen, values, "values are " + listing(f"'{v}'" for v in values))
            raise UsageError(f"{name} cannot be '{text}'", hint=hint)
        return chosen


@dataclass(frozen=True)
class Switch(OneOf):
    """On or off."""

    names: Callable[[], tuple[str, ...]] = lambda: ("on", "off")

    def parse(self, name: str, text: str) -> Value:
        return super().parse(name, text) == "on"


@dataclass(frozen=True)
class WholeNumber:
    most: int

    @property
    def form(self) -> str:
        return f"1 to {self.most}"

    def parse(self, name: str, text: str) -> Value:
        digits = text.isascii() and text.isdigit() and len(text) <= len(str(self.most))
        if not (digits and 1 <= int(text) <= self.most):
            raise UsageError(f"{name} cannot be {text}", hint=f"write a whole number from 1 to {self.most}")
        return int(text)


@dataclass(frozen=True)
class WholeNumberOrAuto(WholeNumber):
    @property
    def form(self) -> str:
        return f"'{AUTO}' | {super().form}"

    def parse(self, name: str, text: str) -> Value:
        return AUTO if text.lower() == AUTO else super().parse(name, text)


@dataclass(frozen=True)
class Size:
    form: str = "'8 GB', '512 MiB', ..."

    def parse(self, name: str, text: str) -> Value:
        try:
            return parse_bytes(text)
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=error.hint or BYTES_HINT) from error


@dataclass(frozen=True)
class Fraction:
    form: str = "0 to below 1"

    def parse(self, name: str, text: str) -> Value:
        if re.fullmatch(r"\d*\.?\d+", text) is None or not 0 <= float(text) < 1:
            raise UsageError(f"{name} cannot be {text}", hint="write a number from 0 to below 1, such as 0.3")
        return float(text)


@dataclass(frozen=True)
class TimeSpan:
    form: str = "'1 hour', '30 s', ..."

    def parse(self, name: str, text: str) -> Value:
        hint = f"write SET {name} = '1 hour'"
        try:
            span_us = parse_duration_us(text)
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=hint) from error
        if span_us <= 0:
            raise UsageError(f"{name} must be more than zero", hint=hint)
        return span_us


@dataclass(frozen=True)
class Setting:
    name: str
    group: Literal["everyday", "research"]
    kind: Kind
    description: str
    field: str = ""
    """Its field in `Settings`; the name itself where none is given."""
    former: tuple[str, ...] = ()
    """Names that it had; they are understood still, with a note."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", self.field or self.name)

    @property
    def default(self) -> object:
        return getattr(DEFAULT_SETTINGS, self.field)


def _names(*names: str) -> OneOf:
    return OneOf(lambda: names)


def _policies(registry: Registry[Any], *others: str) -> OneOf:
    return OneOf(lambda: (*others, *registry.names))


SETTINGS = (
    Setting("output_order", "everyday", _names("key", "global"), "rows in order by key or overall", former=("order",)),
    Setting("delivery", "everyday", _names("batch", "eager"), "rows go out with their micro-batch, or when found"),
    Setting("work_per_batch", "everyday", TimeSpan(), "with eager delivery: then the rest waits", "work_per_batch_us"),
    Setting("longest_wait", "everyday", TimeSpan(), "for which work may be left to later rows", "longest_wait_us"),
    Setting("shards", "everyday", WholeNumberOrAuto(1024), "parts of state and work; by default one for each core"),
    Setting("state_limit", "everyday", Size(), "memory for the state; more stops the job", "state_limit_bytes"),
    Setting("batch_limit", "everyday", Size(), "memory for the rows of one micro-batch", "batch_limit_bytes"),
    Setting("fan_out_limit", "everyday", WholeNumber(10**15), "pairs that one shard may find in one micro-batch"),
    Setting("held_limit", "everyday", Size(), "memory for what waits for a stream that is behind", "held_limit_bytes"),
    Setting("on_held_limit", "everyday", _names("fail", "release"), "then stop the job, or give up the order"),
    Setting("max_ahead", "everyday", TimeSpan(), "a row further ahead of all others is a dead letter", "max_ahead_us"),
    Setting("output_layout", "everyday", _names("queries", "sliced"), "files for each query, or each pair once"),
    Setting("min_file_size", "everyday", Size(), "smaller files are merged when nothing comes", "min_file_size_bytes"),
    Setting("roll_after", "everyday", TimeSpan(), "then they are merged also while rows come", "roll_after_us"),
    Setting("durability", "everyday", _names("process", "power"), "commits survive the process, or power cuts"),
    Setting("hot_keys", "everyday", _names(AUTO, "off"), "rows of a key with very many visit every shard, or never do"),
    Setting("strategy", "research", _policies(STRATEGIES, AUTO), "how queries share joins"),
    Setting("chain", "research", _policies(CHAINS, AUTO), "where the state is cut into slices"),
    Setting("adapt", "research", Switch(), "whether a running job cuts its state elsewhere when that is cheaper"),
    Setting("invalidation", "research", _policies(INVALIDATIONS, AUTO), "which stale rows an arriving row takes out"),
    Setting("scheduler", "research", _policies(SCHEDULERS, AUTO), "what is joined next, where delivery is eager"),
    Setting("ordering", "research", _policies(ORDERINGS), "what waits for a stream that is behind"),
    Setting("alpha", "research", Fraction(), "the load from which on ordering = 'adaptive' joins rows ahead"),
    Setting("punctuations", "research", _policies(PUNCTUATION_MODES), "what the promises of streams are used for"),
)
AHEAD = "what rows ahead of the other stream find may not leave before that has come as far"
"""Why eager delivery does not join rows ahead."""
GROUPS = {"everyday": "settings that jobs need", "research": "settings of research"}
"""What each group is called."""


def setting_named(sql: SqlText, node: exp.Expr) -> Setting:
    """The setting of a SET statement, by its name or one that it had."""
    name = node.name.lower()
    for setting in SETTINGS:
        if name in (setting.name, *setting.former):
            return setting
    names = [setting.name for setting in SETTINGS]
    hint = did_you_mean(name, names, f"settings are {listing(names)}")
    raise sql.error(f"there is no setting {node.name}", node, hint)


def check_value(sql: SqlText, setting: Setting, name: str, node: exp.Expr) -> Value:
    """The value of a SET statement; `name` is what the setting is called there."""
    try:
        return setting.kind.parse(name, node.name)
    except UsageError as error:
        raise sql.error(error.message, node, error.hint or "") from error


class Conflict(NamedTuple):
    """A setting that does not go with the others."""

    setting: str
    message: str
    hint: str


def conflicts(settings: Settings, given: Collection[str]) -> Iterator[Conflict]:
    """Settings that would say nothing beside the others, or contradict them; `given` are the names that were set."""
    strategy, chain, ordering = settings.strategy, settings.chain, ORDERINGS[settings.ordering]
    if chain != AUTO and strategy != AUTO and not STRATEGIES[strategy].has_chains:
        message = f"chain = '{chain}' does not go with strategy = '{strategy}', which has no chain"
        others = _either(s.name for s in STRATEGIES if s.has_chains)
        yield Conflict("chain", message, f"set chain = 'auto', or strategy = {others}")
    if "alpha" in given and not ordering.adapts:
        message = f"alpha does not go with ordering = '{ordering.name}', which never changes"
        yield Conflict("alpha", message, f"set ordering = {_either(o.name for o in ORDERINGS if o.adapts)}")
    if "on_held_limit" in given and settings.held_limit_bytes is None:
        yield Conflict("on_held_limit", "on_held_limit without a limit", "add SET held_limit = '1 GB'")
    if settings.roll_after_us is not None and settings.min_file_size_bytes is None:
        yield Conflict("roll_after", "roll_after without a size of files", "add SET min_file_size = '64 MB'")
    for name in ("work_per_batch", "longest_wait"):
        if name in given and not settings.eager:
            message = f"{name} does not go with delivery = '{settings.delivery}', which does all work at once"
            yield Conflict(name, message, "set delivery = 'eager'")
    if settings.output_layout == "sliced":
        if settings.eager:
            message = "output_layout = 'sliced' does not go with delivery = 'eager', which writes rows as they come"
            yield Conflict("output_layout", message, "set delivery = 'batch', or output_layout = 'queries'")
        if settings.min_file_size_bytes is not None:
            message = "min_file_size does not go with output_layout = 'sliced': files of slices are not merged"
            yield Conflict("min_file_size", message, "take larger micro-batches, or set output_layout = 'queries'")
    if settings.eager:
        for name, clashes in (("ordering", ordering.joins_ahead()), ("on_held_limit", settings.releases_at_held_limit)):
            if clashes:
                value = getattr(settings, name)
                message = f"{name} = '{value}' does not go with delivery = 'eager', which joins rows in order: {AHEAD}"
                yield Conflict(name, message, "set delivery = 'batch'")


def _either(names: Iterator[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def settings_help() -> str:
    """All settings for people, by groups, with their values and defaults."""
    return "\n\n".join("\n".join([f"{title}, SET name = value:", *_help(group)]) for group, title in GROUPS.items())


def _help(group: str) -> Iterator[str]:
    for setting in SETTINGS:
        if setting.group == group:
            default = "" if setting.default is None else f"; default {_shown(setting.default)}"
            yield f"  {setting.name:<14} {setting.description}"
            yield f"  {'':<14} {setting.kind.form}{default}"


def _shown(value: object) -> object:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value
