"""Label selectors: matchLabels and matchExpressions, all of which must match. `Every` reads by them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Operator(StrEnum):
    """The operator of an expression. NotIn also matches objects that lack the label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Expression(Struct, frozen=True):
    """One entry of `matchExpressions`."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels of an object satisfy the expression."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


class Selector(Struct, frozen=True):
    """A label selector. An empty one matches every object."""

    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels of an object satisfy the whole selector."""
        return all(labels.get(name) == value for name, value in self.labels) and all(
            expression.matches(labels) for expression in self.expressions
        )
