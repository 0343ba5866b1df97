"""Idempotency keys, and pauses between retries."""

from __future__ import annotations

import pytest

from squinney import Invalid, Key
from squinney.transactions import Busy, Tries


def test_a_string_is_a_key_without_a_scope():
    assert Key.of("order 42") == Key("order 42") == Key("order 42", "")
    assert Key.of(Key("order 42", "ada")) == Key("order 42", "ada")
    assert Key.of(None) is None


@pytest.mark.parametrize(("key", "field"), [("", "key"), ("k" * 201, "key"), (Key("k", "s" * 201), "scope")])
def test_a_key_that_cannot_be_kept_is_refused_by_name(key, field):
    with pytest.raises(Invalid) as refused:
        Key.of(key)
    assert refused.value.details["field"] == field


def test_tries_end_with_the_time_and_say_what_was_in_use():
    patient = Tries(60, what="the jar")
    patient.pause()
    patient.pause()
    cause = RuntimeError()
    with pytest.raises(Busy, match="the jar stayed in use") as refused:
        Tries(0, what="the jar").pause(cause)
    assert refused.value.__cause__ is cause
