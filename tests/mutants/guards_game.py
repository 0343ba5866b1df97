"""The role-playing world."""

from __future__ import annotations

from tests.mutants.guard import guards_of

TESTS = "tests/systems/game/test_world.py"
CACHE = "tests/systems/game/test_cache.py"
RACES = "tests/systems/game/test_races.py"
API = "tests/api/test_game.py"
_draft = guards_of("squinney.game.actions.draft", TESTS)
_action = guards_of("squinney.game.actions.action", CACHE)
_walking = guards_of("squinney.game.actions.walking", TESTS)
_carrying = guards_of("squinney.game.actions.carrying", TESTS)
_transfer = guards_of("squinney.game.actions.transfer", TESTS)
_using = guards_of("squinney.game.actions.using", TESTS)
_trading = guards_of("squinney.game.actions.trading", TESTS)
_rules = guards_of("squinney.game.rules", TESTS)
_new_documents = guards_of("squinney.game.new_documents", CACHE)
_names = guards_of("squinney.game.new_documents", TESTS)
_building = guards_of("squinney.game.actions.building", TESTS)
_room_copies = guards_of("squinney.game.room_copies", "tests/systems/game/test_rooms.py")
_live = guards_of("squinney.game.surface.live", API)
_listeners = guards_of("squinney.game.surface.listeners", API)
_audit = guards_of("squinney.game.repair.audit", "tests/systems/game/test_repair.py")
_quick_check = guards_of("squinney.game.repair.quick_check", "tests/systems/game/test_large_audit.py")
_insert_rooms = guards_of("squinney.game.loading.insert_rooms", "tests/systems/game/test_loading.py")
_yaml_and_json = guards_of("squinney.game.loading.yaml_and_json", "tests/systems/game/test_loading.py")
_words = guards_of("squinney.game.surface.words", "tests/cli/test_game.py")

GUARDS = [
    _quick_check(
        "containers inside each other are not taken for correct",
        '_is_not_in_itself(item["holder"], containers)\n',
        "True\n",
        "test_the_quick_check_finds_the_same_damage_as_a_check_of_each_document",
    ),
    _quick_check(
        "a container's counts are checked",
        'and (item["count"], item["things"]) == (len(own), sum(rules.size_of(one) for one in own))',
        "",
        "test_the_quick_check_finds_the_same_damage_as_a_check_of_each_document",
    ),
    _insert_rooms(
        "a load begins again if another process takes a name in the meantime",
        "if builder.found == found:",
        "if True:",
        "tests/explore/test_schedules.py::test_a_bug_that_was_found_does_not_return[game, around: load | create Eve]",
    ),
    _insert_rooms(
        "a loaded character whose name is taken is left out",
        "if name.casefold() in self._taken_names:",
        "if False:",
        "test_a_name_that_is_taken_is_reported_and_the_others_are_created",
    ),
    _building(
        "concurrent calls create no more characters than an owner may have",
        'created["_id"] = self._next_id(owner, most_owned)',
        "self._next_id(owner, most_owned)",
        f"{RACES}::test_nobody_gets_more_characters_than_they_may_have",
    ),
    _draft(
        "a plan is stale if a thing has changed since it was read",
        'guard = {"version": before["version"], "holder": before["holder"]}',
        "guard = {}",
        f"{CACHE}::test_a_thing_that_another_process_took_is_gone",
    ),
    _draft(
        "a plan is stale if a character has changed since it was read",
        'guard={"version": before["version"]},\n            give=update',
        "guard={},\n            give=update",
        f"{CACHE}::test_a_purse_that_another_process_emptied_is_empty",
    ),
    _action(
        "an error while planning from the cache does not refuse the action",
        "            if not records.has_used_cache:\n                raise\n",
        "            raise\n",
        "test_a_refusal_is_decided_by_the_database",
    ),
    _action(
        "after a stale plan the action is planned from the database",
        "use_cache=not drafts)",
        "use_cache=True)",
        "test_a_purse_that_another_process_emptied_is_empty",
    ),
    _new_documents(
        "a new thing with the id of a deleted one has another version",
        "random.randrange(1, 2**31)",
        "1",
        "test_a_new_thing_with_a_reused_id_is_not_taken_for_the_old_one",
    ),
    _walking(
        "a move is refused if the exit has changed since it was read",
        'draft.room(here["_id"]).guard = {f"exits.{direction}": target}',
        "pass",
        f"{CACHE}::test_a_cached_room_does_not_decide_where_an_exit_leads",
    ),
    _walking(
        "a character who moves is removed from the old room",
        'draft.room(here["_id"]).unlist_person(actor)',
        "pass",
        "test_a_character_who_moves_is_in_the_new_room_only",
    ),
    _carrying(
        "a character picks up only things in the same room",
        'if thing["holder"] != {"kind": "location", "id": here}:',
        "if False:",
        f"{RACES}::test_of_fifty_characters_who_pick_up_one_lamp_one_gets_it",
    ),
    _transfer(
        "a container is not put into itself or into its contents",
        'if self._item["_id"] in {one["_id"] for one in chain}:',
        "if False:",
        "test_a_container_cannot_be_put_into_itself_or_into_its_contents",
    ),
    _transfer(
        "a container holds no more than its capacity",
        'if sign > 0 and container["load"] > container.get("capacity", 0):',
        "if False:",
        "test_bags_have_limits",
    ),
    _transfer(
        "containers are nested no deeper than the limit",
        "if len(chain) + container_levels(self._entry) > DEEPEST:",
        "if False:",
        "test_bags_have_limits",
    ),
    _transfer(
        "a stack is reduced by what is taken from it",
        'self._item["qty"] -= self._qty\n        kept',
        "kept",
        "test_stacks_split_and_merge_without_losing_pieces",
    ),
    _rules(
        "a character carries no more than the strength allows",
        'if limit is not None and after["load"] > max(limit, before["load"]):',
        "if False:",
        "test_a_character_carries_no_more_than_the_strength_allows",
    ),
    _rules(
        "a thing in use cannot be dropped or given away",
        'if item["_id"] in in_use(character):',
        "if False:",
        "test_armor_and_weapons_come_described",
    ),
    _rules(
        "a character gives, drops and uses only carried things",
        'if item["holder"] != {"kind": "character", "id": character["_id"]}:',
        "if False:",
        "test_a_thing_that_another_character_carries_cannot_be_used",
    ),
    _rules(
        "a character gives and trades only with characters in the same room",
        'if character["location"]["id"] != other["location"]["id"]:',
        "if False:",
        "test_an_impossible_trade_is_refused_and_changes_nothing",
    ),
    _using(
        "a potion can be drunk only once",
        "draft.delete_item(thing)",
        "pass",
        "test_a_potion_heals_once",
    ),
    _trading(
        "a buyer cannot pay more gold than there is",
        'if payer["gold"] < price:',
        "if False:",
        "test_an_impossible_trade_is_refused_and_changes_nothing",
    ),
    _trading(
        "the seller gets the gold that the buyer pays",
        'payee["gold"] += price',
        "pass",
        "test_gold_and_goods_change_hands_together",
    ),
    _trading(
        "only shopkeepers sell",
        'if keeper["kind"] != "shopkeeper":',
        "if False:",
        "test_an_impossible_trade_is_refused_and_changes_nothing",
    ),
    _building(
        "a name belongs to one character",
        "            Step(NAMES, name.casefold(), insert=reserved, refused=lambda _: taken),\n",
        "",
        "test_a_name_belongs_to_one_character",
    ),
    _rules(
        "a player's acts per minute are limited",
        'if pace["count"] + acts > most:',
        "if False:",
        "test_a_players_acts_per_minute_are_limited_across_processes",
    ),
    _room_copies(
        "a newer copy of the room is not overwritten",
        'queries.OUTDATED_COPIES(location_id=room["_id"], version=room["version"] + relisted)',
        'queries.OUTDATED_COPIES(location_id=room["_id"], version=10**9)',
        "test_an_old_room_does_not_replace_a_newer_copy",
    ),
    _room_copies(
        "changed rooms are refreshed before the stream position is saved",
        "follow(self._note, stop=self._stop, settle=self._refresh)",
        "follow(self._note, stop=self._stop)",
        "test_changed_rooms_are_refreshed_before_the_stream_position_is_saved",
    ),
    _room_copies(
        "a refresh that failed is tried again",
        "            refresh_all_copies(self._db, cast(Iterable[Location], rooms))\n"
        "            self._changed.difference_update(some)",
        "            self._changed.difference_update(some)\n"
        "            refresh_all_copies(self._db, cast(Iterable[Location], rooms))",
        "test_a_refresh_that_failed_is_tried_again",
    ),
    _names(
        "a name has only printable characters",
        "if not name.isprintable():",
        "if False:",
        "test_a_name_with_invisible_characters_is_refused",
    ),
    _yaml_and_json(
        "a file cannot declare more things than the limit",
        "if len(self._blueprint.things) > MOST_THINGS:",
        "if False:",
        "test_aliases_that_expand_to_thousands_of_things_are_refused",
    ),
    _audit(
        "a slow server is not reported as a malformed document",
        "        raise_if_away(error)\n",
        "",
        "test_a_slow_server_is_not_reported_as_a_malformed_document",
    ),
    _listeners(
        "a socket receives only the events of its own room",
        'own | self._in_room.get(event["location_id"], set())',
        "self._all",
        "test_a_socket_receives_the_events_of_the_room_that_its_character_is_in",
    ),
    _listeners(
        "a socket follows its character to the next room",
        'self.move(listener, event["location_id"])',
        "pass",
        "test_a_socket_receives_the_events_of_the_room_that_its_character_is_in",
    ),
    _live(
        "a socket whose character moves while it opens receives events of the new room",
        'live.correct_room(listener, found["location"]["id"], again["location"]["id"])',
        "pass",
        "test_a_character_who_moves_while_the_socket_opens_receives_events_of_the_new_room",
    ),
    _listeners(
        "a slow socket's queue is bounded",
        "if len(self._waiting) > MOST_WAITING:",
        "if False:",
        "test_a_slow_sockets_queue_is_replaced_by_a_gap_event",
    ),
    _live(
        "only the character's owner can open a socket",
        'if found.get("owner") != person["_id"] and not may_act_as(person["role"], "admin"):',
        "if False:",
        "test_a_socket_needs_the_owner_of_the_character_and_a_page_of_this_site",
    ),
    _live(
        "a socket that sends too many messages is closed",
        "if count > MOST_MESSAGES:",
        "if False:",
        "test_a_socket_that_sends_too_many_messages_is_closed",
    ),
    _words(
        "a text by another user does not control the terminal",
        'letter if letter.isprintable() else " "',
        "letter",
        "test_a_text_by_another_user_does_not_control_the_terminal",
    ),
]
