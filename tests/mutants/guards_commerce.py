"""Guards of carts, checkout, orders and categories."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_GUARDS = "tests/systems/commerce/test_guards.py::"
_FOUND = "tests/explore/test_schedules.py::test_a_bug_that_was_found_does_not_return"

_catalog = guards_of("squinney.commerce.catalog.catalog", "tests/systems/commerce/test_guards.py")
_import = guards_of("squinney.commerce.catalog.imports", "tests/systems/commerce/test_guards.py")
_rule = guards_of("squinney.commerce.carts.rules", "tests/systems/commerce/test_carts.py")
_query = guards_of("squinney.commerce.carts.queries", "tests/systems/commerce/test_carts.py")
_cart = guards_of("squinney.commerce.carts.carts", "tests/systems/commerce/test_carts.py")
_expiry = guards_of("squinney.commerce.carts.expiry", "tests/systems/commerce/test_carts.py")
_checkout = guards_of("squinney.commerce.carts.checkout", "tests/systems/commerce/test_checkout.py")
_repair = guards_of("squinney.commerce.carts.repair", "tests/systems/commerce/test_guards.py")
_order = guards_of("squinney.commerce.orders.orders", "tests/systems/commerce/test_orders.py")
_line = guards_of("squinney.commerce.orders.lines", "tests/systems/commerce/test_orders.py")
_category = guards_of("squinney.commerce.categories.categories", "tests/systems/commerce/test_categories.py")
_tree = guards_of("squinney.commerce.categories.tree", "tests/systems/commerce/test_categories.py")

PRODUCTS = [
    _catalog(
        "a removal deletes the product whose id it notes",
        'guard = {"added_id": product.get("added_id")}',
        "guard: Document = {}",
        "test_a_removal_notes_the_product_that_it_removes",
    ),
    _catalog(
        "the stock notes all removed products",
        '"$slice": -MOST_REMOVED_IDS}',
        '"$slice": -1}',
        "test_a_product_removed_twice_in_the_meantime_is_not_reserved",
    ),
    _catalog(
        "a product keeps its id when it changes",
        '"version": found["version"] + 1, "added_id": added_id}',
        '"version": found["version"] + 1}',
        "test_an_edited_product_is_noted_when_it_is_removed",
    ),
    _catalog(
        "a change does not replace a product that was removed and added again",
        '"version": found["version"], "added_id": added_id, "txn_lock": None}',
        '"version": found["version"], "txn_lock": None}',
        "test_a_change_of_a_product_added_again_in_the_meantime_keeps_it_sellable",
    ),
    _import(
        "an imported product keeps its id when it is replaced",
        '"added_id": {"$ifNull": ["$added_id", product["added_id"]]}}',
        '"added_id": product["added_id"]}',
        "test_an_edited_product_is_noted_when_it_is_removed",
    ),
]
CARTS = [
    _rule(
        "no more units are reserved than are available",
        'guard={taken_from: {"$gte": qty}, **guard}',
        "guard=guard",
        "test_an_addition_without_enough_stock_leaves_the_line_unchanged",
        "tests/systems/commerce/test_checkout.py::test_a_late_success_is_refunded_where_the_goods_are_gone",
    ),
    _rule(
        "units of a removed product are not reserved",
        "shortage(sku, added, product), **guard)",
        "shortage(sku, added, product))",
        _GUARDS + "test_a_product_removed_in_the_meantime_is_not_reserved",
    ),
    _rule(
        "a cart changes only if it still has the version that was read",
        'guard = {"status": found["status"], "version": found["version"]}',
        'guard = {"status": found["status"]}',
        _GUARDS + "test_a_cart_changed_meanwhile_is_planned_anew",
    ),
    _rule(
        "only an active cart changes",
        '    if cart["status"] != "active":\n        raise cart_closed(cart)\n    items',
        "    items",
        "tests/systems/commerce/test_checkout.py::test_a_pending_cart_older_than_every_timeout_keeps_its_goods",
    ),
    _rule(
        "a cart has limits of lines, units and value",
        "if len(lines) > MOST_LINES or qty > MOST_QTY or total(lines) > MOST_TOTAL:",
        "if False:",
        "test_a_refusal_changes_nothing[native-CartLimit-11]",
    ),
    _rule(
        "a cart has one currency",
        'if pricing["currency"] != cart["currency"]:',
        "if False:",
        "test_a_refusal_changes_nothing[native-WrongCurrency-7]",
    ),
    _cart(
        "a cart with a customer is not assigned to another customer",
        '"status": "active", "customer": None, **UNLOCKED}',
        '"status": "active", **UNLOCKED}',
        "test_a_guests_cart_is_claimed_once_and_not_while_it_is_paid_for",
    ),
    _cart(
        "a pending cart is not assigned to a customer",
        '"status": "active", "customer": None, **UNLOCKED}',
        '"customer": None, **UNLOCKED}',
        "test_a_guests_cart_is_claimed_once_and_not_while_it_is_paid_for",
    ),
    _cart(
        "an expired cart is kept at least as long as its idempotency key",
        'if checks.seconds(keep_seconds, "keep_seconds") < KEEP_KEYS_SECONDS:',
        'if checks.seconds(keep_seconds, "keep_seconds") < 0:',
        "test_a_refusal_changes_nothing",
    ),
    _expiry(
        "only an active cart begins to expire",
        '{"_id": cart_id, "status": "active", **UNLOCKED}',
        '{"_id": cart_id, **UNLOCKED}',
        "tests/systems/commerce/test_checkout.py::test_a_pending_cart_older_than_every_timeout_keeps_its_goods",
    ),
    _expiry(
        "a cart that a two-phase run has locked does not expire",
        '{"_id": cart_id, "status": "active", **UNLOCKED}',
        '{"_id": cart_id, "status": "active"}',
        _GUARDS + "test_a_cart_that_a_run_holds_does_not_expire",
    ),
    _expiry(
        "a cart that changed after the query does not expire",
        '        where["last_modified"] = {"$lt": idle_since}\n',
        "        pass\n",
        _GUARDS + "test_a_cart_touched_meanwhile_does_not_expire",
    ),
    _expiry(
        "only a cart that is expiring becomes expired",
        'if cart is None or cart["status"] != "expiring":',
        "if cart is None:",
        _GUARDS + "test_only_an_expiring_cart_becomes_expired",
    ),
    _expiry(
        "a cart whose late payment was captured in the meantime is not forgotten",
        "        ids = _without_payments(db, ids)\n",
        "",
        _FOUND + "[payments, late: settle | forget carts]",
    ),
    _expiry(
        "a cart that cannot expire does not stop the others",
        "except (Conflict, Unavailable) as error:  # one cart",
        "except Unavailable as error:  # one cart",
        "test_a_cart_that_cannot_expire_lets_all_others_go_first",
    ),
    _expiry(
        "a cart that takes too long to expire does not stop the others",
        "except (Conflict, Unavailable) as error:  # one cart",
        "except Conflict as error:  # one cart",
        "test_a_cart_that_takes_too_long_to_expire_does_not_stop_the_others",
    ),
    _expiry(
        "a cart that cannot expire is tried last the next time",
        '            _move_to_end(db, cart["_id"], at)\n',
        "",
        "test_a_cart_that_cannot_expire_lets_all_others_go_first",
    ),
    _query(
        "only reservations of missing or expired carts are returned",
        '        {"$match": {"cart.status": {"$nin": KEEPING_RESERVATIONS}}},\n',
        "",
        "test_orphans_go_back_and_others_stay",
    ),
    _expiry(
        "a cart that a two-phase run has locked is not deleted",
        '"last_modified": {"$lt": before}, **UNLOCKED}',
        '"last_modified": {"$lt": before}}',
        "test_a_cart_that_a_run_holds_is_not_forgotten",
    ),
    _expiry(
        "a cart with an open payment attempt is not deleted",
        "ids = _without_payments(db, ids, FINISHED)",
        "pass",
        "test_expired_carts_are_forgotten_with_their_attempts",
    ),
    _repair(
        "repair changes a stock only if its counts are still those that were read",
        '{"_id": stock["_id"], **found, **UNLOCKED}',
        '{"_id": stock["_id"], **UNLOCKED}',
        "test_repair_sets_no_stock_that_has_changed_since",
    ),
]

CHECKOUT = [
    _checkout(
        "a checkout with another key does not pay for the same cart",
        '        if cart.get("key") != key:\n',
        "        if False:\n",
        "test_the_same_key_gives_the_same_order_and_another_is_refused",
    ),
    _checkout(
        "an empty cart cannot be checked out",
        '        if not cart["items"]:\n',
        "        if False:\n",
        "test_what_cannot_be_checked_out",
    ),
    _checkout(
        "an attempt that was settled in the meantime is not charged",
        '{"_id": payment_id, "state": "started"}, {"$set": {"intent": intent}}',
        '{"_id": payment_id}, {"$set": {"intent": intent}}',
        _GUARDS + "test_no_money_moves_for_an_attempt_that_was_settled_meanwhile",
    ),
    _checkout(
        "an open charge is cancelled at the provider before the cart reopens",
        'if charge.state == "open" and cancel:',
        'if charge.state == "open" and False:',
        "test_a_timeout_is_cancelled_before_the_cart_reopens_and_a_late_capture_fails",
    ),
    _checkout(
        "an attempt completes a pending cart only if the cart waits for this attempt",
        'cart["status"] == "pending" and cart["attempt"] == payment["attempt"]',
        'cart["status"] == "pending"',
        _GUARDS + "test_a_late_success_does_not_complete_a_cart_that_waits_for_another_attempt",
    ),
    _checkout(
        "a reopened cart is sold only if its items are those that were paid for",
        'cart["status"] == "active" and cart["items"] == payment["items"]',
        'cart["status"] == "active"',
        _GUARDS + "test_a_late_success_for_a_cart_that_holds_something_else_is_refunded",
    ),
    _checkout(
        "a payment is refunded if the goods are no longer available",
        "        except InadequateInventory:\n            self._transactions.run(",
        "        except ZeroDivisionError:\n            self._transactions.run(",
        "test_a_late_success_is_refunded_where_the_goods_are_gone",
    ),
    _checkout(
        "a payment is completed once",
        'if found["state"] in ("captured", "refunding", "refunded"):',
        "if False:",
        "tests/systems/commerce/test_races.py::test_an_attempt_settled_from_many_sides_is_settled_for_all",
    ),
    _checkout(
        "the gateway that charged the payment refunds it",
        "self._orders.refund(payment, payments=self._gateway)",
        "self._orders.refund(payment)",
        "test_a_double_charge_is_refunded_also_where_the_orders_have_no_gateway",
    ),
    _checkout(
        "an attempt stays open if the provider does not respond",
        "charge = self._gateway.cancel(attempt)\n        except Exception as error:",
        "charge = self._gateway.cancel(attempt)\n        except KeyError as error:",
        "test_a_silent_provider_leaves_the_attempt_open",
    ),
]

ORDERS = [
    _line(
        "the lines of a paid order do not change",
        'EDITABLE = {"status": "placed", "payment_id": None,',
        'EDITABLE = {"status": "placed",',
        "test_the_lines_of_a_paid_order_do_not_change",
    ),
    _line(
        "a cancelled order does not change",
        'EDITABLE = {"status": "placed", "payment_id": None,',
        'EDITABLE = {"payment_id": None,',
        "test_cancelled_orders_can_be_deleted",
    ),
    _line(
        "an order has limits of lines, units and value",
        '**EDITABLE, **self.guard, "$expr": _within_limits(self.lines)}',
        "**EDITABLE, **self.guard}",
        "test_what_an_order_refuses",
    ),
    _line(
        "only an existing line of an order changes",
        '{"sku": sku, "qty": qty}, guard={"items.sku": sku})',
        '{"sku": sku, "qty": qty})',
        "test_what_an_order_refuses",
    ),
    _line(
        "an order has one currency",
        'guard={"currency": currency} if currency else {})',
        ")",
        "test_what_an_order_refuses",
    ),
    _line(
        "the server does not evaluate a SKU as an expression",
        'return {"$literal": sku}',
        "return sku",
        "test_a_sku_that_looks_like_an_expression_is_a_sku",
    ),
    _line(
        "the lines and the total of an order change together",
        '"total": _sum_of(self.lines), ',
        "",
        "test_lines_and_total_change_together",
    ),
    _order(
        "an order is created only for a captured payment",
        'if payment is None or payment["state"] != "captured":',
        "if payment is None:",
        _GUARDS + "test_no_order_is_made_of_a_payment_that_was_given_back",
    ),
    _order(
        "an order is created only if its payment was not refunded in the meantime",
        'guard={"state": "captured"}, refused=Stale)',
        "refused=Stale)",
        _FOUND + "[orders, lost: from cart | refund, delete]",
    ),
    _order(
        "a lost order is created before its refund is recorded",
        'find = self.from_cart if payment["state"] == "captured" else self.get',
        "find = self.get",
        _FOUND + "[orders, lost: from cart | settle]",
    ),
    _order(
        "a payment is refunded only if a refund is due",
        'if payment["state"] not in ("refunding", "refunded"):',
        "if False:",
        "tests/systems/commerce/test_checkout.py::test_a_payment_is_refunded_only_if_a_refund_is_due",
    ),
    _order(
        "an order is cancelled once",
        '        if order["status"] != "placed":\n            return Plan([])\n',
        "",
        "tests/systems/commerce/test_races.py::test_an_order_cancelled_from_many_sides_is_cancelled_for_all",
    ),
]

CATEGORIES = [
    _tree(
        "two concurrent changes of the tree conflict",
        '        db["category_tree"].update_one({"_id": TREE_ID}, {"$inc": {"version": 1}}, upsert=True, session=session)\n',
        "",
        _GUARDS + "test_two_moves_that_overlap_make_no_cycle",
    ),
    _category(
        "a category does not move below itself",
        '            CATEGORY_TREE.refuse_cycle(node["_id"], above)\n',
        "",
        "test_a_refusal_changes_nothing[Cycle-0]",
    ),
    _category(
        "the tree has a maximum depth",
        "if ancestors >= self._most_depth:",
        "if False:",
        "test_the_tree_has_a_maximum_depth",
    ),
    _category(
        "a category with children is not removed",
        'if children == "refuse":',
        "if False:",
        "test_removal_refuses_lifts_or_cascades",
    ),
    _category(
        "the siblings of a moved category are renumbered without a gap",
        '        self._shift(node["parent"], {"$gt": node["position"]}, -1, session)\n        count',
        "        count",
        "test_a_category_moves_among_its_siblings",
    ),
    _category(
        "breadcrumbs change when a category changes",
        '        self._db["categories"].update_many(CATEGORY_TREE.below(node["_id"]), rewritten, session=session)\n',
        "",
        "test_names_and_slugs_change_in_every_breadcrumb",
    ),
    _tree(
        "an editor of a product is notified when its category is removed",
        '{"$pull": {"category_ids": {"$in": category_ids}}, "$inc": {"version": 1}}',
        '{"$pull": {"category_ids": {"$in": category_ids}}}',
        "test_an_editor_of_a_product_gets_a_conflict_when_its_category_is_removed",
    ),
]

GUARDS = [*PRODUCTS, *CARTS, *CHECKOUT, *ORDERS, *CATEGORIES]
