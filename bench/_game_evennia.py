"""Evennia's side of `bench/game.py`, run with the Python of its own environment, in a folder made by `evennia --init`.

It imports nothing of ours. `python _game_evennia.py <players>` in that folder reads lines with a number of seconds and
a kind of action, and prints the rate of each as JSON. Commands go in where the portal passes them to the server, and
messages come out where the server passes them to the portal: the cost of the portal and its connection is not counted.
"""

import json
import os
import sys
import time

PLAYERS = int(sys.argv[1])
SCRIPT = ("get lamp", "north", "drop lamp", "get lamp", "south", "drop lamp")


def set_up():
    sys.path.insert(0, os.getcwd())
    os.environ["DJANGO_SETTINGS_MODULE"] = "server.conf.settings"
    import django
    from django.conf import settings

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # so that logins are fast
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)  # first: Evennia's modules query a table on import
    import evennia

    evennia._init()
    return evennia


def measured(act, seconds):
    """Call an action for some seconds, and return its rate and latencies in milliseconds."""
    times = []
    until = time.perf_counter() + seconds
    while (started := time.perf_counter()) < until:
        act()
        times.append(time.perf_counter() - started)
    times.sort()
    return {
        "count": len(times),
        "rate": len(times) / sum(times),
        "p50": times[len(times) // 2] * 1000,
        "p99": times[-1 - len(times) // 100] * 1000,
    }


class Sockets:
    """Opens sessions as the portal does, and counts the messages that are sent to them."""

    def __init__(self, evennia):
        self._handler = evennia.SESSION_HANDLER
        self._handler.data_out = self._sent
        self.messages = 0

    def _sent(self, session, **kwargs):
        self.messages += 1

    def open(self, number, account, character):
        from evennia.server.serversession import ServerSession

        session = ServerSession()
        session.init_session("telnet", ("localhost", "bench"), self._handler)
        session.sessid = number
        self._handler.portal_connect(session.get_sync_data())
        session = self._handler.session_from_sessid(number)
        self._handler.login(session, account, testmode=True)
        account.puppet_object(session, character)
        return session


def main():
    evennia = set_up()
    from evennia import create_account, create_object
    from evennia.utils.utils import get_evennia_version

    for key in ("first", "limbo"):  # Evennia's default home must have id 2
        create_object("evennia.DefaultRoom", key=key, nohome=True)
    sockets = Sockets(evennia)

    def player(number, name, room):
        account = create_account(name, f"{name}@bench.test", "a long word 123", typeclass="evennia.DefaultAccount")
        character = create_object("evennia.DefaultCharacter", key=name, location=room, home=room)
        character.locks.add("puppet:all();call:false()")
        return sockets.open(number, account, character), character

    turns, people = [], []
    for number in range(PLAYERS):
        hall = create_object("evennia.DefaultRoom", key=f"hall {number}")
        yard = create_object("evennia.DefaultRoom", key=f"yard {number}")
        create_object("evennia.DefaultExit", key="north", location=hall, destination=yard)
        create_object("evennia.DefaultExit", key="south", location=yard, destination=hall)
        lamp = create_object("evennia.DefaultObject", key="lamp", location=hall)
        session, who = player(2 * number + 1, f"p{number}", hall)
        player(2 * number + 2, f"b{number}", hall)  # a bystander, who receives the messages
        turns.append(session)
        people.append((who, lamp, hall, yard))

    calls = [0]

    def command():
        turn, number = divmod(calls[0], PLAYERS)
        session = turns[number]
        session.sessionhandler.data_in(session, text=[[SCRIPT[turn % len(SCRIPT)]], {}])
        calls[0] += 1

    def check():
        """Run the script once and check that each line has its effect."""
        who, lamp, hall, yard = people[0]
        expected = [(hall, who), (yard, who), (yard, yard), (yard, who), (hall, who), (hall, hall)]
        for line, (room, holder) in zip(SCRIPT, expected, strict=True):
            turns[0].sessionhandler.data_in(turns[0], text=[[line], {}])
            assert (who.location, lamp.location) == (room, holder), (line, who.location, lamp.location)

    check()
    who, lamp, hall, yard = people[0]

    def walk():
        assert who.move_to(yard if who.location == hall else hall, quiet=True)

    def take_and_drop():
        assert lamp.move_to(who if lamp.location != who else who.location, quiet=True)

    acts = {"commands": command, "move": walk, "pick up, drop": take_and_drop}
    print(json.dumps({"version": get_evennia_version("short")}), flush=True)
    for line in sys.stdin:
        seconds, _, what = line.strip().partition(" ")
        before = sockets.messages
        figures = measured(acts[what], float(seconds))
        print(json.dumps({**figures, "messages": sockets.messages - before}), flush=True)


main()
