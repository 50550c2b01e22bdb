"""Writes llms.txt, which lists the pages of docs/SUMMARY.md with their first sentences for language models, and the pages as
Markdown, into a built site.

    python3 .ci/llms.py SITE
"""

import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def about(page):
    """The first sentence of a page."""
    paragraph = page.read_text().split("\n\n")[1]
    sentence = re.split(r"(?<=\.)\s", " ".join(paragraph.split()))[0].rstrip(":")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    site = Path(sys.argv[1])
    lines = ["# asap", "", "> asap prunes chain-of-thought corpora, so that fine-tuning a reasoning model takes a fraction of the tokens."]
    for line in (DOCS / "SUMMARY.md").read_text().splitlines()[1:]:
        if found := re.fullmatch(r" *- \[(.*)\]\((.*)\)", line):
            title, name = found.groups()
            lines.append(f"- [{title}]({name}): {about(DOCS / name)}")
            shutil.copy(DOCS / name, site / name)
        elif line.startswith("# "):
            lines += ["", f"#{line}", ""]
    (site / "llms.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
