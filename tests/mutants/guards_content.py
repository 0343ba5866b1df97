"""Nodes, photos and comments."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_GUARDS = "tests/systems/content/test_guards.py::"

_rule = guards_of("squinney.content.nodes.rules", "tests/systems/content/test_nodes.py")
_node = guards_of("squinney.content.nodes.nodes", "tests/systems/content/test_nodes.py")
_sweep = guards_of("squinney.content.sweep", "tests/systems/content/test_photos.py")
_comment = guards_of("squinney.content.comments.comments", "tests/systems/content/test_comments.py")
_talk = guards_of("squinney.content.comments.discussions", "tests/systems/content/test_guards.py")
_convert = guards_of("squinney.content.comments.conversion", "tests/systems/content/test_discussions.py")
_flag = guards_of("squinney.content.comments.moderation", "tests/systems/content/test_guards.py")
_separate = guards_of("squinney.content.comments.separate", "tests/systems/content/test_guards.py")
_repair = guards_of("squinney.content.repair", "tests/systems/content/test_guards.py")

NODES = [
    _rule(
        "an edit requires the nonce of the version it was based on",
        'guard={"metadata.nonce": old["nonce"]},',
        "guard={},",
        _GUARDS + "test_an_edit_that_another_overtakes_is_a_conflict",
    ),
    _rule(
        "a move requires the nonce of the version it was based on",
        'guard={"metadata.nonce": old["nonce"], **route(old)},',
        "guard=route(old),",
        _GUARDS + "test_a_move_keeps_what_was_saved_meanwhile",
    ),
    _rule(
        "folders above the new parent are not moved during a move",
        'guard=route(node["metadata"]),',
        "guard={},",
        _GUARDS + "test_two_overlapping_moves_make_no_cycle",
    ),
    _rule(
        "a node with children is not removed",
        '        "metadata.num_children": 0,\n',
        "",
        "test_only_an_empty_node_is_removed",
    ),
    _rule(
        "a node is not removed while its discussion is frozen",
        '        "metadata.discussion.frozen": None,\n    }',
        "    }",
        _GUARDS + "test_no_node_is_removed_while_its_discussion_switches",
    ),
    _node(
        "an edit with an old nonce is a conflict",
        '            if current["metadata"]["nonce"] != nonce:\n',
        "            if False:\n",
        "test_an_edit_needs_the_newest_nonce",
    ),
    _node(
        "the number of tags of a node is limited",
        'room = {"$expr": {"$lte": [{"$size": tags}, MOST_TAGS]}}',
        "room: Document = {}",
        "test_tags_need_no_nonce",
    ),
    _node(
        "an update is repeated if the node was moved meanwhile",
        "            if rules.filter_of(current) == where:\n",
        "            if True:\n",
        "test_single_updates_follow_a_node_that_is_moved_meanwhile",
    ),
    _node(
        "a node is not moved into itself",
        'if current["_id"] in [folder["_id"] for folder in folders]:',
        "if False:",
        "test_a_move_into_itself_or_onto_another_is_refused",
    ),
    _node(
        "the depth of the tree is limited",
        "            if depth > MOST_DEPTH:\n",
        "            if False:\n",
        "test_a_move_takes_no_tree_too_deep",
    ),
    _sweep(
        "an active upload is not given up",
        'guard={"seen": upload["seen"]}',
        "guard={}",
        _GUARDS + "test_an_upload_that_was_seen_meanwhile_is_left_alone",
    ),
    _repair(
        "repair sets a count only if it has not changed since it was read",
        '{"_id": found["_id"], field: found["stored"], **UNLOCKED}',
        '{"_id": found["_id"], **UNLOCKED}',
        "test_repair_sets_no_count_that_has_changed_since",
    ),
]

COMMENTS = [
    _talk(
        "a write requires the current epoch of the discussion",
        '{"metadata.discussion.epoch": self.discussion["epoch"], "metadata.discussion.frozen": None}',
        '{"metadata.discussion.frozen": None}',
        "test_a_comment_is_not_written_where_the_discussion_was",
    ),
    _talk(
        "no comment is written while the discussion is frozen",
        '{"metadata.discussion.epoch": self.discussion["epoch"], "metadata.discussion.frozen": None}',
        '{"metadata.discussion.epoch": self.discussion["epoch"]}',
        "test_no_comment_is_written_while_the_discussion_switches",
    ),
    _separate(
        "a comment with replies is not removed",
        'guard={"version": comment["version"], "num_replies": 0},',
        'guard={"version": comment["version"]},',
        "test_a_comment_that_is_answered_meanwhile_keeps_its_place",
    ),
    _comment(
        "only the author changes a comment",
        'if by is not None and found["author"]["_id"] != by:',
        "if False:",
        "test_an_edit_shows_and_a_strangers_is_refused",
    ),
    _comment(
        "only the first comment sets the strategy",
        '{"_id": node_id, "metadata.discussion": None}',
        '{"_id": node_id}',
        _GUARDS + "test_a_discussion_begins_once",
    ),
    _comment(
        "a comment of another author is not returned for a repeated key",
        'if (taken := storage.get(discussed, comment["slug"])) and taken["author"]["_id"] == author["_id"]:',
        'if taken := storage.get(discussed, comment["slug"]):',
        "tests/systems/content/test_discussions.py::test_a_slug_that_belongs_to_another_is_not_taken_for_a_repeat",
    ),
    _comment(
        "a comment is looked up again if its node was moved",
        "(discussed.epoch_key, discussed.route) == (before.epoch_key, before.route)",
        "discussed.epoch_key == before.epoch_key",
        "test_comments_of_a_node_that_was_moved_are_found_by_its_older_document",
    ),
    _comment(
        "lists by author leave out leftovers of a conversion",
        'live = [comment for comment in found.items if comment["epoch"] == epochs.get(comment["node_id"])]',
        "live = found.items",
        "tests/systems/content/test_discussions.py::test_a_persons_list_shows_nothing_that_a_conversion_left",
    ),
    _convert(
        "only the newest claim freezes a discussion",
        'mine = {**discussed.filter, **discussed.guard, "metadata.discussion.claimed": epoch}',
        "mine = {**discussed.filter, **discussed.guard}",
        "test_of_two_concurrent_conversions_the_later_claim_wins",
    ),
    _convert(
        "only the conversion that froze a discussion switches it",
        'guard={"metadata.discussion.frozen.token": token},',
        "guard={},",
        "test_a_conversion_that_died_frozen_is_thawed",
    ),
    _convert(
        "a freeze waits for unfinished two-phase runs",
        "db[NODES].update_one({**mine, **UNLOCKED}, frozen)",
        "db[NODES].update_one(mine, frozen)",
        _GUARDS + "test_a_freeze_waits_for_a_run_that_was_permitted_before",
    ),
    _convert(
        "an expired freeze is lifted",
        '    if frozen["until"] < server_now(db):\n',
        "    if False:\n",
        "test_a_conversion_that_died_frozen_is_thawed",
    ),
    _convert(
        "a freeze is not lifted before it expires",
        '    if frozen["until"] < server_now(db):\n',
        "    if True:\n",
        _GUARDS + "test_no_comment_is_written_while_the_discussion_switches",
    ),
]

FLAGS = [
    _flag(
        "a comment is flagged only while its node exists",
        "Plan([node_exists, Step(",
        "Plan([Step(",
        "test_a_comment_of_a_page_removed_meanwhile_is_not_flagged",
    ),
]

GUARDS = [*NODES, *COMMENTS, *FLAGS]
