"""Methods of Java as functions of the JVM, so that a collection is read there and comes over in one command.

Asked item by item through the gateway, a folder of 100,000 files takes a minute to list. A table of ten thousand files
takes ten seconds to search. A Python callback would need a server of the driver's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, jvm_of, load_class, once_a_driver

# Guava as Iceberg's runtime brings it: Spark 3.5 has release 14, and another cluster may have any.
GUAVA = "org.apache.iceberg.relocated.com.google.common"
_OBJECT, _CLASS, _HANDLE = "java.lang.Object", "java.lang.Class", "java.lang.invoke.MethodHandle"
_METHOD, _ARGUMENTS, _TEXT = "java.lang.reflect.Method", "[Ljava.lang.Object;", "java.lang.String"
_PRIMITIVES = {"boolean": "Boolean", "int": "Integer", "long": "Long", "void": "Void"}


@once_a_driver
def method_handles(spark: SparkSession) -> MethodHandles:
    """Return those of the driver's JVM."""
    return MethodHandles(spark)


class MethodHandles:
    """Finds methods and combines them; each is a ``java.lang.invoke.MethodHandle``.

    Types are full names of classes, or ``"boolean"``, ``"int"``, ``"long"`` and ``"void"``.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lang = jvm_of(spark).java.lang
        self._handles = self._lang.invoke.MethodHandles
        self._lookup = self._handles.publicLookup()

    def class_of(self, name: str) -> Any:
        """Return the ``java.lang.Class`` of a type."""
        primitive = _PRIMITIVES.get(name)
        return load_class(self._spark, name) if primitive is None else getattr(self._lang, primitive).TYPE

    def type_of(self, result: str, *parameters: str) -> Any:
        """Return a ``MethodType``."""
        return self._lang.invoke.MethodType.methodType(self.class_of(result), self.classes(*parameters))

    def classes(self, *names: str) -> Any:
        """Return an array of ``java.lang.Class``."""
        return java_array(self._spark, _CLASS, [self.class_of(name) for name in names])

    def method(self, owner: str, name: str, result: str, *parameters: str) -> Any:
        """Find a public method of a class or interface."""
        return self._lookup.findVirtual(self.class_of(owner), name, self.type_of(result, *parameters))

    def static(self, owner: str, name: str, result: str, *parameters: str) -> Any:
        """Find a public static method; see :meth:`method`."""
        return self._lookup.findStatic(self.class_of(owner), name, self.type_of(result, *parameters))

    def constructor(self, owner: str, *parameters: str) -> Any:
        """Find a public constructor."""
        return self._lookup.findConstructor(self.class_of(owner), self.type_of("void", *parameters))

    def of_object(self, target: Any, name: str, *parameters: str) -> Any:
        """Find a public method of an object, whatever it returns."""
        return self._lookup.unreflect(target.getClass().getMethod(name, self.classes(*parameters))).bindTo(target)

    def typed(self, handle: Any, result: str, *parameters: str) -> Any:
        """Let a function take and return other types; it converts them."""
        return handle.asType(self.type_of(result, *parameters))

    def then(self, handle: Any, following: Any) -> Any:
        """Give what a function returns to another one."""
        return self._handles.filterReturnValue(handle, following)

    def given(self, handle: Any, place: int, *values: Any) -> Any:
        """Fill parameters of a function with values, from one place on."""
        return self._handles.insertArguments(handle, place, self._objects(values))

    def each_through(self, handle: Any, place: int, *functions: Any) -> Any:
        """Let parameters of a function, from one place on, be what other functions make of them."""
        return self._handles.filterArguments(handle, place, java_array(self._spark, _HANDLE, functions))

    def rearranged(self, handle: Any, kind: Any, order: Sequence[int]) -> Any:
        """Return a function of another type, whose parameters go to a function in an order, some of them twice.

        :param kind: of :meth:`type_of`.
        """
        return self._handles.permuteArguments(handle, kind, java_array(self._spark, "int", order))

    def where_instance(self, owner: str, handle: Any) -> Any:
        """Return a test of any object: False for one of another class, else what a test says.

        :param handle: from an object to a boolean.
        """
        is_instance = self.method(_CLASS, "isInstance", "boolean", _OBJECT).bindTo(self.class_of(owner))
        return self.where(is_instance, handle, self.dropping(self.never(), 0, _OBJECT))

    def dropping(self, handle: Any, place: int, *types: str) -> Any:
        """Let a function take more parameters, at a place, and use none of them."""
        return self._handles.dropArguments(handle, place, self.classes(*types))

    def where(self, test: Any, handle: Any, otherwise: Any) -> Any:
        """Return a function that is one or another one, as a test of its first parameters says."""
        return self._handles.guardWithTest(test, handle, otherwise)

    def collected(self, handle: Any, place: int, function: Any) -> Any:
        """Let one parameter of a function be what another one makes of its own parameters, which stand there then."""
        return self._handles.collectArguments(handle, place, function)

    def catching(self, handle: Any, error: str, handler: Any) -> Any:
        """Return a function that hands an error, and what it was called with, to a handler."""
        return self._handles.catchException(handle, self.class_of(error), handler)

    def throwing(self, error: str, result: str) -> Any:
        """Return a function that throws what it is given.

        :param result: type that it would return.
        """
        return self._handles.throwException(self.class_of(result), self.class_of(error))

    def never(self) -> Any:
        """Return a test of nothing that is False."""
        return self._handles.constant(self.class_of("boolean"), False)

    def nothing(self) -> Any:
        """Return a function that does nothing and returns nothing."""
        return self.typed(self._handles.constant(self.class_of(_OBJECT), None), "void")

    def proxies(self, interface: str, **instead: Any) -> Callable[[Any], Any]:
        """Return what makes an object of an interface, whose methods are those of a given object but for some.

        It takes some hundred commands, and each object that is then made takes four.

        :param interface: no two of its methods have the same name.
        :param instead: a function for each name of a method; it takes the given object first.
        """
        # The class of the target may not be public, its interface is.
        kind = self.class_of(interface)
        methods = {str(each.getName()): self._lookup.unreflect(each) for each in kind.getMethods()}
        methods |= {"hashCode": self.method(_OBJECT, "hashCode", "int")}
        methods |= {"equals": self.method(_OBJECT, "equals", "boolean", _OBJECT)}
        chosen = self._of_array(self.method(_OBJECT, "toString", _TEXT))
        for name, function in {**methods, **instead}.items():
            chosen = self.where(self._is_named(name), self._of_array(function), chosen)
        handler, loader, classes = self.dropping(chosen, 1, _OBJECT), kind.getClassLoader(), self.classes(interface)

        def made(target: Any) -> Any:
            invoked = self.instance("java.lang.reflect.InvocationHandler", handler.bindTo(target))
            return self._lang.reflect.Proxy.newProxyInstance(loader, classes, invoked)

        return made

    def _is_named(self, name: str) -> Any:
        """Return a test of any object and a ``Method``."""
        is_equal = self.method(_OBJECT, "equals", "boolean", _OBJECT).bindTo(name)
        text = self.typed(self.method(_METHOD, "getName", _TEXT), _OBJECT, _METHOD)
        return self.dropping(self.each_through(is_equal, 0, text), 0, _OBJECT)

    def _of_array(self, handle: Any) -> Any:
        """Let a method take its object, a ``Method`` which it does not use, and its parameters as an array."""
        count = handle.type().parameterCount() - 1
        spread = handle.asSpreader(self.class_of(_ARGUMENTS), count)
        return self.dropping(self.typed(spread, _OBJECT, _OBJECT, _ARGUMENTS), 1, _METHOD)

    def call(self, handle: Any, *arguments: Any) -> Any:
        """Call a function, such as one of several of a name, between which py4j does not choose rightly."""
        return handle.invokeWithArguments(self._objects(arguments))

    def instance(self, interface: str, handle: Any) -> Any:
        """Return a function as an object of an interface with one method."""
        return self._lang.invoke.MethodHandleProxies.asInterfaceInstance(self.class_of(interface), handle)

    def function(self, handle: Any) -> Any:
        """Return a function as Guava's ``Function``, which is also a ``java.util.function.Function``."""
        return self.instance(f"{GUAVA}.base.Function", handle)

    def _objects(self, values: Sequence[Any]) -> Any:
        return java_array(self._spark, _OBJECT, values)
