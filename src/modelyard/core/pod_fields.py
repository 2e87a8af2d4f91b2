"""Text that goes into pods unchanged, bounded as Kubernetes bounds it, for the `api` modules of kinds.

Without bounds the API server stores what no pod can have, and the fault shows only on the Deployment or on a node.
What does not match a pattern of `REMEDIES` is refused in the words there, by the CRD and by `kinds/decode.py` alike: a
regular expression tells a user nothing.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_PATH: Final = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = (
    r"(([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]+)?/)?"
    rf"{_PATH}(/{_PATH})*"
)
_TAG: Final = r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_REFERENCE: Final = (
    rf"{_REPOSITORY}(:{_TAG})?"
    r"(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)

_HOST: Final = r"([^\s,/?#@:\[\]]+|\[[0-9a-fA-F:.]+\])"
_PORT: Final = (
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"  # at most 65535
)

LABEL_KEY: Final = rf"^({_SUBDOMAIN}/)?{_NAME}$"
ANNOTATION_KEY: Final = rf"^((?i:{_SUBDOMAIN})/)?{_NAME}$"
LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
OBJECT_NAME: Final = rf"^({_SUBDOMAIN})?$"
IMAGE: Final = rf"^({_REFERENCE})?$"
IMAGE_REPOSITORY: Final = rf"^{_REPOSITORY}$"
"""An image without its tag and its digest."""
IMAGE_TAG: Final = rf"^({_TAG})?$"
HOST_NAME: Final = rf"^((\*\.)?{_SUBDOMAIN})?$"
HTTP_URL: Final = rf"^(https?://{_HOST}{_PORT}([/?#][^\s,]*)?)?$"

_KEYS: Final = (
    "keys must be names such as team or example.com/team: at most 63 letters, digits, '-', '_' and '.', beginning and "
    "ending with a letter or digit, after an optional domain and '/'"
)
REMEDIES: Final = {
    LABEL_KEY: _KEYS,
    ANNOTATION_KEY: _KEYS,
    LABEL_VALUE: "must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
    OBJECT_NAME: "must be the name of an object: a-z, 0-9, '-' and '.', beginning and ending with a letter or digit",
    IMAGE: "must be an image such as ghcr.io/org/name:tag: lower case, no spaces, at most one tag and one digest",
    HOST_NAME: "must be a host name such as api.example.com or *.example.com: a-z, 0-9, '-' and '.', and no final dot",
    HTTP_URL: "must be a URL such as http://host:8080/path: http or https, without spaces, commas or credentials",
}
"""What must hold, in words, of what each pattern is about."""

LabelKey = Annotated[str, Meta(pattern=LABEL_KEY, max_length=317)]
AnnotationKey = Annotated[str, Meta(pattern=ANNOTATION_KEY, max_length=317)]
LabelValue = Annotated[str, Meta(pattern=LABEL_VALUE, max_length=63)]
Note = Annotated[str, Meta(max_length=256 * 1024)]
"""As much as Kubernetes takes in all annotations of one pod: injectors read whole templates from them."""

Labels = dict[LabelKey, LabelValue]
"""Labels of a pod, or those that its node must have."""
Annotations = dict[AnnotationKey, Note]
ObjectName = Annotated[str, Meta(pattern=OBJECT_NAME, max_length=253)]
"""The name of an object in the cluster; empty: none."""
Image = Annotated[str, Meta(pattern=IMAGE, max_length=1024)]
"""A container image; empty: none."""
HostName = Annotated[str, Meta(pattern=HOST_NAME, max_length=253)]
"""A name under which clients reach a server, perhaps with a star for its first part; empty: none."""
HttpUrl = Annotated[str, Meta(pattern=HTTP_URL, max_length=2048)]
"""A URL that a program in a pod is told. Credentials belong into Secrets, and commas separate URLs; empty: none."""
