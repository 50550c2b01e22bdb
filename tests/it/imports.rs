//! No two files import each other except a module and its parent, so that each can be read with only those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};

use crate::common::{files_below, root};

/// A module's path from the root of its crate.
type Module = Vec<String>;

#[derive(Default)]
struct Said {
    file: PathBuf,
    /// The path of each imported name, as written.
    names: BTreeMap<String, Vec<String>>,
    /// All imports of its own `use` lines, as written.
    imports: Vec<Vec<String>>,
}

#[derive(Default)]
struct Crate(BTreeMap<Module, Said>);

impl Crate {
    fn read(src: &Path) -> Self {
        let mut own = Self::default();
        for name in files_below(src).iter().filter(|name| name.ends_with(".rs")) {
            let mut module: Module = name.trim_end_matches(".rs").split('/').map(str::to_string).collect();
            if module.last().unwrap() == "mod" || module == ["lib"] {
                module.pop();
            }
            own.read_file(&src.join(name), module);
        }
        own
    }

    /// Relies on the layout of rustfmt: an inline module ends with a brace at the indentation of its first line.
    fn read_file(&mut self, file: &Path, module: Module) {
        self.0.entry(module.clone()).or_default().file = file.to_path_buf();
        let text = fs::read_to_string(file).unwrap();
        let mut within = vec![(0, module)];
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let (depth, code) = (line.len() - line.trim_start().len(), line.trim());
            let shown = code.split_once(' ').filter(|_| code.starts_with("pub")).map_or(code, |(_, code)| code);
            let (_, module) = within.last().unwrap().clone();
            if let Some(name) = shown.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {")) {
                let inner = below(&module, name);
                self.0.entry(inner.clone()).or_default().file = file.to_path_buf();
                within.push((depth, inner));
            } else if code == "}" && within.len() > 1 && within.last().unwrap().0 == depth {
                within.pop();
            } else if let Some(first) = shown.strip_prefix("use ") {
                let mut tree = first.to_string();
                while !tree.ends_with(';') {
                    tree.push_str(lines.next().unwrap().trim());
                }
                let said = self.0.get_mut(&module).unwrap();
                for (path, name) in leaves(tree.trim_end_matches(';')) {
                    said.names.insert(name, path.clone());
                    said.imports.push(path);
                }
            }
        }
    }

    /// Returns the module that defines the item of a path, following re-exports.
    fn holder(&self, from: &[String], path: &[String], depth: usize) -> Option<Module> {
        let mut at = from.to_vec();
        for (place, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                "*" => return Some(at),
                name if self.0.contains_key(&below(&at, name)) => at.push(name.to_string()),
                // Another crate.
                name if place == 0 && !self.0[&at].names.contains_key(name) => return None,
                name => {
                    let Some(meant) = self.0[&at].names.get(name).filter(|_| depth > 0) else { return Some(at) };
                    let further = [meant, &path[place + 1..]].concat();
                    return self.holder(&at, &further, depth - 1);
                }
            }
        }
        Some(at)
    }

    /// Returns the pairs of importing and imported files.
    fn edges(&self) -> BTreeSet<(&Path, &Path)> {
        let imports = self.0.iter().flat_map(|(module, said)| {
            said.imports.iter().filter_map(move |path| {
                let is_own = matches!(path[0].as_str(), "crate" | "super" | "self")
                    || self.0.contains_key(&below(module, &path[0]));
                let holder = is_own.then(|| self.holder(module, path, 8)).flatten()?;
                Some((&*said.file, &*self.0.get(&holder)?.file))
            })
        });
        imports.filter(|(from, to)| from != to).collect()
    }

    fn is_parent(&self, parent: &Path, child: &Path) -> bool {
        let of = |file: &Path| self.0.iter().filter(|(_, said)| said.file == file).map(|(module, _)| module).min();
        of(child).and_then(|child| child.split_last()).map(|(_, above)| above) == of(parent).map(Vec::as_slice)
    }
}

fn below(module: &[String], name: &str) -> Module {
    [module, &[name.to_string()]].concat()
}

/// Returns the paths of an import tree, each with its local name.
fn leaves(tree: &str) -> Vec<(Vec<String>, String)> {
    let innermost = Regex::new(r"([\w:]*)\{([^{}]*)\}").unwrap();
    let mut flat = tree.to_string();
    while innermost.is_match(&flat) {
        let expanded = |found: &Captures| {
            let branches = found[2].split(',').map(str::trim).filter(|branch| !branch.is_empty());
            branches.map(|branch| format!("{}{branch}", &found[1])).collect::<Vec<_>>().join(",")
        };
        flat = innermost.replace_all(&flat, expanded).into_owned();
    }
    let leaf = |leaf: &str| {
        let (path, name) = leaf.split_once(" as ").unwrap_or((leaf, leaf));
        let name = name.rsplit("::").find(|part| *part != "self").unwrap().to_string();
        (path.split("::").map(str::to_string).collect(), name)
    };
    flat.split(',').map(leaf).collect()
}

#[test]
fn no_two_files_import_each_other_but_for_a_module_and_its_parent() {
    let root = root();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let members = members.split(',').map(|member| member.trim().trim_matches('"')).filter(|member| !member.is_empty());
    let mut mutual = Vec::new();
    let mut seen = 0;
    for src in members.chain(["."]).map(|member| root.join(member).join("src")).filter(|src| src.is_dir()) {
        let own = Crate::read(&src);
        let edges = own.edges();
        seen += edges.len();
        let pairs = edges.iter().filter(|(from, to)| from < to && edges.contains(&(*to, *from)));
        let pairs = pairs.filter(|(one, other)| !own.is_parent(one, other) && !own.is_parent(other, one));
        let shown = |file: &Path| file.strip_prefix(root).unwrap().display().to_string();
        mutual.extend(pairs.map(|(one, other)| format!("{} and {}", shown(one), shown(other))));
    }
    assert!(seen > 500, "only {seen} imports are understood");
    assert!(mutual.is_empty(), "move what both need to a file below them:\n{}", mutual.join("\n"));
}
