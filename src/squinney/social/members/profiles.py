"""What a viewer sees of a member: the profile, and the list of all members."""

from __future__ import annotations

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
    found = get_member(db, checks.identifier(user, "user"))
    edge = queries.EDGE.find_one(db, owner=viewer or VISITOR, other=user) or {}
    if "blocked_by_at" in edge:
        raise unknown_user(user)
    mine = get_member(db, viewer) if viewer is not None else {}
    followers = db["social.edges"].count_documents(queries.FOLLOWERS(owner=user), limit=FOLLOWERS_COUNTED)
    return {
        "id": user,
        "name": found["name"],
        "handle": found["handle"],
        "about": found["profile"].get("about", ""),
        "place": found["profile"].get("place", ""),
        "link": found["profile"].get("link", ""),
        "joined_at": found["joined_at"],
        "followers": followers,
        "circled": circle_names(edge),
        "follows_you": "follower_at" in edge,
        "muted": user in mine.get("muted", ()),
        "blocked": "blocked_at" in edge,
    }


def list_members(db: Db, viewer: str | None, cursor: str | None, limit: int) -> Page[Listed]:
    """Return a page of the members who are visible to the viewer, newest first."""
    check_viewer(viewer)
    members = page(db, queries.MEMBERS, cursor=cursor, limit=limit)
    people = relations(db, viewer, [item["_id"] for item in members.items])
    shown = [item for item in members.items if people[item["_id"]].is_visible]
    return Page([_listed(one, people[one["_id"]]) for one in shown], members.next)


def _listed(user: Document, relation: rules.Relation) -> Listed:
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "about": user["profile"].get("about", ""),
        "circles": list(relation.my_circles),
    }
