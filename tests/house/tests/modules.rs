//! No circle of modules: in every crate, and in every folder of a crate, the modules can be put in an
//! order in which each uses only those before it. A module and those inside it count as one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's way from its crate's root: `["engine", "live"]`.
type Module = Vec<String>;

#[test]
fn no_crate_has_a_circle_of_modules() {
    let sources = bora_testing::crates()
        .into_iter()
        .map(|one| one.folder.join("src"));
    let mut circles = Vec::new();
    for source in sources {
        let modules = read(&source);
        assert!(!modules.is_empty(), "{}", source.display());
        let name = source
            .parent()
            .and_then(Path::file_name)
            .unwrap()
            .to_string_lossy();
        circles.extend(circle(&modules).map(|circle| format!("{name}: {circle}")));
    }
    assert!(
        circles.is_empty(),
        "circles of modules:\n{}",
        circles.join("\n")
    );
}

#[test]
fn a_circle_is_found_and_named() {
    let crate_of = |modules: &[(&str, &str)]| -> BTreeMap<Module, String> {
        let module = |name: &str| name.split("::").map(Into::into).collect();
        let modules = modules.iter();
        modules
            .map(|(name, text)| (module(name), (*text).into()))
            .collect()
    };
    let ordered = crate_of(&[
        (
            "a",
            "use crate::b::{self, c::D};\n#[cfg(test)]\nmod tests { use crate::e::F; }",
        ),
        ("b", "mod c; // crate::a::B"),
        ("b::c", "use super::Z;\nconst TEXT: &str = \"crate::a::B\";"),
        ("e", "fn f() { crate::a::g(); }"),
    ]);
    assert_eq!(circle(&ordered), None);
    let round = crate_of(&[
        ("a", "use crate::{x, b::y};"),
        ("b", "pub(crate) use y::Y;"),
        ("b::y", "fn f(_: super::super::d::T) {}"),
        ("d", "use std::fmt;\nuse super::{a, b::Y};"),
    ]);
    let named = "a (a uses b::y) -> b (b::y uses d) -> d (d uses a) -> a";
    assert_eq!(circle(&round).as_deref(), Some(named));
}

/// The text of every module below a folder of sources, but for those of tests and programs.
fn read(source: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    for path in bora_testing::files(source) {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let way = path.strip_prefix(source).unwrap().with_extension("");
        let parts = way.iter().map(|part| part.to_str().unwrap().into());
        let mut way: Module = parts.collect();
        if way
            .last()
            .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
        {
            way.pop();
        }
        modules.insert(way, fs::read_to_string(&path).unwrap());
    }
    let tests: BTreeSet<String> = modules
        .values()
        .flat_map(|text| test_modules(text))
        .collect();
    modules.retain(|way, _| !way.iter().any(|part| part == "bin" || tests.contains(part)));
    modules
}

/// Modules in files of their own that are compiled for tests alone.
fn test_modules(text: &str) -> Vec<String> {
    let after = text.split("#[cfg(test)]").skip(1);
    let named = after.filter_map(|rest| {
        let line = rest.trim_start().lines().next()?;
        let name = line.strip_prefix("mod ")?.strip_suffix(';')?;
        Some(name.to_string())
    });
    named.collect()
}

/// A circle among modules of one folder, as `a (a uses b::y) -> b (b::y uses a) -> a`.
fn circle(modules: &BTreeMap<Module, String>) -> Option<String> {
    let modules = modules
        .iter()
        .map(|(module, text)| (module.clone(), code(text)));
    let modules: BTreeMap<Module, String> = modules.collect();
    let mut uses: BTreeMap<Module, BTreeMap<Module, String>> = BTreeMap::new();
    for (module, code) in &modules {
        for used in used(module, code, &modules) {
            let same = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if same < module.len() && same < used.len() {
                let (from, to) = (module[..=same].to_vec(), used[..=same].to_vec());
                let why = format!("{} uses {}", module.join("::"), used.join("::"));
                uses.entry(from).or_default().entry(to).or_insert(why);
            }
        }
    }
    let mut done = BTreeSet::new();
    let mut starts = uses.keys();
    starts.find_map(|start| follow(start, &uses, &mut Vec::new(), &mut done))
}

/// Goes along what is used until it comes back to where it was.
fn follow(
    at: &Module,
    uses: &BTreeMap<Module, BTreeMap<Module, String>>,
    way: &mut Vec<Module>,
    done: &mut BTreeSet<Module>,
) -> Option<String> {
    if let Some(first) = way.iter().position(|before| before == at) {
        let mut text = String::new();
        for (index, module) in way[first..].iter().enumerate() {
            let next = way.get(first + index + 1).unwrap_or(at);
            text += &format!("{} ({}) -> ", module.join("::"), uses[module][next]);
        }
        return Some(text + &at.join("::"));
    }
    if done.contains(at) {
        return None;
    }
    way.push(at.clone());
    let mut used = uses.get(at).into_iter().flat_map(BTreeMap::keys);
    let found = used.find_map(|next| follow(next, uses, way, done));
    way.pop();
    done.insert(at.clone());
    found
}

/// The code without comments, strings and what is compiled for tests alone.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            // a module of tests is the last of its file
            let inside = |line: &str| line.contains("mod ") && line.ends_with(['{', '}']);
            if inside(line) || lines.next().is_some_and(inside) {
                break;
            }
            continue;
        }
        let line = line.replace("'\"'", "");
        let line = line.split("//").next().unwrap_or_default();
        code.extend(line.split('"').step_by(2));
        code.push('\n');
    }
    code
}

/// The modules that a module's code names.
fn used(module: &Module, code: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let mut rest = code;
    while let Some(start) = ["crate::", "super::", "self::"]
        .iter()
        .filter_map(|p| rest.find(p))
        .min()
    {
        let before = rest[..start].chars().next_back();
        rest = &rest[start..];
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            rest = &rest[6..];
            continue;
        }
        let length = path_length(rest);
        for path in paths(&rest[..length]) {
            found.extend(module_of(module, &path, modules));
        }
        rest = &rest[length..];
    }
    found
}

/// How long a path is, with the braces of a `use` that belong to it.
fn path_length(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (index, c) in text.char_indices() {
        match c {
            '{' if before == ':' || depth > 0 => depth += 1,
            '}' if depth > 0 => depth -= 1,
            _ if depth > 0 || c == ':' || c == '_' || c.is_alphanumeric() => {}
            _ => return index,
        }
        if depth == 0 && c == '}' {
            return index + 1;
        }
        before = c;
    }
    text.len()
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn paths(text: &str) -> Vec<String> {
    let Some((head, inside)) = text.split_once('{') else {
        return vec![text.trim().to_string()];
    };
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in inside.chars() {
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                parts.last_mut().unwrap().push(c);
            }
        }
    }
    let whole = parts.iter().flat_map(|part| paths(part));
    whole.map(|part| format!("{}{part}", head.trim())).collect()
}

/// The module that a path leads into; where it is re-exported there, the one that it comes from.
fn module_of(from: &Module, path: &str, modules: &BTreeMap<Module, String>) -> Option<Module> {
    let mut at = from.clone();
    for (index, part) in path.split("::").enumerate() {
        match part.split_whitespace().next()? {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            name => {
                at.push(name.to_string());
                if !modules.keys().any(|module| module.starts_with(&at)) {
                    at.pop();
                    return match (re_exported(&at, name, modules), index) {
                        (Some(origin), _) => Some(origin),
                        (None, 0) => None, // in another crate
                        (None, _) => Some(at),
                    };
                }
            }
        }
    }
    Some(at)
}

/// Where a module has a name from that it re-exports.
fn re_exported(module: &Module, name: &str, modules: &BTreeMap<Module, String>) -> Option<Module> {
    let code = modules.get(module)?;
    let starts = ["pub use ", "pub(crate) use ", "pub(super) use "];
    let statements = starts.iter().flat_map(|start| code.split(start).skip(1));
    let statements = statements.filter_map(|rest| rest.split(';').next());
    let mut paths = statements.flat_map(paths);
    // a name alone is the module's own, such as that of a macro
    let path = paths.find(|path| {
        path.rsplit_once("::")
            .is_some_and(|(_, last)| last.trim() == name)
    })?;
    let origin = module_of(module, &path, modules)?;
    (origin != *module).then_some(origin)
}
