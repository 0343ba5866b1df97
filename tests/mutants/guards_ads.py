"""The advertising network."""

from __future__ import annotations

from tests.mutants.guard import guards_of

TESTS = "tests/systems/ads/test_network.py"
_budget = guards_of("squinney.ads.budgets", TESTS)
_settle = guards_of("squinney.ads.settling", TESTS)
_network = guards_of("squinney.ads.network", TESTS)
_campaign = guards_of("squinney.ads.campaigns", TESTS)
_choice = guards_of("squinney.ads.choosing.choice", TESTS)
_zone = guards_of("squinney.ads.choosing.zones", TESTS)
_hits = guards_of("squinney.ads.choosing.cap_hits", TESTS)
_profile = guards_of("squinney.ads.choosing.profiles", TESTS)
_token = guards_of("squinney.ads.tokens", TESTS)
_query = guards_of("squinney.ads.queries", "tests/systems/ads/test_audit.py")
_page = guards_of("squinney.ads.surface.web", "tests/api/test_ads_pages.py")
_bid = guards_of("squinney.ads.surface.openrtb", "tests/api/test_ads_openrtb.py")
_page_ads = guards_of("squinney.service.page_ads", "tests/api/test_page_ads.py")

GUARDS = [
    _query(
        "a budget without a limit is told of",
        '{"is_budget": True, "$expr": wrong}',
        '{"total": {"$ne": None}, "$expr": wrong}',
        "test_what_is_told_is_what_one_finds_by_adding_up",
    ),
    _query(
        "a budget that is only begun is not looked at",
        '{"$match": visible({"_id": {"$gte": ""}})}',
        '{"$match": {"_id": {"$gte": ""}}}',
        "test_what_is_told_is_what_one_finds_by_adding_up",
    ),
    _budget(
        "no lease passes the total",
        'left: int = budget["total"] - committed',
        'left: int = budget["total"]',
        "test_a_budget_is_used_up_and_never_passed",
    ),
    _budget(
        "no lease passes the day's budget",
        'left = min(left, allowed - (in_day if budget["day"] == day else 0))',
        "pass",
        "test_a_day_has_its_own_budget",
    ),
    _budget(
        "a lease that lapsed gives its rest back",
        '        _put_back(db, lease["campaign_id"], lease, session)\n    return 1',
        "        pass\n    return 1",
        "test_leases_come_back",
    ),
    _settle(
        "a beacon counts once",
        "        if beacon.kind in serve:\n            return False\n",
        "",
        "test_many_impressions_are_settled_together",
        "test_a_click_counts_once_pays_by_click_and_leads_to_the_creative",
    ),
    _settle(
        "what comes first counts the impression",
        "if IMPRESSION not in serve:",
        "if False:",
        "test_a_click_counts_once_pays_by_click_and_leads_to_the_creative",
    ),
    _settle(
        "a price comes out of its lease",
        "leases[group.offer.lease_id] += group.from_lease",
        "leases[group.offer.lease_id] += 0",
        "test_an_impression_counts_once_and_costs_its_price",
    ),
    _settle(
        "what is held keeps no other campaign waiting",
        "                alone += by_campaign.items()\n",
        "                raise Busy\n",
        "tests/systems/ads/test_statistics.py::test_a_budget_that_others_hold_keeps_no_other_campaign_waiting",
    ),
    _settle(
        "what was held just now is not waited for",
        "if time.monotonic() >= self._held_until[campaign_id]:",
        "if True:",
        "tests/systems/ads/test_statistics.py::test_a_budget_that_others_hold_keeps_no_other_campaign_waiting",
    ),
    _settle(
        "no more than a lease holds is taken out of it",
        '{"_id": one, "amount": {"$gte": price}}',
        '{"_id": one}',
        "test_an_impression_whose_lease_has_too_little_is_paid_by_the_budget",
    ),
    _settle(
        "a serve that another settled is looked at",
        "            bold = False\n",
        "            pass\n",
        "test_beacons_that_another_process_settled_are_told_from_new_ones",
    ),
    _zone(
        "an ad that matches several words is scored by all of them",
        "more |= once & found",
        "pass",
        "tests/systems/ads/test_rules.py::test_words_of_many_ads_yield_the_best_ones_as_scoring_all_would",
    ),
    _zone(
        "large zones leave out what cannot be shown",
        "ads = [ad for ad in ads if ad.held.is_open(began)]",
        "pass",
        "test_a_large_zone_leaves_out_what_cannot_be_shown",
    ),
    _zone(
        "what was left out of a large zone comes back",
        "self.build_by = min(empty, default=math.inf)",
        "pass",
        "test_a_large_zone_leaves_out_what_cannot_be_shown",
    ),
    _zone(
        "unknown zones push no other out",
        "if not zone.ads] or",
        "if False] or",
        "test_unknown_zones_push_no_other_out",
    ),
    _choice(
        "few campaigns without money are asked",
        ", may_ask=self._refusals < MOST_REFUSALS",
        "",
        "test_of_campaigns_without_money_few_are_asked_in_a_choice",
    ),
    _choice(
        "hits of caps are counted",
        "        self.cap_hits.append(",
        "        (lambda row: None)(",
        "test_hits_of_caps_are_counted",
    ),
    _choice(
        "a full profile is asked once",
        "self._is_full = not self._hits_cap(ad, caps)",
        "self._hits_cap(ad, caps)",
        "test_a_full_profile_is_asked_once_in_a_choice",
    ),
    _hits(
        "hits that cannot be written wait",
        "                self._waiting.update(taken)",
        "                pass",
        "test_hits_that_cannot_be_written_wait",
    ),
    _network(
        "a spent campaign ends",
        'budgets.end_if_spent(db, campaign["_id"], price)',
        "pass",
        "test_a_campaign_whose_money_is_spent_ends_by_itself",
    ),
    _page(
        "a member's campaign has so many ads at most",
        "        _refuse_too_many_ads(request, network, campaign_id, form)\n",
        "",
        "test_a_members_campaign_has_a_bounded_number_of_ads",
    ),
    _network(
        "who does not look gets no more",
        "count = min(count, self._unseen.room(source, now.timestamp()))",
        "pass",
        "test_who_asks_for_ads_and_sees_none_holds_back_little_money",
    ),
    _budget(
        "what nobody saw is free again after minutes",
        "min(serve_seconds, PROMISED_SECONDS)",
        "serve_seconds",
        "test_who_asks_for_ads_and_sees_none_holds_back_little_money",
    ),
    _bid(
        "a test is not billed",
        "return not self.test and let_in",
        "return let_in",
        "test_no_bid_is_204",
    ),
    _bid(
        "seats that are not let in make no bid",
        "and let_in and SEAT not in self.bseat",
        "",
        "test_no_bid_is_204",
    ),
    _bid(
        "where only some categories are let in, there is no bid",
        " and not self.acat",
        "",
        "test_no_bid_is_204",
    ),
    _bid(
        "private auctions get no bid",
        " or imp.pmp.private_auction",
        "",
        "test_no_bid_is_204",
    ),
    _bid(
        "an opt-out is heard",
        "opted_out = any(",
        "opted_out = False and any(",
        "test_nobody_is_remembered_who_may_not_be",
    ),
    _bid(
        "blocked advertisers make no bid",
        "return any(one.lower() in above for one in request.badv)",
        "return False",
        "test_no_bid_is_204",
    ),
    _bid(
        "nobody is remembered against the law or their will",
        "return not (asked or opted_out)",
        "return True",
        "test_nobody_is_remembered_who_may_not_be",
    ),
    _network(
        "late beacons are refused",
        "if token.at_ms < self._ago(seconds):",
        "if False:",
        "test_forged_and_late_beacons_are_refused",
    ),
    _network(
        "without consent there is no profile",
        "user=user if consent else None",
        "user=user",
        "test_without_consent_there_is_no_profile",
    ),
    _campaign(
        "what has ended stays ended",
        'still = {"status": {"$ne": "ended"}} if status != "ended" else {}',
        "still: Document = {}",
        "test_what_has_ended_stays_ended",
    ),
    _campaign(
        "a campaign has so many ads at most",
        "        self._refuse_too_many(campaign_id, where)\n",
        "",
        "test_a_campaign_has_a_bounded_number_of_ads",
    ),
    _page(
        "a member has so many campaigns at most",
        "        _refuse_too_many(request, network)\n",
        "",
        "test_a_member_has_a_bounded_number_of_campaigns",
    ),
    _choice(
        "a paused campaign is not shown",
        'if campaign["status"] != "active":',
        "if False:",
        "test_ads_that_may_not_be_shown_are_left_out_and_explained",
    ),
    _choice(
        "a capped ad is counted before it is shown",
        "if caps and not self._count(caps):",
        "if False:",
        "test_a_cap_holds_for_its_window_and_user",
    ),
    _profile(
        "a cap is asked by the update that counts",
        'return {"$lte": [{"$ifNull": [nth, since]}, since]}',
        'return {"$lte": [since, since]}',
        "test_a_cap_holds_for_its_window_and_user",
    ),
    _token(
        "nobody invents a serve",
        "if not hmac.compare_digest(signature, self._signature(packed)):",
        "if False:",
        "test_forged_and_late_beacons_are_refused",
    ),
    _page(
        "members change their own campaigns only",
        'if campaign.get("owner") != signed_in(request)["_id"] and not is_admin(request):',
        "if False:",
        "test_members_see_their_own_campaigns_only",
    ),
    _page_ads(
        "the page comes without ads",
        "except SquinneyError:",
        "except ZeroDivisionError:",
        "test_a_page_comes_also_when_no_ad_can_be_chosen",
    ),
    _page_ads(
        "pictures come from this site",
        'return creative["kind"] != "image" or str(creative["image"]).startswith("/")',
        "return True",
        "test_pictures_from_elsewhere_are_left_out",
    ),
]
