"""The small state of one shard: what Spark keeps of it besides the chunks, as the header of one frame."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from muntin.core.operator_state import OperatorMeta
from muntin.model import MuntinError
from muntin.model.records import from_json, to_json
from muntin.spark.checkpoint import STATE_FORMAT
from muntin.spark.exchange import FrameKind, decode, encode


@dataclass(frozen=True)
class ShardMeta:
    """The content of the frame; each write has a nonce of its own."""

    format: int
    nonce: str
    epoch: int
    operator: OperatorMeta | None
    """Of the join that the shard is of; None where that is no more."""
    above: dict[str, OperatorMeta]
    """Of the joins above it that read it, by their numbers."""

    @classmethod
    def of(cls, home: int, joins: Mapping[int, OperatorMeta], epoch: int) -> ShardMeta:
        """That of the joins that live in a shard of the join `home`, from now on."""
        above = {str(index): meta for index, meta in joins.items() if index != home}
        return cls(STATE_FORMAT, secrets.token_hex(16), epoch, joins.get(home), above)

    @classmethod
    def read(cls, frame: bytes, where: str) -> ShardMeta:
        """What was written; `where` names the state."""
        header = decode(frame, "the meta state").header
        if (found := header.get("format")) != STATE_FORMAT:
            raise MuntinError(f"{where} has format {found}, this Muntin reads format {STATE_FORMAT}")
        return from_json(cls, header)

    @property
    def frame(self) -> bytes:
        return encode(FrameKind.META, to_json(self))

    def joins(self, home: int) -> dict[int, OperatorMeta]:
        """The joins that live in a shard of the join `home`, by their numbers."""
        above = {int(index): meta for index, meta in self.above.items()}
        return above if self.operator is None else {home: self.operator, **above}
