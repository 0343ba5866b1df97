"""Guards of the social network."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_rule = guards_of("squinney.social.rules", "tests/systems/social/test_network.py")
_reading = guards_of("squinney.social.reading", "tests/systems/social/test_network.py")
_posting = guards_of("squinney.social.posting", "tests/systems/social/test_network.py")
_graph = guards_of("squinney.social.graph", "tests/systems/social/test_network.py")
_people = guards_of("squinney.social.network.people", "tests/systems/social/test_network.py")
_posts = guards_of("squinney.social.network.posts", "tests/systems/social/test_network.py")
_loading = guards_of("squinney.social.network.loading", "tests/systems/social/test_delivery.py")
_photos = guards_of("squinney.social.tasks.photos", "tests/api/test_social.py")
_export = guards_of("squinney.social.network.export", "tests/systems/social/test_network.py")
_delivery = guards_of("squinney.social.tasks.delivery", "tests/systems/social/test_delivery.py")
_repair = guards_of("squinney.social.repair", "tests/systems/social/test_network.py")
_checks = guards_of("squinney.social.problem_queries", "tests/systems/social/test_network.py")
_forms = guards_of("squinney.social.surface.web_forms", "tests/api/test_social.py")
_threads = guards_of("squinney.http.threads", "tests/api/test_social.py")
_erasing = guards_of("squinney.social.tasks.erasing", "tests/systems/social/test_network.py")
_worker = guards_of("squinney.social.tasks.worker", "tests/systems/social/test_delivery.py")

GUARDS = [
    _forms(
        "photos run in a pool of their own",
        "return await PHOTOS.run(partial(_write, request, network, form))",
        "return await run_in_threadpool(_write, request, network, form)",
        "test_a_photo_upload_uses_no_thread_of_the_pages",
    ),
    _threads(
        "uploading a photo does not count against the time limit of its post",
        'PHOTOS = ThreadLimit("photo posts", at_once=2, most_waiting=20, timed=False)',
        'PHOTOS = ThreadLimit("photo posts", at_once=2, most_waiting=20)',
        "test_a_slow_photo_upload_leaves_time_for_its_post",
    ),
    _forms(
        "photos are counted before they are decoded",
        """    network.count_photo(me["id"])
""",
        "",
        "test_photos_are_counted_before_they_are_decoded",
    ),
    _repair(
        "the two sides of an edge are compared",
        "+= content if is_first else -content",
        "+= 0",
        "test_inconsistent_social_data_is_found_and_repaired",
    ),
    _checks(
        "the last range is checked too",
        """    yield part
""",
        """    return
""",
        "test_inconsistent_social_data_is_found_and_repaired",
    ),
    _reading(
        "posts by hidden authors are skipped in news",
        """            hidden.add(post["by"])""",
        """            pass""",
        "test_hidden_authors_cannot_push_posts_off_the_news",
    ),
    _reading(
        "posts by muted authors are skipped in news",
        """position_of(cursor), without=hidden)""",
        """position_of(cursor), without=())""",
        "test_hidden_authors_cannot_push_posts_off_the_news",
    ),
    _reading(
        "posts by users who removed the reader are skipped",
        'if "by" in post and not people[post["by"]].can_be_news:',
        'if "by" in post and not people[post["by"]].is_visible:',
        "test_hidden_authors_cannot_push_posts_off_the_news",
    ),
    _reading(
        "hidden posts are skipped on a wall",
        "hidden=list(hidden.values()))",
        "hidden=())",
        "test_hidden_posts_cannot_push_posts_off_a_wall",
    ),
    _reading(
        "posts addressed to the viewer are not skipped on a wall",
        """"to": {"$ne": viewer}, """,
        "",
        "test_an_addressee_sees_a_limited_post_among_hidden_ones",
    ),
    _reading(
        "comments by hidden members are skipped",
        "post=post, without=hidden)",
        "post=post)",
        "test_blocked_members_cannot_push_comments_and_notices_off_the_page",
    ),
    _reading(
        "notices by hidden members are skipped",
        "since=since, without=hidden)",
        "since=since)",
        "test_blocked_members_cannot_push_comments_and_notices_off_the_page",
    ),
    _erasing(
        "a user who joined again is not erased",
        """    if is_member(db, user):
        return False
    posts""",
        "    posts",
        "test_late_tasks_do_not_touch_a_user_who_joined_again",
    ),
    _erasing(
        "a user who joined again keeps their edges",
        "        if not is_member(db, user, session):",
        "        if True:",
        "test_late_tasks_do_not_touch_a_user_who_joined_again",
    ),
    _rule(
        "a name has more than blank characters",
        'seen.strip(" " + BLANKS)',
        "seen.strip()",
        "test_a_name_that_cannot_be_shown_is_refused",
    ),
    _rule(
        "a block hides both members",
        "return self.is_member and not self.is_blocked",
        "return self.is_member",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _rule(
        "members who left are not shown",
        'if user is None or user.get("left_at"):',
        "if user is None:",
        "test_a_members_data_can_be_exported_and_erased",
    ),
    _rule(
        "a post is only visible in its circles",
        'return any(name in author.in_circles for name in post["circles"])',
        "return True",
        "test_special_characters_in_circle_names_are_safe",
    ),
    _rule(
        "news contain no posts from before the current relation",
        'return any(at is not None and at <= post["ts"] for at in since)',
        "return any(at is not None for at in since)",
        "test_uncircling_a_reader_hides_posts_at_once",
    ),
    _reading(
        "posts by muted authors are not in news",
        'return "by" in post and post["by"] not in hidden and rules.is_news(me, post, people[post["by"]])',
        'return "by" in post and rules.is_news(me, post, people[post["by"]])',
        "test_a_muted_author_is_in_no_news_and_notices_but_can_be_read",
    ),
    _reading(
        "a post shows no comments by hidden members",
        'shown = [one for one in post["comments"] if people[one["by"]].is_visible]',
        'shown = list(post["comments"])',
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _posting(
        "members cannot delete posts by others",
        'if found is None or me not in (found["by"], found["to"]):',
        "if found is None:",
        "test_deleting_a_post_deletes_its_comments",
    ),
    _posting(
        "no notice is stored about a post that is hidden from its reader",
        'return not is_hidden and rules.may_see(user["_id"], post, author)',
        "return not is_hidden",
        "test_notices_that_cannot_be_shown_are_not_stored",
    ),
    _posting(
        "no notice is stored about a writer whom its reader muted",
        'or me in user["muted"] or',
        "or",
        "test_notices_that_cannot_be_shown_are_not_stored",
    ),
    _posting(
        "no notice is stored about a writer whom its reader blocked",
        "or not writer.is_visible",
        "",
        "test_notices_that_cannot_be_shown_are_not_stored",
    ),
    _graph(
        "uncircling deletes the notice about the follow",
        'delete_many({**notice, "kind": "circled", "by": me}, session=session)',
        'count_documents({**notice, "kind": "circled", "by": me}, session=session)',
        "test_notices_that_cannot_be_shown_are_not_stored",
    ),
    _loading(
        "imported members get unique handles",
        "free = handle if handle not in taken else",
        "free = handle if True else",
        "test_ids_that_would_have_the_same_handle_are_loaded",
    ),
    _graph(
        "members cannot circle someone who blocked them",
        "    if pair.is_blocked:",
        "    if False:",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _delivery(
        "a large delivery is split into chunks",
        "aggregate(query(limit=limit,",
        "aggregate(query(limit=10**9,",
        "test_a_large_delivery_does_not_delay_small_ones",
    ),
    _delivery(
        "entries that exist are not an error",
        'any(one["code"] != DUPLICATE_KEY for one in',
        "any(True for one in",
        "test_a_repeated_delivery_inserts_nothing_twice",
    ),
    _delivery(
        "entries that too few members have confirmed are an error",
        'details.get("writeConcernErrors") or ',
        "",
        "test_a_delivery_that_too_few_members_confirm_is_not_done",
    ),
    _delivery(
        "a list that was cut off is read in chunks",
        "del lists[max(lists)]",
        "pass",
        "test_posts_of_every_audience_reach_the_right_readers",
    ),
    _delivery(
        "a post to named circles is not delivered to all circles",
        'and post["circles"][0] in (PUBLIC, CIRCLES)',
        "and True",
        "test_posts_of_every_audience_reach_the_right_readers",
    ),
    _delivery(
        "a post is not delivered to later followers",
        'if short is not None and short["latest"] <= post["ts"]:',
        "if short is not None:",
        "test_posts_of_every_audience_reach_the_right_readers",
    ),
    _worker(
        "a member circled while leaving is disconnected later",
        'self._queue.put(body, key=f"disconnect-last-{user}", delay_seconds=self._settle_seconds)',
        "pass",
        "tests/systems/social/test_network.py::test_a_member_circled_while_leaving_is_not_counted",
    ),
    _worker(
        "a post that cannot be delivered fails alone",
        """        except Exception:
            return self._handle_each(tasks)
        counts: Counter""",
        """        except ZeroDivisionError:
            return self._handle_each(tasks)
        counts: Counter""",
        "test_a_post_that_cannot_be_delivered_does_not_delay_others",
    ),
    _rule(
        "a visitor does not match a post without an addressee",
        "(viewer is not None and viewer in (post",
        "(viewer in (post",
        "test_a_post_for_all_circles_is_for_nobody_else",
    ),
    _rule(
        "a post for all circles is only visible to people in one of them",
        "return author.in_circles_since is not None",
        "return True",
        "test_a_post_for_all_circles_is_for_nobody_else",
    ),
    _rule("actions per minute are limited", 'if rate["count"] >= most:', "if False:", "test_a_flood_is_bounded"),
    _rule(
        "a name is printable",
        'if not seen.strip(" " + BLANKS) or not seen.isprintable():',
        "if not seen.strip():",
        "test_a_name_that_cannot_be_shown_is_refused",
    ),
    _rule(
        "a post is addressed to existing circles",
        "        if one not in mine:",
        "        if False:",
        "test_a_post_that_breaks_a_rule_is_refused",
    ),
    _reading(
        "the wall of a blocked member is empty",
        "return people[owner].is_visible and rules",
        "return rules",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _reading(
        "comments by hidden members are not listed",
        'return [one for one in found if people[one["by"]].is_visible]',
        "return found",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _reading(
        "mentions of hidden members are not shown",
        'for one in post["mentions"] if people[one].is_visible]',
        'for one in post["mentions"]]',
        "test_a_post_for_all_circles_is_for_nobody_else",
    ),
    _reading(
        "a notice about a hidden post is not shown",
        'return about is not None and rules.may_see(me, about, people[about["by"]])',
        "return about is not None",
        "test_a_mention_notifies_members_who_may_see_the_post",
    ),
    _reading(
        "a notice about an ended follow is not shown",
        'return bool(actor.in_circles_since == notice["ts"])',
        "return True",
        "test_a_notice_about_an_ended_follow_is_not_shown",
    ),
    _reading(
        "notices by muted members are not shown",
        'if not actor.is_visible or notice["muted"]:',
        "if not actor.is_visible:",
        "test_a_muted_author_is_in_no_news_and_notices_but_can_be_read",
    ),
    _posting(
        "members cannot delete comments by others",
        'me not in (found["by"], post["by"])',
        "False",
        "test_only_its_writer_and_the_posts_author_delete_a_comment",
    ),
    _posting(
        "members cannot write to someone they blocked",
        "if Pair(db, me, to, session).is_blocked:",
        "if False:",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _loading(
        "imported followers of a merged author get merged posts",
        'if "merging" in other and other["_id"] not in',
        'if False and other["_id"] not in',
        "test_an_imported_follower_of_a_merged_author_sees_their_posts",
    ),
    _graph(
        "new followers of a merged author get merged posts",
        'if "merging" in theirs:',
        "if False:",
        "tests/systems/social/test_delivery.py::test_merged_posts_appear_in_news_like_delivered_ones",
    ),
    _posts(
        "a written post is returned without reading it again",
        "if made in written:",
        "if False:",
        "test_a_post_is_returned_even_if_its_author_leaves_meanwhile",
    ),
    _people(
        "the viewer of a profile is an id",
        "        check_viewer(viewer)\n        found = get_member",
        "        found = get_member",
        "test_a_profile_shows_the_relation_to_the_viewer",
    ),
    _export(
        "an export does not show who blocked the member",
        "        if len(known) > 1:",
        "        if True:",
        "test_an_export_has_no_secrets_of_other_members",
    ),
    _photos(
        "a photo whose post is not written yet is kept",
        'if one["metadata"]["created"] < old and',
        "if True and",
        "test_a_job_deletes_photos_of_deleted_posts",
    ),
]
