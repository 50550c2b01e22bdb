"""Checks that no two files of a crate import each other, except a module and its parent.

    python3 .ci/imports.py

Each file can then be read with only the files that it imports. The check relies on the layout of rustfmt.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INNERMOST = re.compile(r"([\w:]*)\{([^{}]*)\}")


def leaves(tree):
    """The paths of an import tree, each with its local name."""
    while INNERMOST.search(tree):
        tree = INNERMOST.sub(lambda found: ",".join(found[1] + part.strip() for part in found[2].split(",") if part.strip()), tree)
    for leaf in tree.split(","):
        path, _, alias = leaf.strip().partition(" as ")
        yield path.split("::"), alias or next(part for part in reversed(path.split("::")) if part != "self")


class Crate:
    """The modules of a crate by their path: their file, their names, and the paths that they import."""

    def __init__(self, source):
        self.files, self.names, self.imports = {}, {}, {}
        for file in sorted(source.rglob("*.rs")):
            module = file.relative_to(source).with_suffix("").parts
            self.read(file, module[:-1] if module[-1] == "mod" or module == ("lib",) else module)

    def add(self, module, file):
        self.files[module] = file
        self.names.setdefault(module, {})
        self.imports.setdefault(module, [])

    def read(self, file, module):
        self.add(module, file)
        within, lines = [(0, module)], iter(file.read_text().splitlines())
        for line in lines:
            depth, code = len(line) - len(line.lstrip()), re.sub(r"^pub\S* ", "", line.strip())
            if inline := re.fullmatch(r"mod (\w+) \{", code):
                within.append((depth, (*within[-1][1], inline[1])))
                self.add(within[-1][1], file)
            elif code == "}" and len(within) > 1 and within[-1][0] == depth:
                within.pop()
            elif code.startswith("use "):
                while not code.endswith(";"):
                    code += next(lines).strip()
                for path, name in leaves(code[4:-1]):
                    self.names[within[-1][1]][name] = path
                    self.imports[within[-1][1]].append(path)

    def holder(self, at, path, depth=8):
        """The module that defines the item of a path, following re-exports. None if another crate does."""
        start = at
        for place, name in enumerate(path):
            if name == "crate":
                at = ()
            elif name == "super":
                at = at[:-1]
            elif name == "*":
                return at
            elif (*at, name) in self.files:
                at = (*at, name)
            elif name != "self":
                meant = self.names[at].get(name)
                if place == 0 and (meant is None or start != at):
                    return None
                return self.holder(at, meant + path[place + 1 :], depth - 1) if meant and depth else at
        return at

    def edges(self):
        for module, paths in self.imports.items():
            for path in paths:
                if path[0] in ("crate", "super", "self") or (*module, path[0]) in self.files:
                    holder = self.holder(module, path)
                    if holder in self.files and self.files[holder] != self.files[module]:
                        yield self.files[module], self.files[holder]

    def is_parent(self, parent, child):
        of = lambda file: min(module for module, held in self.files.items() if held == file)
        return of(child) != () and of(child)[:-1] == of(parent)


def main():
    tracked = subprocess.run(["git", "ls-files", "*Cargo.toml"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    seen, mutual = 0, []
    for source in (ROOT / Path(manifest).parent / "src" for manifest in tracked.split()):
        crate = Crate(source)
        edges = set(crate.edges())
        seen += len(edges)
        for one, other in sorted(edges):
            is_mutual = one < other and (other, one) in edges
            if is_mutual and not crate.is_parent(one, other) and not crate.is_parent(other, one):
                mutual.append(f"{one.relative_to(ROOT)} and {other.relative_to(ROOT)}")
    if seen < 500:
        sys.exit(f"only {seen} imports are understood")
    if mutual:
        sys.exit("these files import each other; move what both need to a file below them:\n" + "\n".join(mutual))
    print(f"{seen} imports, none mutual")


if __name__ == "__main__":
    main()
