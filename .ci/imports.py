"""Checks that the modules of a crate import each other in no circle: neither files nor folders, each with all that it holds.

    python3 .ci/imports.py

Each file can then be read with only the files that it imports. A module and its parent may import each other, and tests
may import what they like. The check relies on the layout of rustfmt.
"""

import re
import subprocess
import sys
from itertools import takewhile
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
                    of_tests = {"tests", "testing"} & {*module, *(holder or ())}
                    if holder in self.files and self.files[holder] != self.files[module] and not of_tests:
                        yield self.files[module], self.files[holder]

    def siblings(self):
        """The imports between modules of one parent, where each stands for all that it holds: {parent: {one: {others}}}."""
        module_of = {}
        for module, file in self.files.items():
            module_of[file] = min(module, module_of.get(file, module), key=len)
        found = {}
        for one, other in ((module_of[one], module_of[other]) for one, other in self.edges()):
            common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))
            if common < len(one) and common < len(other):
                found.setdefault(one[:common], {}).setdefault(one[common], set()).add(other[common])
        return found


def circles(imports):
    """The sets of modules of which each imports each other, directly or through others."""
    reached = {one: set(others) for one, others in imports.items()}
    for middle in list(reached):
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    for one in sorted(reached):
        circle = sorted(other for other in reached[one] if one in reached.get(other, ()))
        if circle and one == circle[0]:
            yield circle


def main():
    tracked = subprocess.run(["git", "ls-files", "*Cargo.toml"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    seen, found = 0, []
    for source in (ROOT / Path(manifest).parent / "src" for manifest in tracked.split()):
        crate = Crate(source)
        seen += len(set(crate.edges()))
        for parent, imports in crate.siblings().items():
            room = "/".join((str(source.relative_to(ROOT)), *parent))
            found += [f"{room}: {', '.join(circle)}" for circle in circles(imports)]
    if seen < 500:
        sys.exit(f"only {seen} imports are understood")
    if found:
        sys.exit("these modules import each other in a circle; move what they share to a module below them:\n" + "\n".join(found))
    print(f"{seen} imports, no circle")


if __name__ == "__main__":
    main()
