"""What the social network's routes take and give."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from squinney.http.answers import answer, list_of, page_of
from squinney.social import rules
from squinney.social.documents import Circled, Comment, Notice, Person, Post, Profile, User

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


PersonModel = answer(Person)
UserModel = answer(User, circles=list_of(CircleModel))
ProfileModel = answer(Profile)
CommentModel = answer(Comment, called="CommentModel")
PostModel = answer(Post, comments=list_of(CommentModel))
People = page_of(answer(Circled))
Comments = page_of(CommentModel)
Posts = page_of(PostModel)
Notices = page_of(answer(Notice))


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
