"""Rows of a function of the author's, made of named inputs or of nothing that is known here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import mapping, optional, text
from airflow_lake_provider.contracts.author.named_inputs import MadeOfInputs, is_named, named_inputs
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, OnSourceChange, Source
from airflow_lake_provider.contracts.author_object import reads, refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def _function(value: object, name: str) -> str:
    function = text(value, name)
    if not _FUNCTION.fullmatch(function):
        raise InvalidSpecError(f"{name} must be 'package.module:function', got {value!r}")
    return function


def _inputs(value: object, name: str) -> dict[str, Source]:
    if not is_named(value):
        raise InvalidSpecError(
            f"{name} must map names to sources, such as {{'orders': Changes('shop.orders')}}, got {value!r}"
        )
    return named_inputs(value, name) if value else {}


def _params(value: object, name: str) -> dict[str, Any]:
    params = mapping(value, name, "a name to a value")
    try:
        json.dumps(params, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidSpecError(f"{name} travel to the driver as JSON, and cannot: {error}") from error
    return params


@dataclass(frozen=True)
class PySparkFunction(MadeOfInputs):
    """The DataFrame that a function of yours returns, in the driver.

    The function is called as ``function(spark, inputs, params)``. It returns a DataFrame that has the same rows each
    time that Spark reads it. A mapping, such as one of a form, cannot name a function.

    :param function: ``package.module:function``. The text of its module is shipped where the worker can import it. What
        the module imports travels by ``py_files`` of the task, or is installed where the driver runs.
    :param over: ``Files``, ``LakeTable``, ``Changes``, ``JdbcTable``, ``KafkaTopic``, or a path, by the name of the
        input. The function gets a DataFrame of each: of files and changes what is new, of a table all rows of one
        snapshot. Everything is applied once. Left out, only ``batch_id`` of the task tells batches apart.
    :param params: values of JSON for the function; no secrets, as Airflow shows them.
    :param function_code: text of the module; the worker sets it.
    """

    kind: ClassVar[str] = "pyspark-function"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.pyspark_function:PySparkFunctionSource"
    runs_code: ClassVar[bool] = True
    function: str = field(metadata=reads(_function, "module:function"))
    over: Mapping[str, Any] = field(default_factory=dict, metadata=reads(_inputs))
    params: Mapping[str, Any] = field(default_factory=dict, metadata=reads(_params))
    function_code: str | None = field(default=None, kw_only=True, metadata=reads(optional(text)))

    def __post_init__(self) -> None:
        """Make sources of the inputs at once, as a query does.

        :raises InvalidSpecError: the function is a template.
        """
        refuse_template(self.function, "PySparkFunction.function")
        if is_named(self.over):
            object.__setattr__(self, "over", _inputs(self.over, "PySparkFunction.over"))
        super().__post_init__()

    @property
    def inputs(self) -> Mapping[str, Source]:
        """The sources that it reads, by name."""
        return self.over

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse a batch that nothing tells from another one."""
        super().refuse_arguments(spec)
        if not self.over and not spec.batch_id and self.is_final("over"):
            raise InvalidSpecError(
                f"{spec.table}: nothing tells the batches of {self.function} apart; declare in over what it reads, or "
                "give the task a batch_id, such as '{{ ds }}'"
            )

    def with_code(self, code_of: Callable[[str], str | None]) -> Self:
        """Return the function with the text of its module, where that is found."""
        return replace(self, function_code=code_of(self.function))

    def without_policy(self) -> Self:
        """Return the function over files that are remembered as by default.

        Its code is left out: a batch stays the same one when a line of the module has changed.
        """
        over = {name: each.without_policy() for name, each in self.over.items()}
        return replace(self, on_source_change=OnSourceChange.CONTINUE, over=over, function_code=None)
