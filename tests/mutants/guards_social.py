"""The social network."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_rule = guards_of("squinney.social.rules", "tests/systems/social/test_network.py")
_reading = guards_of("squinney.social.reading", "tests/systems/social/test_network.py")
_posting = guards_of("squinney.social.posting", "tests/systems/social/test_network.py")
_graph = guards_of("squinney.social.graph", "tests/systems/social/test_network.py")
_delivery = guards_of("squinney.social.tasks.delivery", "tests/systems/social/test_delivery.py")

GUARDS = [
    _rule(
        "a block hides",
        "return self.here and not self.blocked",
        "return self.here",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _rule(
        "who has left is not shown",
        'if user is None or user.get("left_at"):',
        "if user is None:",
        "test_what_is_kept_of_a_person_can_be_taken_along_and_removed",
    ),
    _rule(
        "a post is for those in its circles",
        'return any(name in author.in_circles for name in post["circles"])',
        "return True",
        "test_odd_names_of_circles_are_only_names",
    ),
    _rule(
        "news are made since the present relation",
        'return any(at is not None and at <= post["ts"] for at in since)',
        "return any(at is not None for at in since)",
        "test_an_uncircled_reader_sees_nothing_more_at_once",
    ),
    _reading(
        "the muted are in no news",
        'return "by" in post and post["by"] not in muted and rules.is_news(me, post, people[post["by"]])',
        'return "by" in post and rules.is_news(me, post, people[post["by"]])',
        "test_a_muted_author_is_in_no_news_and_notices_but_can_be_read",
    ),
    _reading(
        "comments of the hidden are hidden below a post",
        'shown = [one for one in post["comments"] if people[one["by"]].shows]',
        'shown = list(post["comments"])',
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _posting(
        "nobody deletes another's post",
        'if found is None or found["by"] != me:',
        "if found is None:",
        "test_a_deleted_post_takes_its_comments_along",
    ),
    _graph(
        "nobody circles who has blocked them",
        "    if pair.is_blocked:",
        "    if False:",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _delivery(
        "a large delivery takes turns",
        "aggregate(query(limit=BATCH,",
        "aggregate(query(limit=10**9,",
        "test_a_large_delivery_takes_turns_with_small_ones",
    ),
]
