"""Base of the sources that read a Kafka topic: its connection, and how far each run reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, optional, positive, text
from airflow_lake_provider.contracts.as_of import as_of
from airflow_lake_provider.contracts.author.sources import OnSourceChange, Source
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError

EARLIEST = "earliest"


class OnGap(str, Enum):
    """Action to take when the broker has removed records that no run has applied: refuse the run, or go on behind."""

    FAIL = "fail"
    SKIP = "skip"


def _starting(value: object, name: str) -> str:
    if value == EARLIEST:
        return EARLIEST
    moment = as_of(value, name)
    if "T" not in moment or "+" not in moment:
        raise InvalidSpecError(
            f"{name} must be 'earliest' or a time with a zone, such as 2026-11-27T06:00:00+00:00, got {value!r}. "
            "'latest' would be another place for each try of a run"
        )
    return moment


@dataclass(frozen=True)
class Topic(Source):
    """Base of what reads a topic; arguments as of :class:`.KafkaTopic`."""

    kind: ClassVar[str] = ""
    end: ClassVar[str] = "airflow_lake_provider.hooks.topic_end:end_of_topic"
    connection: str = field(metadata=reads(text, "kafka"))
    topic: str = field(metadata=reads(text, "topic"))
    registry: str | None = field(default=None, kw_only=True, metadata=reads(optional(text)))
    starting: str = field(default=EARLIEST, kw_only=True, metadata=reads(_starting))
    on_gap: OnGap | str = field(default=OnGap.FAIL, kw_only=True, metadata=reads(choice_of(OnGap)))
    max_records: int | None = field(default=None, kw_only=True, metadata=reads(optional(positive)))
    catch_up: bool = field(default=False, kw_only=True, metadata=reads(flag))

    def complete(self) -> None:
        """Refuse to go on without a bound after which it does."""
        if self.catch_up and self.max_records is None:
            raise InvalidSpecError(f"{type(self).__name__}.catch_up goes on after each max_records; give that, too")

    @property
    def connections(self) -> Mapping[str, str]:
        """The cluster, and the registry."""
        registry = {self.registry: "registry"} if self.registry is not None else {}
        return {self.connection: "kafka", **registry}

    def address(self, access: Mapping[str, Any]) -> str | None:
        """Return the topic."""
        return str(access[self.connection].address_of(self.topic))

    def refuse_reading(self, spec: Any) -> None:
        """Refuse what would lose records, or add them twice."""
        what = f"{spec.table}: topic {self.topic} of connection {self.connection!r}"
        if getattr(spec, "is_complete", False):
            raise InvalidSpecError(f"{what} has changes of rows, and complete=True takes a source that has all of them")
        if not getattr(spec, "keeps_position", True):
            raise InvalidSpecError(
                f"{what} forgets records, and an overwrite of partitions reads all of a source each time. Append the "
                "topic to a table of its own, and overwrite from that one"
            )
        if getattr(spec, "branch", None) is not None:
            raise InvalidSpecError(
                f"{what} does not go with branch: how far it was read is kept for main, so each run would read all of "
                "it. Leave branch out; audits keep a batch on a branch until they find nothing"
            )
        on_repeat = getattr(spec, "on_repeat", None)
        if self.max_records is not None and on_repeat == "apply":
            raise InvalidSpecError(f"{what}: on_repeat='apply' applies all records at once; leave max_records out")
        if self.catch_up and on_repeat == "fail":
            raise InvalidSpecError(f"{what}: catch_up goes on where a try has ended, which on_repeat='fail' refuses")
        if self.catch_up and len(spec.source.inputs) > 1:
            raise InvalidSpecError(f"{what}: catch_up goes with one input, and the others would be read once a commit")

    def refuse_spark(self, version: str) -> None:
        """Refuse Spark 3.5, on which nobody has run it."""
        if version.startswith("3."):
            raise UnsupportedError(f"topic {self.topic}: Kafka is read by Spark 4.1, and not by Spark {version} yet")

    def without_policy(self) -> Self:
        """Return what is read, without how much at a time, and what is done about gaps."""
        return replace(
            self,
            on_source_change=OnSourceChange.CONTINUE,
            on_gap=OnGap.FAIL,
            max_records=None,
            catch_up=False,
            starting=EARLIEST,
        )
