"""HTTP routes of the social network, for trusted servers: each request names the member for whom it acts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from squinney.http.cursors import Cursor, SignCursor
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.error_responses import responses
from squinney.http.response_models import signed_page
from squinney.http.routes import SuffixRoute
from squinney.social import AlreadyJoined, Blocked, SocialLimit, TooFast, UnknownPost, UnknownUser
from squinney.social import Network as SocialNetwork
from squinney.social.surface.models import (
    Circles,
    Comments,
    Done,
    InCircle,
    Made,
    NewComment,
    NewMember,
    NewName,
    NewPost,
    NewProfile,
    Notices,
    Other,
    People,
    PersonModel,
    PostModel,
    Posts,
    ProfileModel,
    Unseen,
    UserModel,
)
from squinney.social.surface.pages import exported
from squinney.transactions import Busy, KeyReused

router = APIRouter(prefix="/api/social", tags=["social"], route_class=SuffixRoute)

Network = Annotated[SocialNetwork, Depends(service("social", "network", SocialNetwork))]
Limit = Annotated[int, Query(ge=1, le=100)]
Viewer = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="The member who reads; by default, a visitor who is not a member"),
]
Me = Annotated[str, Query(min_length=1, max_length=200, description="The member for whom the request acts")]


# ---- people ----


@router.post("/members", status_code=201, response_model=UserModel, responses=responses(AlreadyJoined, Busy))
def join(network: Network, body: NewMember) -> Any:
    """Create a member."""
    return network.join(body.name, user=body.user)


@router.get("/members/{me:path}/export", responses=responses(UnknownUser), response_class=Response)
def export(network: Network, me: str) -> Response:
    """Export all stored documents about a member, one JSON document per line."""
    return exported(network, me)


@router.put("/members/{me:path}/name", response_model=UserModel, responses=responses(UnknownUser))
def rename(network: Network, me: str, body: NewName) -> Any:
    """Change a member's name."""
    return network.rename(me, body.name)


@router.put("/members/{me:path}/profile", response_model=UserModel, responses=responses(UnknownUser))
def edit_profile(network: Network, me: str, body: NewProfile) -> Any:
    """Replace a member's profile."""
    return network.edit_profile(me, body.model_dump(exclude_unset=True))


@router.get("/members/{user:path}/profile", response_model=ProfileModel, responses=responses(UnknownUser))
def get_profile(network: Network, user: str, viewer: Viewer = None) -> Any:
    """Return a member's profile, as the viewer sees it."""
    return network.profile(viewer, user)


@router.get("/handles/{handle}", response_model=PersonModel, responses=responses(UnknownUser))
def find(network: Network, handle: str) -> Any:
    """Return the member with this handle."""
    return network.profile(None, network.find(handle))


# ---- circles and blocks ----


@router.post(
    "/members/{me:path}/circle",
    response_model=Circles,
    responses=responses(UnknownUser, Blocked, SocialLimit, TooFast, Busy),
)
def circle(network: Network, me: str, body: InCircle) -> Any:
    """Put another member into a circle, and return the circles that now contain them."""
    return {"circles": network.circle(me, body.other, body.circle)}


@router.post("/members/{me:path}/uncircle", response_model=Circles, responses=responses(UnknownUser, Busy))
def uncircle(network: Network, me: str, body: InCircle) -> Any:
    """Take another member out of a circle, and return the circles that still contain them."""
    return {"circles": network.uncircle(me, body.other, body.circle)}


@router.post("/members/{me:path}/block", response_model=Done, responses=responses(UnknownUser, SocialLimit, Busy))
def block(network: Network, me: str, body: Other) -> Any:
    """Block another member: both are hidden from each other."""
    network.block(me, body.other)
    return {}


@router.post("/members/{me:path}/unblock", response_model=Done, responses=responses(UnknownUser, Busy))
def unblock(network: Network, me: str, body: Other) -> Any:
    """Lift the block of another member."""
    network.unblock(me, body.other)
    return {}


@router.post("/members/{me:path}/mute", response_model=Done, responses=responses(UnknownUser, SocialLimit))
def mute(network: Network, me: str, body: Other) -> Any:
    """Mute another member: their posts and notices are left out of the lists."""
    network.mute(me, body.other)
    return {}


@router.post("/members/{me:path}/unmute", response_model=Done, responses=responses(UnknownUser))
def unmute(network: Network, me: str, body: Other) -> Any:
    """Unmute another member."""
    network.unmute(me, body.other)
    return {}


@router.get("/members/{me:path}/circles", response_model=People, responses=responses(UnknownUser))
def list_circled(network: Network, sign: SignCursor, me: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the people in a member's circles, latest first."""
    return signed_page(network.circles(me, cursor=cursor, limit=limit), sign)


@router.get("/members/{me:path}/followers", response_model=People, responses=responses(UnknownUser))
def list_followers(network: Network, sign: SignCursor, me: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List a member's followers, latest first."""
    return signed_page(network.followers(me, cursor=cursor, limit=limit), sign)


@router.get("/members/{me:path}/blocked", response_model=People, responses=responses(UnknownUser))
def list_blocked(network: Network, sign: SignCursor, me: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the people whom a member has blocked, latest first."""
    return signed_page(network.blocked(me, cursor=cursor, limit=limit), sign)


# ---- reading ----


@router.get("/members/{me:path}/news", response_model=Posts, responses=responses(UnknownUser))
def read_news(network: Network, sign: SignCursor, me: str, cursor: Cursor = None, limit: Limit = 20) -> Any:
    """List a member's news, newest first."""
    return signed_page(network.news(me, cursor=cursor, limit=limit), sign)


@router.get("/members/{me:path}/incoming", response_model=Posts, responses=responses(UnknownUser))
def read_incoming(network: Network, sign: SignCursor, me: str, cursor: Cursor = None, limit: Limit = 20) -> Any:
    """List the posts that are addressed to a member, newest first."""
    return signed_page(network.incoming(me, cursor=cursor, limit=limit), sign)


@router.get("/members/{owner:path}/wall", response_model=Posts, responses=responses(UnknownUser))
def read_wall(
    network: Network, sign: SignCursor, owner: str, viewer: Viewer = None, cursor: Cursor = None, limit: Limit = 20
) -> Any:
    """List the posts by and to a member that the viewer may see, newest first."""
    return signed_page(network.wall(viewer, owner, cursor=cursor, limit=limit), sign)


@router.get("/members/{me:path}/notices", response_model=Notices, responses=responses(UnknownUser))
def read_notices(network: Network, sign: SignCursor, me: str, cursor: Cursor = None, limit: Limit = 20) -> Any:
    """List a member's notices, newest first."""
    return signed_page(network.notices(me, cursor=cursor, limit=limit), sign)


@router.get("/members/{me:path}/unseen", response_model=Unseen, responses=responses(UnknownUser))
def count_unseen(network: Network, me: str) -> Any:
    """Count the notices that a member has not seen yet."""
    return {"unseen": network.unseen(me)}


@router.post("/members/{me:path}/seen", response_model=Done, responses=responses(UnknownUser))
def see_notices(network: Network, me: str) -> Any:
    """Mark all notices of a member as seen."""
    network.see_notices(me)
    return {}


# ---- one member; after the lists, because ids may contain slashes ----


@router.get("/members/{me:path}", response_model=UserModel, responses=responses(UnknownUser))
def get_member(network: Network, me: str) -> Any:
    """Return a member's own account."""
    return network.get(me)


@router.delete("/members/{me:path}", response_model=Done, responses=responses(UnknownUser))
def leave(network: Network, me: str, erase: bool = False) -> Any:
    """Remove a member from the network; with `erase`, also delete everything about them."""
    (network.erase if erase else network.leave)(me)
    return {}


# ---- posts ----


@router.post(
    "/posts",
    status_code=201,
    response_model=PostModel,
    responses=responses(UnknownUser, Blocked, TooFast, Busy, KeyReused),
)
def write_post(network: Network, body: NewPost, key: IdempotencyKey) -> Any:
    """Write a post."""
    return network.post(body.me, body.type, body.detail, list(body.circles), body.to, key=key)


@router.get("/posts/{post}", response_model=PostModel, responses=responses(UnknownPost, UnknownUser))
def get_post(network: Network, post: str, viewer: Viewer = None) -> Any:
    """Return one post."""
    return network.get_post(viewer, post)


@router.delete("/posts/{post}", response_model=Done, responses=responses(UnknownPost, UnknownUser, Busy))
def delete_post(network: Network, post: str, me: Me) -> Any:
    """Delete a post by the member, or addressed to the member."""
    network.delete_post(me, post)
    return {}


@router.post(
    "/posts/{post}/comments",
    status_code=201,
    response_model=Made,
    responses=responses(UnknownPost, UnknownUser, TooFast, Busy, KeyReused),
)
def write_comment(network: Network, post: str, body: NewComment, key: IdempotencyKey) -> Any:
    """Comment on a post."""
    return {"id": network.comment(body.me, post, body.text, key=key)}


@router.get("/posts/{post}/comments", response_model=Comments, responses=responses(UnknownPost, UnknownUser))
def read_comments(
    network: Network, sign: SignCursor, post: str, viewer: Viewer = None, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List a post's comments, oldest first."""
    return signed_page(network.comments(viewer, post, cursor=cursor, limit=limit), sign)


@router.delete("/comments/{comment}", response_model=Done, responses=responses(UnknownPost, UnknownUser, Busy))
def delete_comment(network: Network, comment: str, me: Me) -> Any:
    """Delete a comment by the member, or on a post by the member."""
    network.delete_comment(me, comment)
    return {}
