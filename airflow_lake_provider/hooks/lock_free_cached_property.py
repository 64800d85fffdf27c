"""A cached property without a lock: it is worked out once for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lock_free_cached_property(Generic[T]):  # noqa: N801  used as a decorator, as functools.cached_property is
    """Like ``functools.cached_property``, which on Python 3.11 holds one lock for all objects of a class.

    What it works out may ask a server. Two threads that are first may both do so, and one answer is kept.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        self.func = func
        self.__doc__ = func.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lock_free_cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | lock_free_cached_property[T]:
        if instance is None:
            return self
        value = vars(instance)[self._name] = self.func(instance)
        return value
