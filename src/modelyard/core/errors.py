"""What can go wrong, by what it asks of the runtime.

ModelyardError
├── SpecInvalid      the user must change the spec; not tried again until it changes
└── (kube.errors)    what the API server answered

Everything else that is raised inside a reconcile is a bug of ours and shows as `InternalError`.
"""

from __future__ import annotations


class ModelyardError(Exception):
    """The root of all errors that Modelyard raises on purpose."""


class SpecInvalid(ModelyardError):
    """A stored object holds something that no plan can be made of."""

    def __init__(self, field: str, wrong: str, remedy: str) -> None:
        super().__init__(f"{field}: {wrong}; {remedy}")
        self.field, self.wrong, self.remedy = field, wrong, remedy
