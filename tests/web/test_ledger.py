"""The ledger, in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def open_account(page: Page, name: str, amount: str) -> None:
    """Open an account with the form."""
    page.goto("/ledger")
    form = page.locator("form[action='/ledger/accounts']")
    form.get_by_label("Name").fill(name)
    if amount:
        form.get_by_label("Opening balance").fill(amount)
    form.get_by_role("button", name="Open it").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def transfer(page: Page, src: str, dst: str, amount: str) -> None:
    """Transfer money with the form."""
    page.goto("/ledger")
    form = page.locator("form[action='/ledger/transfers']")
    for label, name in (("From", src), ("To", dst)):
        option = form.get_by_label(label).locator("option", has_text=name)
        form.get_by_label(label).select_option(option.get_attribute("value"))
    form.get_by_label("Amount").fill(amount)
    form.get_by_label("Memo").fill("for <b>cake</b>")
    form.get_by_role("button", name="Move it").click()


def test_home_shows_every_system_with_live_numbers(page: Page) -> None:
    page.goto("/")
    card = page.locator(".card", has_text="Ledger")
    expect(card.locator(".card-figures strong").first).to_have_text(re.compile(r"\d+"))
    card.get_by_role("link", name="Ledger").click()
    expect(page.get_by_role("heading", name="Ledger", exact=True)).to_be_visible()


def test_a_visitor_opens_two_accounts_transfers_money_and_reads_the_statement(admin: Page) -> None:
    open_account(admin, "Alice of the test", "100.50")
    open_account(admin, "Bob of the test", "0")
    transfer(admin, "Alice of the test", "Bob of the test", "40.25")
    expect(admin.locator("dd")).to_have_text("60.25 EUR")
    expect(admin.locator("tbody tr").first).to_contain_text("-40.25 EUR")
    expect(admin.locator("tbody tr").first).to_contain_text("for <b>cake</b>")
    transfer(admin, "Alice of the test", "Bob of the test", "1000")
    expect(admin.get_by_role("alert")).to_have_text("the balance of the account is too low")
    expect(admin.get_by_label("Amount")).to_have_value("1000")


def test_a_member_opens_accounts_at_zero_and_transfers_from_their_own_only(page: Page) -> None:
    open_account(page, "Mine", "")
    page.goto("/ledger")
    expect(page.get_by_role("region", name="Accounts").locator("tbody tr")).to_have_count(
        2
    )  # one was a gift of the demo
    expect(page.get_by_label("Opening balance")).to_have_count(0)
    expect(page.get_by_label("From").locator("option")).to_have_count(3)


def test_an_account_is_closed_only_when_it_is_empty(admin: Page) -> None:
    open_account(admin, "Closing account", "1")
    admin.get_by_role("button", name="Close this account").click()
    admin.get_by_role("button", name="Yes: close this account").click()
    expect(admin.get_by_role("alert")).to_contain_text("only an account with a balance of zero")
    open_account(admin, "Empty account", "0")
    admin.get_by_role("button", name="Close this account").click()
    admin.get_by_role("button", name="Yes: close this account").click()
    expect(admin.locator(".tag")).to_contain_text("closed")


def test_a_form_submitted_twice_transfers_once(admin: Page) -> None:
    open_account(admin, "Double source", "10")
    open_account(admin, "Double target", "0")
    admin.goto("/ledger")
    form = admin.locator("form[action='/ledger/transfers']")
    for label, name in (("From", "Double source"), ("To", "Double target")):
        option = form.get_by_label(label).locator("option", has_text=name)
        form.get_by_label(label).select_option(option.get_attribute("value"))
    form.get_by_label("Amount").fill("3")
    sent = form.evaluate("form => new URLSearchParams(new FormData(form)).toString()")
    for _ in range(2):
        answer = admin.request.post(
            "/ledger/transfers",
            data=sent,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert answer.ok, answer.text()
    admin.goto("/ledger")
    expect(admin.locator("tbody tr", has_text="Double source")).to_contain_text("7.00 EUR")


def test_pages_fit_a_phone_and_both_colour_schemes(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/", "/ledger", "/nowhere"):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            shade = sum(int(part) for part in re.findall(r"\d+", ground)[:3])
            assert (shade > 600) == (scheme == "light"), (path, scheme, ground)


def test_an_unknown_page_shows_not_found(page: Page) -> None:
    response = page.goto("/ledger/nobody")
    assert response
    assert response.status == 404
    expect(page.get_by_role("heading")).to_have_text("there is no account nobody")
