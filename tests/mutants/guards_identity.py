"""People, sessions, keys and invitations."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_PEOPLE = "tests/systems/identity/test_people.py"
_SESSIONS = "tests/systems/identity/test_sessions_and_keys.py"

_person = guards_of("squinney.identity.people", _PEOPLE)
_invitation = guards_of("squinney.identity.invitations", _PEOPLE)
_throttle = guards_of("squinney.identity.throttle", _PEOPLE)
_repair = guards_of("squinney.identity.repair", _PEOPLE)
_session = guards_of("squinney.identity.sessions", _SESSIONS)
_key = guards_of("squinney.identity.keys", _SESSIONS)

GUARDS = [
    _person(
        "a wrong password is refused",
        'right = passwords.matches(credentials.get("password"), password)',
        "right = bool(credentials)",
        "test_a_wrong_login_and_a_wrong_password_give_the_same_error",
    ),
    _person(
        "a disabled person cannot sign in",
        'if person is None or person.get("disabled_at"):',
        "if person is None:",
        "test_a_disabled_person_cannot_sign_in_until_enabled",
    ),
    _person(
        "attempts are counted per login",
        "        self._count_try(login, network)\n",
        "",
        "test_guessing_a_password_is_stopped",
    ),
    _person(
        "attempts are counted per address",
        "            self._by_address.count(network)\n",
        "            pass\n",
        "test_an_address_that_tries_many_logins_is_stopped",
    ),
    _person(
        "rehashing does not restore an old password",
        'unchanged = {**queries.LOGIN(login=credentials["_id"]), "password": credentials["password"]}',
        'unchanged = queries.LOGIN(login=credentials["_id"])',
        "test_rehashing_does_not_restore_an_old_password",
    ),
    _person(
        "a session gets the credential of the checked password",
        "return _with_credential(person, credentials)",
        "return person",
        "test_a_session_gets_the_credential_of_the_checked_password",
    ),
    _person(
        "a new password invalidates sessions that are being started",
        'Step("people", person_id, give={"$set": credential}, refused=lambda _: _unknown(person_id)),',
        "",
        "test_a_session_started_with_an_old_password_is_invalid",
    ),
    _throttle(
        "attempts are limited",
        'if found and found["tries"] > min(self._most, self._most if most is None else most):',
        "if False:",
        "test_guessing_a_password_is_stopped",
    ),
    _invitation(
        "a link can be used once",
        "Plan([used, *only_first, *steps])",
        "Plan([*only_first, *steps])",
        "test_a_link_can_be_used_once",
    ),
    _repair(
        "a login is removed only if it still names the missing person",
        '{"_id": login["_id"], "person_id": login.get("person_id"), "txn_stub": None}',
        '{"_id": login["_id"], "txn_stub": None}',
        "test_a_reassigned_login_is_not_removed",
    ),
    _session(
        "a session started with an old password is invalid",
        'return person if person.get("credential_id") == session.get("credential_id") else None',
        "return person",
        _PEOPLE + "::test_a_session_started_with_an_old_password_is_invalid",
    ),
    _session(
        "a session of a disabled person is invalid",
        'if person is None or person.get("disabled_at"):',
        "if person is None:",
        _PEOPLE + "::test_a_disabled_person_cannot_sign_in_until_enabled",
    ),
    _session(
        "using a session extends it",
        'if now - session["seen_at"] > SEEN_EVERY:',
        "if False:",
        "test_a_session_expires_unless_it_is_used",
    ),
    _key(
        "a wrong secret is refused",
        "if stored is None or not same or not",
        "if stored is None or not",
        "test_wrong_expired_and_revoked_keys_are_refused_alike",
    ),
    _key(
        "an expired or revoked key is refused",
        "if stored is None or not same or not is_live(cast(ApiKey, stored), clock):",
        "if stored is None or not same:",
        "test_wrong_expired_and_revoked_keys_are_refused_alike",
    ),
    _key(
        "a revoked key is removed from the cache",
        "        self._cache.pop(key_id, None)\n",
        "",
        "test_wrong_expired_and_revoked_keys_are_refused_alike",
    ),
]
