"""Names that fit where they are used."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core import names

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
OBJECT_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@given(OBJECT_NAMES)
def test_a_name_that_fits_stays_and_any_other_is_cut(name: str):
    short = names.short(name)
    assert len(short) <= 63
    assert (short == name) == (len(name) <= 63)


def test_two_long_names_that_begin_alike_stay_apart():
    assert names.short("a" * 70) != names.short("a" * 71)


def test_a_short_name_is_the_same_in_every_release():
    # Labels of running pods are made of it, and a Deployment's selector cannot be changed.
    assert names.short("a" * 64) == "a" * 54 + "-" + "ffe054fe"


def test_a_name_is_not_cut_at_a_dash_or_dot():
    assert "--" not in names.short("a" * 53 + "-" + "b" * 20)
    assert ".-" not in names.short("a" * 53 + "." + "b" * 20)


def test_the_limit_may_be_another():
    assert len(names.short("a" * 64, limit=20)) == 20


@given(OBJECT_NAMES)
def test_every_object_name_gives_a_label_that_volumes_may_have(name: str):
    label = names.dns_label(name)
    assert LABEL.fullmatch(label)
    assert len(label) <= 63


def test_a_label_stays_as_it_is():
    assert names.dns_label("files-tls-volume") == "files-tls-volume"


def test_names_that_differ_only_in_what_is_not_allowed_stay_apart():
    assert len({names.dns_label(name) for name in ("a.b", "a-b", "a_b", "A-b")}) == 4


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("node", "node"),
        ("node:lts", "node"),
        ("localhost:5000/a/b", "localhost:5000/a/b"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b"),
        ("ghcr.io/a/b:1@sha256:00", "ghcr.io/a/b"),
        ("ghcr.io/a/b@sha256:00", "ghcr.io/a/b"),
    ],
)
def test_a_repository_is_an_image_without_tag_and_digest(image: str, repository: str):
    assert names.repository(image) == repository
