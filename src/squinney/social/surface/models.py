"""What the social network's routes take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from squinney.social import rules

Id = Annotated[str, Field(min_length=1, max_length=200)]
CircleName = Annotated[str, Field(min_length=1, max_length=rules.MOST_CIRCLE_NAME)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewMember(_Strict):
    """What joining takes; `user` is an id of one's own."""

    name: str = Field(min_length=1, max_length=rules.MOST_NAME, examples=["Ann"])
    user: Id | None = None


class NewName(_Strict):
    """Another name."""

    name: str = Field(min_length=1, max_length=rules.MOST_NAME, examples=["Anne"])


class NewProfile(_Strict):
    """What a member tells of themselves."""

    about: str = Field("", max_length=rules.PROFILE["about"])
    place: str = Field("", max_length=rules.PROFILE["place"])
    link: str = Field("", max_length=rules.PROFILE["link"])


class Other(_Strict):
    """Somebody."""

    other: Id


class InCircle(_Strict):
    """Somebody and a circle."""

    other: Id
    circle: CircleName = Field(examples=["friends"])


class NewPost(_Strict):
    """What a post takes: whose it is, its type with its detail, and whom it is for."""

    me: Id
    type: str = Field(max_length=20, examples=["status"])
    detail: dict[str, Any] = Field(examples=[{"text": "Soup at seven?"}])
    circles: list[CircleName] = Field(min_length=1, max_length=rules.MOST_CIRCLES, examples=[["*public*"]])
    to: Id | None = None


class NewComment(_Strict):
    """What a comment takes."""

    me: Id
    text: str = Field(min_length=1, max_length=rules.MOST_COMMENT)


class CircleModel(BaseModel):
    """A circle of one's own."""

    name: str
    count: int


class UserModel(BaseModel):
    """A member, as they see themselves."""

    id: str
    name: str
    handle: str
    profile: dict[str, str]
    circles: list[CircleModel]
    joined_at: datetime


class PersonModel(BaseModel):
    """Somebody; without a name where they have left, or are hidden from the viewer."""

    id: str
    name: str | None
    handle: str | None


class ProfileModel(PersonModel):
    """Somebody, as a viewer sees them."""

    about: str
    place: str
    link: str
    joined_at: datetime
    followers: int
    circled: list[str]
    follows_you: bool
    muted: bool
    blocked: bool


class CircledModel(PersonModel):
    """Somebody in a list of people."""

    circles: list[str]
    at: datetime


class People(BaseModel):
    """A page of people."""

    items: list[CircledModel]
    next: str | None


class CommentModel(BaseModel):
    """A comment."""

    id: str
    by: PersonModel
    text: str
    ts: datetime


class Comments(BaseModel):
    """A page of comments."""

    items: list[CommentModel]
    next: str | None


class PostModel(BaseModel):
    """A post; `circles` are named to its author alone."""

    id: str
    by: PersonModel
    to: PersonModel | None
    audience: str
    circles: list[str]
    type: str
    ts: datetime
    detail: dict[str, Any]
    mentions: list[PersonModel]
    comments: list[CommentModel]
    comment_count: int


class Posts(BaseModel):
    """A page of posts."""

    items: list[PostModel]
    next: str | None


class NoticeModel(BaseModel):
    """Something that a member was told."""

    id: str
    kind: str
    by: PersonModel
    ts: datetime
    seen: bool
    post: str | None = None
    text: str | None = None


class Notices(BaseModel):
    """A page of notices."""

    items: list[NoticeModel]
    next: str | None


class Circles(BaseModel):
    """In which of one's own circles somebody is."""

    circles: list[str]


class Made(BaseModel):
    """What was made."""

    id: str


class Unseen(BaseModel):
    """How many notices came since the member last looked; 100 stands for more."""

    unseen: int


class Done(BaseModel):
    """It is done."""

    done: bool = True
