"""Checks that each link of a page leads to a file of the project, and each `#part` to a heading of that page.

    python3 .ci/links.py
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)\s]*)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(page):
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def main():
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    links, broken = 0, []
    for page in (ROOT / name for name in tracked.split()):
        for target in LINK.findall(CODE.sub("", page.read_text())):
            path, _, part = target.partition("#")
            if "://" in path or path.startswith("mailto:"):
                continue
            links += 1
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (part and file.suffix == ".md" and part not in anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    if links < 100:
        sys.exit(f"only {links} links were found")
    if broken:
        sys.exit("these links lead nowhere:\n" + "\n".join(broken))
    print(f"{links} links lead to files and headings")


if __name__ == "__main__":
    main()
