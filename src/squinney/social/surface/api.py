"""The social network over HTTP, for trusted servers: a request says in whose name it acts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response, StreamingResponse

from squinney.http.answers import signed_page
from squinney.http.cursors import Cursor, Signing
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.problems import responses
from squinney.http.routes import LastPartRoute
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
from squinney.transactions import Busy, KeyReused

router = APIRouter(prefix="/api/social", tags=["social"], route_class=LastPartRoute)

Network = Annotated[SocialNetwork, Depends(service("social", "network", SocialNetwork))]
Limit = Annotated[int, Query(ge=1, le=100)]
Viewer = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Who looks; without one, a visitor who is no member")
]
Me = Annotated[str, Query(min_length=1, max_length=200, description="In whose name")]


# ---- people ----


@router.post("/members", status_code=201, response_model=UserModel, responses=responses(AlreadyJoined, Busy))
def join(network: Network, body: NewMember) -> Any:
    """Become a member."""
    return network.join(body.name, user=body.user)


@router.get("/members/{me:path}/export", responses=responses(UnknownUser), response_class=Response)
def export(network: Network, me: str) -> Response:
    """Everything that is kept of a person, a JSON document on each line."""
    return StreamingResponse(_lines(network.export(me)), media_type="application/x-ndjson")


def _lines(documents: Iterator[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(one, default=str, ensure_ascii=False) + "\n" for one in documents)


@router.put("/members/{me:path}/name", response_model=UserModel, responses=responses(UnknownUser))
def rename(network: Network, me: str, body: NewName) -> Any:
    """Take another name."""
    return network.rename(me, body.name)


@router.put("/members/{me:path}/profile", response_model=UserModel, responses=responses(UnknownUser))
def edit_profile(network: Network, me: str, body: NewProfile) -> Any:
    """Say something about oneself."""
    return network.edit_profile(me, body.model_dump(exclude_unset=True))


@router.get("/members/{user:path}/profile", response_model=ProfileModel, responses=responses(UnknownUser))
def get_profile(network: Network, user: str, viewer: Viewer = None) -> Any:
    """Somebody, as a viewer sees them."""
    return network.profile(viewer, user)


@router.get("/handles/{handle}", response_model=PersonModel, responses=responses(UnknownUser))
def find(network: Network, handle: str) -> Any:
    """Who has that handle."""
    return network.profile(None, network.find(handle))


# ---- circles and blocks ----


@router.post(
    "/members/{me:path}/circle",
    response_model=Circles,
    responses=responses(UnknownUser, Blocked, SocialLimit, TooFast, Busy),
)
def circle(network: Network, me: str, body: InCircle) -> Any:
    """Put somebody into one of my circles."""
    return {"circles": network.circle(me, body.other, body.circle)}


@router.post("/members/{me:path}/uncircle", response_model=Circles, responses=responses(UnknownUser, Busy))
def uncircle(network: Network, me: str, body: InCircle) -> Any:
    """Take somebody out of one of my circles."""
    return {"circles": network.uncircle(me, body.other, body.circle)}


@router.post("/members/{me:path}/block", response_model=Done, responses=responses(UnknownUser, SocialLimit, Busy))
def block(network: Network, me: str, body: Other) -> Any:
    """Neither sees anything of the other from now on."""
    network.block(me, body.other)
    return {}


@router.post("/members/{me:path}/unblock", response_model=Done, responses=responses(UnknownUser, Busy))
def unblock(network: Network, me: str, body: Other) -> Any:
    """Lift my block."""
    network.unblock(me, body.other)
    return {}


@router.post("/members/{me:path}/mute", response_model=Done, responses=responses(UnknownUser, SocialLimit))
def mute(network: Network, me: str, body: Other) -> Any:
    """Have nothing of somebody's in my news."""
    network.mute(me, body.other)
    return {}


@router.post("/members/{me:path}/unmute", response_model=Done, responses=responses(UnknownUser))
def unmute(network: Network, me: str, body: Other) -> Any:
    """Have somebody's posts in my news again."""
    network.unmute(me, body.other)
    return {}


@router.get("/members/{me:path}/circles", response_model=People, responses=responses(UnknownUser))
def list_circled(network: Network, signed: Signing, me: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Those in my circles, the latest first."""
    return signed_page(network.circles(me, cursor=cursor, limit=limit), signed)


@router.get("/members/{me:path}/followers", response_model=People, responses=responses(UnknownUser))
def list_followers(network: Network, signed: Signing, me: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Those who have me in a circle, the latest first."""
    return signed_page(network.followers(me, cursor=cursor, limit=limit), signed)


@router.get("/members/{me:path}/blocked", response_model=People, responses=responses(UnknownUser))
def list_blocked(network: Network, signed: Signing, me: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Those whom I blocked, the latest first."""
    return signed_page(network.blocked(me, cursor=cursor, limit=limit), signed)


# ---- reading ----


@router.get("/members/{me:path}/news", response_model=Posts, responses=responses(UnknownUser))
def read_news(network: Network, signed: Signing, me: str, cursor: Cursor = None, limit: Limit = 20) -> Any:
    """What others let me know, newest first."""
    return signed_page(network.news(me, cursor=cursor, limit=limit), signed)


@router.get("/members/{me:path}/incoming", response_model=Posts, responses=responses(UnknownUser))
def read_incoming(network: Network, signed: Signing, me: str, cursor: Cursor = None, limit: Limit = 20) -> Any:
    """Everything that is addressed to me, newest first."""
    return signed_page(network.incoming(me, cursor=cursor, limit=limit), signed)


@router.get("/members/{owner:path}/wall", response_model=Posts, responses=responses(UnknownUser))
def read_wall(
    network: Network, signed: Signing, owner: str, viewer: Viewer = None, cursor: Cursor = None, limit: Limit = 20
) -> Any:
    """Posts by and to somebody that the viewer may see, newest first."""
    return signed_page(network.wall(viewer, owner, cursor=cursor, limit=limit), signed)


@router.get("/members/{me:path}/notices", response_model=Notices, responses=responses(UnknownUser))
def read_notices(network: Network, signed: Signing, me: str, cursor: Cursor = None, limit: Limit = 20) -> Any:
    """What I was told, newest first."""
    return signed_page(network.notices(me, cursor=cursor, limit=limit), signed)


@router.get("/members/{me:path}/unseen", response_model=Unseen, responses=responses(UnknownUser))
def count_unseen(network: Network, me: str) -> Any:
    """How many notices came since I last looked."""
    return {"unseen": network.unseen(me)}


@router.post("/members/{me:path}/seen", response_model=Done, responses=responses(UnknownUser))
def see_notices(network: Network, me: str) -> Any:
    """Have all notices count as seen."""
    network.see_notices(me)
    return {}


# ---- one member: after the lists, for ids may have slashes ----


@router.get("/members/{me:path}", response_model=UserModel, responses=responses(UnknownUser))
def get_member(network: Network, me: str) -> Any:
    """A member, as they see themselves."""
    return network.get(me)


@router.delete("/members/{me:path}", response_model=Done, responses=responses(UnknownUser))
def leave(network: Network, me: str, erase: bool = False) -> Any:
    """Leave; with `erase` everything of theirs is removed."""
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
    """One post."""
    return network.get_post(viewer, post)


@router.delete("/posts/{post}", response_model=Done, responses=responses(UnknownPost, UnknownUser, Busy))
def delete_post(network: Network, post: str, me: Me) -> Any:
    """Remove a post of mine, or one that is addressed to me."""
    network.delete_post(me, post)
    return {}


@router.post(
    "/posts/{post}/comments",
    status_code=201,
    response_model=Made,
    responses=responses(UnknownPost, UnknownUser, TooFast, Busy, KeyReused),
)
def write_comment(network: Network, post: str, body: NewComment, key: IdempotencyKey) -> Any:
    """Write below a post."""
    return {"id": network.comment(body.me, post, body.text, key=key)}


@router.get("/posts/{post}/comments", response_model=Comments, responses=responses(UnknownPost, UnknownUser))
def read_comments(
    network: Network, signed: Signing, post: str, viewer: Viewer = None, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """A post's comments, oldest first."""
    return signed_page(network.comments(viewer, post, cursor=cursor, limit=limit), signed)


@router.delete("/comments/{comment}", response_model=Done, responses=responses(UnknownPost, UnknownUser, Busy))
def delete_comment(network: Network, comment: str, me: Me) -> Any:
    """Remove a comment of mine, or one below a post of mine."""
    network.delete_comment(me, comment)
    return {}
