"""Sign-up, sign-in and sign-out, and the admin pages, in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.web.conftest import PASSWORD, sign_up


def test_a_person_signs_up_out_and_in_again(stranger: Page) -> None:
    stranger.goto("/ledger")
    stranger.get_by_role("link", name="Sign up").first.click()
    sign_up(stranger, "grace")
    expect(stranger.get_by_text("Welcome, Member of the test")).to_be_visible()
    stranger.get_by_role("button", name="Sign out").click()
    expect(stranger.get_by_text("You have signed out.")).to_be_visible()
    stranger.goto("/ledger")
    stranger.get_by_role("link", name="Sign in", exact=True).click()
    stranger.get_by_label("Login").fill("grace")
    stranger.get_by_label("Password").fill("not the password")
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_role("alert")).to_have_text("the login or the password is wrong")
    stranger.get_by_label("Password").fill(PASSWORD)
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger).to_have_url(re.compile("/ledger$"))
    cookie = next(cookie for cookie in stranger.context.cookies() if cookie["name"] == "squinney")
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    assert "squinney=" not in stranger.evaluate("document.cookie")


def test_a_stranger_who_writes_is_redirected_to_sign_in(stranger: Page) -> None:
    stranger.goto("/shop/orders")
    expect(stranger.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_admin_makes_a_key_and_revokes_it(admin: Page) -> None:
    admin.goto("/admin/keys")
    admin.get_by_label("Name").fill("browser's key")
    admin.get_by_label("ledger:read").check()
    admin.get_by_role("button", name="Create key").click()
    key = admin.locator("#new-key").inner_text()
    read = {"Authorization": f"Bearer {key}"}
    assert admin.request.get("/api/ledger/accounts", headers=read).ok
    admin.get_by_role("button", name="Revoke browser's key").click()
    admin.get_by_role("button", name="Keep it").click()
    expect(admin.get_by_role("dialog")).to_have_count(0)
    admin.get_by_role("button", name="Revoke browser's key").click()
    admin.get_by_role("button", name="Yes: revoke").click()
    expect(admin.get_by_role("status")).to_contain_text("is revoked")
    assert admin.request.get("/api/ledger/accounts", headers=read).status == 401


def test_the_admin_runs_a_job_and_repairs(admin: Page) -> None:
    admin.goto("/admin/jobs")
    admin.get_by_role("button", name="Run now: end-abandoned-transactions").click()
    expect(admin.get_by_role("status")).to_contain_text("end-abandoned-transactions")
    admin.get_by_label("Admin").get_by_role("link", name="Problems").click()
    admin.get_by_role("button", name="Repair what can be repaired").click()
    expect(admin.get_by_role("status")).to_contain_text("Repaired")


def test_the_admin_changes_a_role(admin: Page) -> None:
    admin.goto("/admin/people")
    expect(admin.locator("tr", has_text="boss")).to_contain_text("(you)")


def test_a_member_sees_no_admin_pages(page: Page) -> None:
    response = page.goto("/admin")
    assert response
    assert response.status == 403
    expect(page.get_by_role("heading")).to_have_text("this requires the role admin")
