"""What a viewer sees of a member: the profile, and the list of all members."""

from __future__ import annotations

from typing import cast

from squinney import checks
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.social import queries, rules
from squinney.social.documents import Listed, Profile
from squinney.social.members.accounts import check_viewer, get_member, unknown_user
from squinney.social.members.edges import circle_names
from squinney.social.members.relations import VISITOR, relations

FOLLOWERS_COUNTED = 10_000


def read_profile(db: Db, viewer: str | None, user: str) -> Profile:
    """Return a member's profile as the viewer sees it."""
    # guard: the viewer of a profile is an id
    check_viewer(viewer)
    member = get_member(db, checks.identifier(user, "user"))
    edge = queries.EDGE.find_one(db, owner=viewer or VISITOR, other=user) or {}
    # guard: a profile of who blocked the viewer is unknown
    if rules.is_hidden(edge):
        raise unknown_user(user)
    mine = get_member(db, viewer) if viewer is not None else {}
    if "blocked_at" in edge:
        return _blocked_profile(member, user in mine["muted"])
    followers = db["social.edges"].count_documents(queries.FOLLOWERS(owner=user), limit=FOLLOWERS_COUNTED)
    return {
        "id": user,
        "name": member["name"],
        "handle": member["handle"],
        "about": member["profile"].get("about", ""),
        "place": member["profile"].get("place", ""),
        "link": member["profile"].get("link", ""),
        "joined_at": member["joined_at"],
        "followers": followers,
        "circled": circle_names(edge),
        "follows_you": "follower_at" in edge,
        "muted": user in mine.get("muted", ()),
        "blocked": False,
    }


def _blocked_profile(user: Document, muted: bool) -> Profile:
    """Return what the viewer needs to lift the block. It does not tell whether the other blocked the viewer too."""
    nothing = {"about": "", "place": "", "link": "", "followers": 0, "circled": [], "follows_you": False}
    shown = {"id": user["_id"], **{name: user[name] for name in ("name", "handle", "joined_at")}}
    return cast(Profile, {**shown, **nothing, "muted": muted, "blocked": True})


def list_members(db: Db, viewer: str | None, cursor: str | None, limit: int) -> Page[Listed]:
    """Return a page of the members who are visible to the viewer, newest first."""
    check_viewer(viewer)
    members = page(db, queries.MEMBERS, cursor=cursor, limit=limit)
    people = relations(db, viewer, [item["_id"] for item in members.items])
    shown = [item for item in members.items if people[item["_id"]].is_visible]
    return Page([_listed(member, people[member["_id"]]) for member in shown], members.next)


def _listed(user: Document, relation: rules.Relation) -> Listed:
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "about": user["profile"].get("about", ""),
        "circles": list(relation.my_circles),
    }
