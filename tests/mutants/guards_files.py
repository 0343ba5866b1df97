"""Rendering, feeds, pictures, videos and imported folders of content: hostile input and odd but valid files."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_FOLDERS = "tests/systems/content/test_folders.py"
_CALLED = "test_all_forms_of_names_and_front_matter_are_imported"

_render = guards_of("squinney.content.nodes.render", "tests/systems/content/test_render.py")
_feed = guards_of("squinney.content.nodes.feeds", "tests/api/test_content.py")
_web = guards_of("squinney.content.surface.web", "tests/api/test_content.py")
_edit = guards_of("squinney.content.surface.web_editing", "tests/api/test_content_pages.py")
_moving = guards_of("squinney.content.files.animations", "tests/unit/test_pictures.py")
_picture = guards_of("squinney.content.files.pictures", "tests/unit/test_pictures.py")
_media = guards_of("squinney.content.files.media", "tests/unit/test_pictures.py")
_place = guards_of("squinney.content.files.mp4_locations", "tests/unit/test_mp4_locations.py")
_webm = guards_of("squinney.content.files.webm_locations", "tests/unit/test_webm_locations.py")
_front = guards_of("squinney.content.surface.folders.front_matter", _FOLDERS)
_plan = guards_of("squinney.content.surface.folders.plan", _FOLDERS)
_links = guards_of("squinney.content.surface.folders.links", _FOLDERS)
_export = guards_of("squinney.content.surface.folders.export", _FOLDERS)

RENDERING = [
    _render(
        "costly texts are rendered in another process",
        "if offload and markup.is_costly(text) else",
        "if False else",
        "tests/api/test_content_pages.py::test_large_texts_are_rendered_in_another_process",
    ),
    _render(
        "a summary renders no tables",
        "_without_tables().render(text) if markup.is_costly(text) else _page(text)",
        "_page(text)",
        "test_the_first_words_of_a_text_never_cost_what_its_table_would",
    ),
    _render(
        "a text whose rendering failed is rendered again",
        "            del self._rendering[key]\n",
        "",
        "test_concurrent_requests_for_one_text_render_it_once",
    ),
]
FEEDS = [
    _web(
        "other sites may embed public photos",
        '        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"\n',
        "        pass\n",
        "test_a_photo_in_a_feed_is_shown_wherever_the_feed_is_read",
    ),
    _web(
        "other sites may not embed photos of a signed-in visitor",
        "    if viewer.user_id is None:\n",
        "    if True:\n",
        "test_a_photo_in_a_feed_is_shown_wherever_the_feed_is_read",
    ),
    _feed(
        "a feed's entry has its photo",
        "_picture(feed, node) + render.markdown",
        "render.markdown",
        "test_a_photo_in_a_feed_is_shown_wherever_the_feed_is_read",
    ),
    _feed(
        "a year in a feed has four digits",
        'f"{utc.year:04}-{utc:%m-%dT%H:%M:%SZ}"',
        'f"{utc.year}-{utc:%m-%dT%H:%M:%SZ}"',
        "test_a_photo_in_a_feed_is_shown_wherever_the_feed_is_read",
    ),
]
MEDIA = [
    _picture(
        "an animation keeps its frames",
        "_animation(image, frames) if frames > 1 else _still(image)",
        "_still(image)",
        "test_animations_keep_their_frames",
    ),
    _moving(
        "a truncated GIF is refused",
        "        _require_complete_gif(file)\n",
        "",
        "test_a_gif_that_is_cut_short_is_refused_wherever_it_was_cut",
    ),
    _moving(
        "the number of frames is limited in every format",
        "    _require_few(frames)\n    if frames > 1",
        "    if frames > 1",
        "test_a_long_animation_is_made_smaller_and_one_too_long_refused",
    ),
    _moving(
        "the pixels of all frames together are limited",
        "    if frames > 1 and frames * image.width * image.height > MOST_PIXELS:\n",
        "    if False:\n",
        "test_a_long_animation_is_made_smaller_and_one_too_long_refused",
    ),
    _media(
        "the MP4 brand tells videos from other formats",
        "        found = BRANDS.get(head[8:12], found)\n",
        "        pass\n",
        "test_what_begins_like_a_video_and_is_none_is_named",
    ),
    _picture(
        "a large picture is converted in strips",
        "    if factor < 2:\n",
        "    if True:\n",
        "test_a_small_file_of_many_pixels_takes_little_more_memory_than_its_pixels",
    ),
    _place(
        "an MP4's metadata is blanked",
        "            _blank_metadata(self._pending, header, size, METADATA)\n        self",
        "            pass\n        self",
        "test_metadata_is_blanked_wherever_the_pieces_end",
    ),
    _place(
        "an MP4's metadata tracks are blanked",
        ' or (kind == b"trak" and _handler(body, inner, after) == b"meta")',
        "",
        "test_metadata_is_blanked_wherever_the_pieces_end",
    ),
    _webm(
        "a WebM's tags are blanked",
        "        self._is_blank = kind in (TAGS, ATTACHMENTS)\n",
        "        self._is_blank = False\n",
        "test_tags_become_void_wherever_the_pieces_end",
    ),
    _edit(
        "a picture's alt text and a page's summary can be edited",
        'for name in TYPES[metadata["type"]].model_fields',
        'for name in ("text",)',
        "test_summary_alternative_text_and_access_are_edited_on_the_page",
    ),
]
FOLDERS = [
    _plan("Markdown files have two extensions", 'TEXTS = (".md", ".markdown")', 'TEXTS = (".md",)', _CALLED),
    _plan(
        "skipped files are reported",
        "        self.skipped += [self._name(path) for path in files if path not in {*pictures, *texts, *metadata}]\n",
        "",
        _CALLED,
    ),
    _front("TOML front matter is read", "(TOML, tomllib.loads)", "(YAML, yaml.safe_load)", _CALLED),
    _front(
        "a quoted 'false' is false",
        '    **dict.fromkeys(("false", "no", "off", "0", ""), False),\n',
        '    **dict.fromkeys(("no", "off", "0", ""), False),\n',
        _CALLED,
    ),
    _front("a slash in a tag is replaced", '[str(tag).replace("/", "-") for tag in found]', "found", _CALLED),
    _plan(
        "a name without Latin letters or digits gets a slug",
        '    return slug or f"n-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"\n',
        "    return slug\n",
        _CALLED,
        "test_names_become_slugs",
    ),
    _plan(
        "nothing is written if any file is wrong",
        "        if self._problems:\n",
        "        if False:\n",
        "test_nothing_is_written_where_any_file_is_wrong_and_all_are_named",
    ),
    _links(
        "%20 in a link is a space",
        "    return unquote(path), rest\n",
        "    return path, rest\n",
        "test_links_to_imported_files_are_rewritten",
    ),
    _links(
        "links in definitions and HTML are rewritten",
        "    for pattern in (INLINE, DEFINITION, HTML):\n",
        "    for pattern in (INLINE,):\n",
        "test_links_to_imported_files_are_rewritten",
        "test_addresses_are_found_in_all_their_forms_and_not_in_code",
    ),
    _export(
        "an exported folder never has the name of a file next to it",
        "            while inner in taken:",
        "            while False:",
        "test_a_folder_named_like_the_file_of_a_page_is_exported_and_imported",
    ),
]

GUARDS = [*RENDERING, *FEEDS, *MEDIA, *FOLDERS]
