"""The errors that Modelyard raises on purpose.

ModelyardError
├── SpecInvalid      the user must change the spec; not retried until it changes
└── (kube.errors)    what the API server answered

Any other exception in a reconcile is a bug of ours, and shows as `InternalError`.
"""

from __future__ import annotations


class ModelyardError(Exception):
    """The root of all errors that Modelyard raises on purpose."""

    exit_code: int = 1
    """What `modelyard` exits with when this error ends it; docs/cli/overview.md has the list."""


class SpecInvalid(ModelyardError):
    """A field of a spec that no plan can be made of: the field, what is wrong with it, and the remedy."""

    def __init__(self, field: str, wrong: str, remedy: str) -> None:
        super().__init__(f"{field}: {wrong}; {remedy}")
        self.field, self.wrong, self.remedy = field, wrong, remedy
