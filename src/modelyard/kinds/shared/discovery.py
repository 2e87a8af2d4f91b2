"""Label selectors as users write them, and `serviceDiscovery` of the inference-gateway kinds.

Pure. A kind puts these blocks into its spec and reads `Every` object that the selector matches. The counterpart in
Kubernetes is the `metav1.LabelSelector` of a NetworkPolicy; an empty one matches everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from modelyard.core.selectors import Expression, Operator, Selector
from modelyard.kinds.contract import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

Value = Annotated[str, Meta(max_length=63)]


class LabelExpression(Struct, frozen=True, rename="camel"):
    """One condition on a label."""

    key: Annotated[str, Meta(description="The label.", min_length=1, max_length=317)]
    operator: Annotated[Operator, Meta(description="How its value is compared.")]
    values: Annotated[tuple[Value, ...], Meta(description="The values, for In and NotIn.", max_length=64)] = ()


class LabelSelector(Struct, frozen=True, rename="camel"):
    """The labels that an object must have. All conditions must hold."""

    match_labels: Annotated[dict[str, Value], Meta(description="Labels and their values.", max_length=64)] = {}
    match_expressions: Annotated[
        tuple[LabelExpression, ...], Meta(description="Further conditions on labels.", max_length=64)
    ] = ()

    @property
    def selector(self) -> Selector:
        """The selector of a read."""
        expressions = (Expression(each.key, each.operator, each.values) for each in self.match_expressions)
        return Selector(tuple(sorted(self.match_labels.items())), tuple(expressions))

    @property
    def is_sound(self) -> bool:
        """Whether exactly the operators In and NotIn have values."""
        compared = (Operator.IN, Operator.NOT_IN)
        return all(bool(each.values) == (each.operator in compared) for each in self.match_expressions)


class ServiceDiscovery(Struct, frozen=True, rename="camel"):
    """Which objects are found by their labels."""

    enabled: Annotated[bool, Meta(description="Whether objects are looked for.")]
    namespace: Annotated[
        str,
        Meta(
            description="The namespace to look in. Left out: that of the object.",
            max_length=63,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        ),
    ] = ""
    selector: Annotated[LabelSelector, Meta(description="What to look for. Left out: everything there.")] = (
        LabelSelector()
    )


def selector_rule(field: str, selector_of: Callable[[Any], LabelSelector | None]) -> Rule:
    """Return the rule for the expressions of the selector at a field, which `selector_of` reads from a spec."""
    return Rule(
        cel="self.all(e, (e.operator in ['In', 'NotIn']) == (has(e.values) && size(e.values) > 0))",
        message=f"{field}.matchExpressions need values with the operators In and NotIn, and none with the others",
        field=f"{field}.matchExpressions",
        holds=lambda spec, _: (found := selector_of(spec)) is None or found.is_sound,
    )
