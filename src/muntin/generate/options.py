"""What every workload can be told."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import UsageError


@dataclass(frozen=True)
class Options:
    """Rows per second, the event time that the streams cover, and the files that each is cut into."""

    rate: float = 100.0
    duration_s: float = 600.0
    files: int = 10
    seed: int = 1

    def __post_init__(self) -> None:
        self.check_positive("rate", "duration_s", "files")
        self.check_not_negative("seed")

    def check_positive(self, *names: str) -> None:
        """Refuse options that are zero or less; those that are not given are fine."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name} must be greater than zero, not {value}")

    def check_not_negative(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, not {getattr(self, name)}")

    @property
    def duration_us(self) -> int:
        return round(self.duration_s * 1_000_000)


@dataclass(frozen=True)
class DisorderedOptions(Options):
    """The same where rows arrive up to `disorder_s` late."""

    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_not_negative("disorder_s")

    @property
    def disorder_us(self) -> int:
        return round(self.disorder_s * 1_000_000)
