"""The history checker accepts histories that are linearizable, and refuses others."""

from __future__ import annotations

import random
from itertools import permutations, product
from math import inf
from typing import Any

import pytest

from squinney.errors import Conflict, Unavailable
from squinney.testing.histories import (
    Call,
    Effect,
    History,
    Model,
    NotLinearizable,
    Outcome,
    amount,
    check,
    register,
    sequence,
)


class Short(Conflict):
    """There is not enough."""


def at(start: float, end: float, action: str, value: Any, outcome: Outcome = "ok") -> Call:
    """Return a call from `start` to `end`. A call with an unknown outcome has no end."""
    return Call(action, value, start, inf if outcome == "unknown" else end, outcome)


RIGHT: dict[str, tuple[Model, list[Call]]] = {
    "nothing": (amount, []),
    "one after the other": (amount, [at(1, 2, "give", 5), at(3, 4, "take", 15), at(5, 6, "read", 0)]),
    "a read beside a write sees it": (amount, [at(1, 4, "give", 5), at(2, 3, "read", 15)]),
    "a read beside a write misses it": (amount, [at(1, 4, "give", 5), at(2, 3, "read", 10)]),
    "the later beginner comes first": (amount, [at(1, 5, "take", 12), at(2, 4, "give", 5), at(6, 7, "read", 3)]),
    "a refusal while another had the money": (
        amount,
        [at(1, 6, "take", 8), at(2, 3, "take", 8, "refused"), at(4, 7, "give", 8), at(8, 9, "read", 10)],
    ),
    "an unknown outcome that happened late": (
        amount,
        [at(1, 2, "give", 5, "unknown"), at(3, 4, "read", 10), at(5, 6, "read", 15)],
    ),
    "an unknown outcome that never happened": (amount, [at(1, 2, "take", 5, "unknown"), at(3, 4, "read", 10)]),
    "the same write again, after another": (
        register,
        [at(1, 9, "write", 10), at(2, 3, "write", 6), at(4, 5, "read", 6), at(10, 11, "read", 10)],
    ),
    "an unknown write that comes back to an old value": (
        register,
        [at(0, 1, "write", 10, "unknown"), at(2, 3, "write", 6), at(4, 5, "read", 6), at(6, 7, "read", 10)],
    ),
    "ranges with a gap": (sequence, [at(1, 3, "take", range(21, 31)), at(2, 4, "take", range(11, 13))]),
}

WRONG: dict[str, tuple[Model, list[Call]]] = {
    "a stale read": (amount, [at(1, 2, "give", 5), at(3, 4, "read", 10)]),
    "a lost update": (amount, [at(1, 3, "give", 5), at(2, 4, "give", 5), at(5, 6, "read", 15)]),
    "a double spend": (amount, [at(1, 3, "take", 8), at(2, 4, "take", 8)]),
    "an update that came twice": (amount, [at(1, 2, "give", 5), at(3, 4, "read", 20)]),
    "an unknown outcome that came twice": (amount, [at(1, 2, "give", 5, "unknown"), at(3, 4, "read", 20)]),
    "an unknown outcome before its start": (amount, [at(1, 2, "read", 15), at(3, 4, "give", 5, "unknown")]),
    "an unknown outcome that was undone": (
        amount,
        [at(1, 2, "give", 5, "unknown"), at(3, 4, "read", 15), at(5, 6, "read", 10)],
    ),
    "a refusal without a reason": (amount, [at(1, 2, "give", 5), at(3, 4, "take", 12, "refused")]),
    "reads that go back": (amount, [at(1, 9, "give", 5), at(2, 3, "read", 15), at(4, 5, "read", 10)]),
    "a lost write": (register, [at(1, 2, "write", 6), at(3, 4, "write", 7), at(5, 6, "read", 6)]),
    "a number given twice": (sequence, [at(1, 3, "take", range(11, 21)), at(2, 4, "take", range(20, 30))]),
    "a later number that is lower": (sequence, [at(1, 2, "take", range(21, 31)), at(3, 4, "take", range(11, 13))]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_could_have_happened_is_accepted(name: str) -> None:
    model, calls = RIGHT[name]
    check(calls, model, 10)


@pytest.mark.parametrize("name", WRONG)
def test_what_could_not_have_happened_is_refused(name: str) -> None:
    model, calls = WRONG[name]
    with pytest.raises(NotLinearizable):
        check(calls, model, 10)


def _could_have_happened(calls: list[Call], model: Model, state: Any) -> bool:
    """Try every order of the known calls and of some unknown ones: the definition itself, slow but simple."""
    unknown = [call for call in calls if call.outcome == "unknown"]
    for kept in product([True, False], repeat=len(unknown)):
        left_out = [call for call, keep in zip(unknown, kept, strict=True) if not keep]
        chosen = [call for call in calls if not any(call is other for other in left_out)]
        if any(_explains(order, model, state) for order in permutations(chosen)):
            return True
    return False


def _explains(order: tuple[Call, ...], model: Model, state: Any) -> bool:
    for place, call in enumerate(order):
        state = model(state, call)
        if state is None or any(later.end < call.start for later in order[place + 1 :]):
            return False
    return True


def _random_call(chance: random.Random) -> Call:
    start = chance.randint(0, 8)
    outcome: Outcome = chance.choice(["ok", "ok", "ok", "refused", "unknown"])
    action = chance.choice(["take", "give"] if outcome == "unknown" else ["take", "give", "read"])
    return at(
        start, start + chance.randint(1, 5), "take" if outcome == "refused" else action, chance.randint(1, 3), outcome
    )


def test_it_agrees_with_the_definition_on_small_histories() -> None:
    chance, verdicts = random.Random(1), {True: 0, False: 0}
    for _ in range(400):
        calls = [_random_call(chance) for _ in range(chance.randint(1, 5))]
        expected = _could_have_happened(calls, amount, 3)
        verdicts[expected] += 1
        if expected:
            check(calls, amount, 3)
        else:
            with pytest.raises(NotLinearizable):
                check(calls, amount, 3)
    assert min(verdicts.values()) > 50


def test_a_history_derives_outcomes_from_errors() -> None:
    history = History()
    move = [Effect("a", "take", 5), Effect("b", "give", 5)]
    with history.call(*move):
        pass
    with history.call(*move, refused={Short: "a"}):
        raise Short
    with history.call(*move):
        raise Unavailable(outcome_unknown=True)
    with history.call(*move) as nothing:
        raise Unavailable
    with history.call(*move, refused={Short: "a"}):
        raise Conflict
    with history.call(Effect("b", "read")) as call:
        call.answer = 5
    seen = {key: [(call.action, call.value, call.outcome) for call in calls] for key, calls in history.calls.items()}
    assert seen["a"] == [("take", 5, "ok"), ("take", 5, "refused"), ("take", 5, "unknown")]
    assert seen["b"] == [("give", 5, "ok"), ("give", 5, "unknown"), ("read", 5, "ok")]
    assert (call.outcome, nothing.outcome) == ("ok", None)
    assert all(call.start <= call.end for calls in history.calls.values() for call in calls)
    assert (history.check("a", amount, 9), history.check("b", amount, 0)) == (3, 3)


def test_other_errors_are_raised() -> None:
    history = History()
    with pytest.raises(ZeroDivisionError), history.call(Effect("a", "give", 1)):
        raise ZeroDivisionError
    assert history.calls == {}


def test_a_refusal_names_the_key_and_what_does_not_fit() -> None:
    history = History()
    history.add("b", at(1, 2, "give", 5))
    history.add("b", at(3, 4, "read", 0))
    with pytest.raises(NotLinearizable, match=r"(?s)b: explained 1 of 2 calls; the state is then 5, .*read 0 \(ok"):
        history.check("b", amount, 0)


def test_only_reads_in_a_lapse_may_be_old_and_never_rolled_back() -> None:
    def seen(value: int, *, in_lapse: bool) -> History:
        history = History()
        with history.call(Effect("a", "give", 5)):
            pass
        if in_lapse:
            with history.lapse(), history.call(Effect("a", "read")) as call:
                call.answer = value
        with history.call(Effect("a", "read")) as call:
            call.answer = 15 if in_lapse else value
        return history

    assert seen(10, in_lapse=True).check("a", amount, 10) == 3
    for history in (seen(10, in_lapse=False), seen(12, in_lapse=True)):
        with pytest.raises(NotLinearizable):
            history.check("a", amount, 10)


def test_a_lapse_ends_although_another_began_in_it() -> None:
    history = History()
    first, second = history.lapse(), history.lapse()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    with history.call(Effect("a", "give", 5)):
        pass
    with history.call(Effect("a", "read")) as call:
        call.answer = 10
    with pytest.raises(NotLinearizable):
        history.check("a", amount, 10)
