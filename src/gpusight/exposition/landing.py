"""The page at `/`: what this exporter is and where to go from here."""

import platform
from collections.abc import Sequence
from html import escape

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>body {{ font-family: sans-serif; margin: 2em auto; max-width: 50em; padding: 0 1em; line-height: 1.5 }}</style>
</head>
<body>
<h1>{title}</h1>
<p>gpusight {version}, role {role}, Python {python}</p>
<ul>
{links}
</ul>
{notes}
</body>
</html>
"""


def landing_page(
    *, title: str, version: str, role: str, links: Sequence[tuple[str, str]], notes: Sequence[str] = ()
) -> bytes:
    """The page as bytes. `links` are (address, text); every text is escaped."""
    items = (f'<li><a href="{escape(address)}">{escape(text)}</a></li>' for address, text in links)
    return _PAGE.format(
        title=escape(title),
        version=escape(version),
        role=escape(role),
        python=platform.python_version(),
        links="\n".join(items),
        notes="\n".join(f"<p>{escape(note)}</p>" for note in notes),
    ).encode("utf-8", "backslashreplace")
