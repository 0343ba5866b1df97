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
        "a budget without a total is reported",
        '{"is_budget": True, "$expr": wrong}',
        '{"total": {"$ne": None}, "$expr": wrong}',
        "test_problems_equal_those_found_by_adding_up_in_python",
    ),
    _query(
        "a budget of an unfinished run is not checked",
        '{"$match": visible({"_id": {"$gte": ""}})}',
        '{"$match": {"_id": {"$gte": ""}}}',
        "test_problems_equal_those_found_by_adding_up_in_python",
    ),
    _budget(
        "leases never exceed the total budget",
        'left: int = budget["total"] - committed',
        'left: int = budget["total"]',
        "test_a_budget_is_spent_and_never_exceeded",
    ),
    _budget(
        "leases never exceed the daily budget",
        'left = min(left, allowed - (day_committed if budget["day"] == day else 0))',
        "pass",
        "test_a_day_has_its_own_budget",
    ),
    _budget(
        "the rest of an expired lease returns to the budget",
        '        _add_to_budget(db, lease["campaign_id"], lease, session)\n    return 1',
        "        pass\n    return 1",
        "test_the_rest_of_an_expired_lease_returns_to_the_budget",
    ),
    _settle(
        "a beacon counts once",
        "        if beacon.kind in serve:\n            return False\n",
        "",
        "test_many_impressions_are_settled_together",
        "test_a_click_counts_once_pays_by_click_and_leads_to_the_creative",
    ),
    _settle(
        "the first beacon of a serve counts its impression",
        "if IMPRESSION not in serve:",
        "if False:",
        "test_a_click_counts_once_pays_by_click_and_leads_to_the_creative",
    ),
    _settle(
        "an impression is charged to its lease",
        "leases[group.offer.lease_id] += group.from_lease",
        "leases[group.offer.lease_id] += 0",
        "test_an_impression_counts_once_and_costs_its_price",
    ),
    _settle(
        "a blocked budget does not block other campaigns",
        "                separate |= by_campaign\n",
        "                raise Busy\n",
        "tests/systems/ads/test_statistics.py::test_a_blocked_budget_does_not_block_other_campaigns",
    ),
    _settle(
        "a budget that was blocked seconds ago is refused without waiting",
        "if time.monotonic() < self._held_until.get(campaign_id, 0):",
        "if False:",
        "tests/systems/ads/test_statistics.py::test_a_blocked_budget_does_not_block_other_campaigns",
    ),
    _settle(
        "a lease is never charged more than it holds",
        '{"_id": one, "amount": {"$gte": price}}',
        '{"_id": one}',
        "test_an_impression_of_an_empty_lease_is_charged_to_the_budget",
    ),
    _settle(
        "serves that another process settled are read before the next try",
        "            optimistic = False\n",
        "            pass\n",
        "test_beacons_that_another_process_settled_are_not_counted_again",
    ),
    _zone(
        "an ad that matches several keywords is scored by all of them",
        "several |= once & found",
        "pass",
        "tests/systems/ads/test_rules.py::test_ranking_by_keywords_equals_scoring_every_ad",
    ),
    _zone(
        "the order of a large zone excludes ads that cannot be shown",
        "ads = [ad for ad in ads if ad.campaign.can_be_shown(began)]",
        "pass",
        "test_the_order_of_a_large_zone_excludes_ads_that_cannot_be_shown",
    ),
    _zone(
        "ads excluded from the order of a large zone return",
        "self.reorder_by = min(empty, default=math.inf)",
        "pass",
        "test_the_order_of_a_large_zone_excludes_ads_that_cannot_be_shown",
    ),
    _zone(
        "a change that is read late does not undo a newer one",
        "cached is not None and _is_outdated(campaign, cached.document)",
        "False",
        "test_a_change_that_is_read_late_does_not_undo_a_newer_one",
    ),
    _zone(
        "requests for unknown zones drop no zone with ads",
        "if not zone.ads] or",
        "if False] or",
        "test_requests_for_unknown_zones_drop_no_zone_with_ads",
    ),
    _choice(
        "a choice tries few campaigns without money",
        ", may_lease=self._refusals < MOST_REFUSALS",
        "",
        "test_a_choice_tries_few_campaigns_without_money",
    ),
    _choice(
        "cap hits are counted",
        "        self.cap_hits.append(",
        "        (lambda row: None)(",
        "test_cap_hits_are_counted",
    ),
    _choice(
        "a full profile is updated once in a choice",
        "self._profile_is_full = not self._hits_cap(ad, caps)",
        "self._hits_cap(ad, caps)",
        "test_a_full_profile_is_updated_once_in_a_choice",
    ),
    _hits(
        "cap hits that cannot be written are kept",
        "                self._waiting.update(taken)",
        "                pass",
        "test_cap_hits_that_cannot_be_written_are_kept",
    ),
    _network(
        "a campaign that has spent its budget ends",
        'budgets.end_if_spent(db, campaign["_id"], price)',
        "pass",
        "test_a_campaign_ends_when_its_budget_is_spent",
    ),
    _page(
        "the ads of a member's campaign are limited",
        "        _refuse_too_many_ads(request, network, campaign_id, form)\n",
        "",
        "test_a_members_campaign_has_a_bounded_number_of_ads",
    ),
    _network(
        "a source with many unseen serves gets no more",
        "count = min(count, self._unseen.room(source, now.timestamp()))",
        "pass",
        "test_a_source_that_shows_no_ads_reserves_little_money",
    ),
    _budget(
        "money of unseen serves returns after minutes",
        "min(serve_seconds, PROMISED_SECONDS)",
        "serve_seconds",
        "test_a_source_that_shows_no_ads_reserves_little_money",
    ),
    _bid(
        "a test request gets no bid",
        "return not self.test and allowed",
        "return allowed",
        "test_no_bid_is_204",
    ),
    _bid(
        "a request that excludes our seat gets no bid",
        "and allowed and SEAT not in self.bseat",
        "",
        "test_no_bid_is_204",
    ),
    _bid(
        "a request that allows only some categories gets no bid",
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
        "an opt-out of sale is respected",
        "opted_out = any(",
        "opted_out = False and any(",
        "test_users_without_consent_are_not_remembered",
    ),
    _bid(
        "blocked advertisers get no bid",
        "return any(one.lower() in domains for one in request.badv)",
        "return False",
        "test_no_bid_is_204",
    ),
    _bid(
        "no profile is kept if a law or the user forbids it",
        "return not (forbidden or opted_out)",
        "return True",
        "test_users_without_consent_are_not_remembered",
    ),
    _network(
        "late beacons are refused",
        "if token.at_ms < self._oldest_ms(seconds):",
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
        "an ended campaign cannot be paused or resumed",
        'unless_ended = {"status": {"$ne": "ended"}} if status != "ended" else {}',
        "unless_ended: Document = {}",
        "test_an_ended_campaign_stays_ended",
    ),
    _campaign(
        "the ads of a campaign are limited",
        "        self._refuse_too_many(campaign_id, where)\n",
        "",
        "test_a_campaign_has_a_bounded_number_of_ads",
    ),
    _page(
        "the campaigns of a member are limited",
        "        _refuse_too_many(request, network)\n",
        "",
        "test_a_member_has_a_bounded_number_of_campaigns",
    ),
    _choice(
        "a paused campaign is not shown",
        'if campaign["status"] != "active":',
        "if False:",
        "test_ads_that_may_not_be_shown_are_excluded_and_explained",
    ),
    _choice(
        "a capped ad is counted before it is shown",
        "if caps and not self._count(caps):",
        "if False:",
        "test_a_cap_holds_for_its_window_and_user",
    ),
    _profile(
        "the update that counts an impression checks the cap",
        'return {"$lte": [{"$ifNull": [nth, since]}, since]}',
        'return {"$lte": [since, since]}',
        "test_a_cap_holds_for_its_window_and_user",
    ),
    _token(
        "forged serve ids are refused",
        "if not hmac.compare_digest(signature, self._signature(packed)):",
        "if False:",
        "test_forged_and_late_beacons_are_refused",
    ),
    _page(
        "members see and change only their own campaigns",
        'if campaign.get("owner") != signed_in(request)["_id"] and not is_admin(request):',
        "if False:",
        "test_members_see_their_own_campaigns_only",
    ),
    _page_ads(
        "a page is shown without ads if none can be chosen",
        "except SquinneyError:",
        "except ZeroDivisionError:",
        "test_a_page_is_shown_even_if_no_ad_can_be_chosen",
    ),
    _page_ads(
        "images from other sites are not shown",
        'return creative["kind"] != "image" or str(creative["image"]).startswith("/")',
        "return True",
        "test_ads_with_images_from_other_hosts_are_left_out",
    ),
]
