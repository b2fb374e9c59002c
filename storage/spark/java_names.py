"""Java's names, cached: packages, classes and their static members, each looked up once.

Py4J asks the JVM for every part of a name at each use; for a short statement this is more than half of all requests.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage


class JavaNames:
    """A package, a class (call it to construct one), or the view of a JVM from which both are reached."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        """Python calls it the first time only. Static fields may change, so they are not kept."""
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._found, name)
        if isinstance(value, (JavaPackage, JavaClass)):
            value = JavaNames(value)
        elif not isinstance(value, JavaMember):
            return value
        self.__dict__[name] = value
        return value

    def __call__(self, *arguments: Any) -> Any:
        """Return a new object of the class."""
        return self._found(*arguments)
