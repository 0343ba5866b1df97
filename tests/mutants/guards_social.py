"""The social network."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_rule = guards_of("squinney.social.rules", "tests/systems/social/test_network.py")
_reading = guards_of("squinney.social.reading", "tests/systems/social/test_network.py")
_posting = guards_of("squinney.social.posting", "tests/systems/social/test_network.py")
_graph = guards_of("squinney.social.graph", "tests/systems/social/test_network.py")
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
        "photos have turns of their own",
        "return await PHOTOS.run(partial(_write, request, network, form))",
        "return await run_in_threadpool(_write, request, network, form)",
        "test_a_photo_takes_no_thread_of_the_pages",
    ),
    _threads(
        "the time that a photo takes is not the post's",
        'PHOTOS = Work("posting photos", at_once=2, most_waiting=20, timed=False)',
        'PHOTOS = Work("posting photos", at_once=2, most_waiting=20)',
        "test_a_photo_that_takes_long_leaves_its_post_time",
    ),
    _forms(
        "photos are counted first",
        """    network.count_photo(me["id"])
""",
        "",
        "test_photos_are_counted_before_anybody_looks_at_them",
    ),
    _repair(
        "both sides of an edge are weighed against each other",
        "+= said if is_first else -said",
        "+= 0",
        "test_what_is_torn_is_found_and_mended",
    ),
    _checks(
        "the last part is looked at too",
        """    yield part
""",
        """    return
""",
        "test_what_is_torn_is_found_and_mended",
    ),
    _reading(
        "who is hidden is passed over",
        """            hidden.add(post["by"])""",
        """            pass""",
        "test_nobody_buries_the_news_of_somebody_who_has_set_them_apart",
    ),
    _reading(
        "who is muted is passed over",
        """place_of(cursor), without=hidden)""",
        """place_of(cursor), without=())""",
        "test_nobody_buries_the_news_of_somebody_who_has_set_them_apart",
    ),
    _reading(
        "who lets a reader go is passed over",
        'if "by" in post and not people[post["by"]].may_reach:',
        'if "by" in post and not people[post["by"]].shows:',
        "test_nobody_buries_the_news_of_somebody_who_has_set_them_apart",
    ),
    _reading(
        "what is hidden on a wall is passed over",
        "hidden=list(hidden.values()))",
        "hidden=())",
        "test_nobody_buries_a_wall",
    ),
    _reading(
        "what is passed over on a wall is not for the viewer",
        """"to": {"$ne": viewer}, """,
        "",
        "test_an_addressee_sees_what_is_for_few_beside_what_is_hidden",
    ),
    _reading(
        "comments of the hidden are passed over",
        "post=post, without=hidden)",
        "post=post)",
        "test_nobody_buries_comments_and_notices",
    ),
    _reading(
        "notices of the hidden are passed over",
        "since=since, without=hidden)",
        "since=since)",
        "test_nobody_buries_comments_and_notices",
    ),
    _erasing(
        "who has come back is erased no more",
        """    if is_here(db, user):
        return False
    posts""",
        "    posts",
        "test_who_comes_back_loses_nothing_to_tasks_that_come_late",
    ),
    _erasing(
        "who has come back keeps their people",
        "        if not is_here(db, user, session):",
        "        if True:",
        "test_who_comes_back_loses_nothing_to_tasks_that_come_late",
    ),
    _rule(
        "a name is more than blanks",
        'seen.strip(" " + BLANKS)',
        "seen.strip()",
        "test_a_name_that_cannot_be_shown_is_refused",
    ),
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
        'return "by" in post and post["by"] not in hidden and rules.is_news(me, post, people[post["by"]])',
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
        'if found is None or me not in (found["by"], found["to"]):',
        "if found is None:",
        "test_a_deleted_post_takes_its_comments_along",
    ),
    _posting(
        "nobody is told of a post that is hidden from them",
        'return not is_apart and rules.may_see(user["_id"], post, author)',
        "return not is_apart",
        "test_nobody_buries_what_somebody_is_told",
    ),
    _posting(
        "nobody is told what those write whom they have muted",
        'or me in user["muted"] or',
        "or",
        "test_nobody_buries_what_somebody_is_told",
    ),
    _posting(
        "nobody is told what those write whom they have blocked",
        "or not writer.shows",
        "",
        "test_nobody_buries_what_somebody_is_told",
    ),
    _graph(
        "who is let go is no longer told of it",
        'delete_many({**notice, "kind": "circled", "by": me}, session=session)',
        'count_documents({**notice, "kind": "circled", "by": me}, session=session)',
        "test_nobody_buries_what_somebody_is_told",
    ),
    _loading(
        "each has a handle of their own",
        "free = handle if handle not in taken else",
        "free = handle if True else",
        "test_ids_that_would_have_the_same_handle_are_loaded",
    ),
    _graph(
        "nobody circles who has blocked them",
        "    if pair.is_blocked:",
        "    if False:",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _delivery(
        "a large delivery takes turns",
        "aggregate(query(limit=limit,",
        "aggregate(query(limit=10**9,",
        "test_a_large_delivery_takes_turns_with_small_ones",
    ),
    _delivery(
        "a delivery that is there stays",
        'if any(one["code"] != DUPLICATE_KEY for one in',
        "if any(True for one in",
        "test_what_is_delivered_twice_is_there_once",
    ),
    _delivery(
        "a list that was cut is read in turns",
        "del lists[max(lists)]",
        "pass",
        "test_posts_of_every_audience_that_are_delivered_together_reach_whom_they_should",
    ),
    _delivery(
        "who is in another circle does not get it",
        'and post["circles"][0] in (PUBLIC, CIRCLES)',
        "and True",
        "test_posts_of_every_audience_that_are_delivered_together_reach_whom_they_should",
    ),
    _delivery(
        "who came after a post does not get it",
        'if short is not None and short["latest"] <= post["ts"]:',
        "if short is not None:",
        "test_posts_of_every_audience_that_are_delivered_together_reach_whom_they_should",
    ),
    _worker(
        "who is circled while they leave is taken out",
        'self._queue.put(body, key=f"part-last-{user}", delay_seconds=self._settle_seconds)',
        "pass",
        "tests/systems/social/test_network.py::test_who_is_circled_at_the_moment_they_leave_is_counted_nowhere",
    ),
    _worker(
        "a post that cannot be delivered holds nobody up",
        """        except Exception:
            return self._alone(tasks)
        counts: Counter""",
        """        except ZeroDivisionError:
            return self._alone(tasks)
        counts: Counter""",
        "test_a_post_that_cannot_be_delivered_holds_nobody_up",
    ),
    _rule(
        "a visitor is not the addressee of a post to nobody",
        "(viewer is not None and viewer in (post",
        "(viewer in (post",
        "test_a_post_for_all_circles_is_for_nobody_else",
    ),
    _rule(
        "a post for all circles is for those in one",
        "return author.in_since is not None",
        "return True",
        "test_a_post_for_all_circles_is_for_nobody_else",
    ),
    _rule("a flood is bounded", 'if rate["count"] >= most:', "if False:", "test_a_flood_is_bounded"),
    _rule(
        "a name can be seen",
        'if not seen.strip(" " + BLANKS) or not seen.isprintable():',
        "if not seen.strip():",
        "test_a_name_that_cannot_be_shown_is_refused",
    ),
    _rule(
        "a post is for circles that there are",
        "        if one not in mine:",
        "        if False:",
        "test_a_post_that_breaks_a_rule_is_refused",
    ),
    _reading(
        "the wall of somebody blocked is empty",
        "return people[owner].shows and rules",
        "return rules",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _reading(
        "comments of the hidden are in no list",
        'return [one for one in found if people[one["by"]].shows]',
        "return found",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _reading(
        "the hidden are not mentioned",
        'for one in post["mentions"] if people[one].shows]',
        'for one in post["mentions"]]',
        "test_a_post_for_all_circles_is_for_nobody_else",
    ),
    _reading(
        "nobody is told of a post that they may not see",
        'return about is not None and rules.may_see(me, about, people[about["by"]])',
        "return about is not None",
        "test_a_mention_is_told_to_those_who_may_see_the_post",
    ),
    _reading(
        "who follows no more is no news",
        'return bool(actor.in_since == notice["ts"])',
        "return True",
        "test_a_notice_of_an_earlier_time_in_circles_is_not_shown",
    ),
    _reading(
        "the muted tell nothing",
        'if not actor.shows or notice["muted"]:',
        "if not actor.shows:",
        "test_a_muted_author_is_in_no_news_and_notices_but_can_be_read",
    ),
    _posting(
        "nobody deletes another's comment",
        'me not in (found["by"], post["by"])',
        "False",
        "test_only_its_writer_and_the_posts_author_delete_a_comment",
    ),
    _posting(
        "nobody writes to whom they have blocked",
        "if Pair(db, me, to, session).is_blocked:",
        "if False:",
        "test_a_block_hides_both_from_each_other_until_it_is_lifted",
    ),
    _loading(
        "who is loaded as a follower of a merged author gets what is merged",
        'if "merging" in other and other["_id"] not in',
        'if False and other["_id"] not in',
        "test_who_is_loaded_as_a_follower_of_a_merged_author_has_their_posts",
    ),
    _graph(
        "who follows a merged author gets what is merged",
        'if "merging" in theirs:',
        "if False:",
        "tests/systems/social/test_delivery.py::test_merged_posts_come_like_delivered_ones",
    ),
    _posts(
        "a post that was written is answered",
        "if made in written:",
        "if False:",
        "test_who_leaves_while_they_write_is_not_told_that_nothing_was_written",
    ),
    _export(
        "who has blocked somebody is not told by their export",
        "        if len(mine) > 1:",
        "        if True:",
        "test_nobody_takes_along_what_others_keep_to_themselves",
    ),
    _photos(
        "a photo whose post is still to come is kept",
        'if one["metadata"]["created"] < old and',
        "if True and",
        "test_a_photo_goes_after_its_post_however_that_went",
    ),
]
