"""Evennia's side of `bench/game.py`, run by the Python of its own environment, in a folder of `evennia --init`.

It imports nothing of ours. `python _game_evennia.py <seconds>` in that folder prints what it did per second, as JSON.
"""

import json
import os
import sys
import time

SECONDS = float(sys.argv[1])


def set_up():
    sys.path.insert(0, os.getcwd())
    os.environ["DJANGO_SETTINGS_MODULE"] = "server.conf.settings"
    import django

    django.setup()
    import evennia

    evennia._init()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)


def measured(act):
    """How often a second, and in how many milliseconds."""
    act()
    times = []
    until = time.perf_counter() + SECONDS
    while (began := time.perf_counter()) < until:
        act()
        times.append(time.perf_counter() - began)
    times.sort()
    return {
        "rate": len(times) / sum(times),
        "p50": times[len(times) // 2] * 1000,
        "p99": times[-1 - len(times) // 100] * 1000,
    }


def main():
    set_up()
    from evennia import create_object
    from evennia.utils.utils import get_evennia_version

    for key in ("first", "limbo"):  # a home, which is to be number 2
        create_object("evennia.DefaultRoom", key=key, nohome=True)
    hall = create_object("evennia.DefaultRoom", key="hall")
    yard = create_object("evennia.DefaultRoom", key="yard")
    ann = create_object("evennia.DefaultCharacter", key="ann", location=hall)
    lamp = create_object("evennia.DefaultObject", key="lamp", location=hall)

    def walk():
        assert ann.move_to(yard if ann.location == hall else hall, quiet=True)

    def take_and_drop():
        assert lamp.move_to(ann if lamp.location != ann else ann.location, quiet=True)

    found = {"move": measured(walk), "pick up, drop": measured(take_and_drop)}
    print(json.dumps({"version": get_evennia_version("short"), **found}))


main()
