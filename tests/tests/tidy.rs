//! The walls and habits of the house, checked on the source itself, so that they hold without anyone watching.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our crates each crate may depend on. What is not here may not be used.
const WALLS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("telemetry", &[]),
    ("raft-store", &["domain"]),
    ("ledger", &["domain"]),
    ("queue", &["domain", "telemetry"]),
    ("fulfillment", &["domain", "raft-store", "ledger", "telemetry"]),
    ("gate", &["domain", "telemetry"]),
    ("api", &["domain", "raft-store", "queue", "ledger", "telemetry"]),
    ("cli", &["domain", "raft-store", "queue", "ledger", "fulfillment", "gate", "api", "bench", "telemetry"]),
    ("simulation", &["domain", "raft-store", "fulfillment", "ledger"]),
    ("tests", &["encore", "domain", "raft-store"]),
    ("bench", &["domain", "raft-store"]),
    ("xtask", &[]),
];

const OURS: &[&str] = &[
    "api",
    "bench",
    "domain",
    "encore",
    "fulfillment",
    "gate",
    "ledger",
    "queue",
    "raft-store",
    "simulation",
    "telemetry",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every file of the project with one of these endings, relative to its root, with its text.
fn files(endings: &[&str]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with("target") && (!name.starts_with('.') || name == ".ci") {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(&path).expect("text");
                found.insert(path.strip_prefix(root()).expect("inside").to_owned(), text);
            }
        }
    }
    assert!(!found.is_empty(), "no file ends with {endings:?}");
    found
}

/// `file:line: text` for every line of Rust that `wrong` finds.
fn lines_where(wrong: impl Fn(&Path, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files(&[".rs"]) {
        // This file names what it forbids.
        if path == Path::new("tests/tests/tidy.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if wrong(&path, line) {
                found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    found
}

#[track_caller]
fn assert_none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

/// Names under `[dependencies]` and its relatives; development dependencies only when asked for.
fn dependencies(manifest: &str, development: bool) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.trim_end().ends_with("dependencies]") && (development || !table.contains("dev-"));
        } else if inside && line.contains('=') && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn crates_stay_behind_their_walls() {
    let mut wrong = Vec::new();
    for (path, manifest) in files(&["Cargo.toml"]) {
        let Some(folder) = path.parent().and_then(Path::to_str).filter(|folder| !folder.is_empty()) else { continue };
        let Some((_, allowed)) = WALLS.iter().find(|(name, _)| *name == folder) else {
            wrong.push(format!("{folder} has no line in the table of walls"));
            continue;
        };
        for name in dependencies(&manifest, false) {
            if OURS.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{folder} may not depend on {name}"));
            }
            if name == "anyhow" && !["cli", "xtask", "tests"].contains(&folder) {
                wrong.push(format!("{folder} may not use anyhow: an error says what failed, by type"));
            }
        }
    }
    assert_none("who may import whom", &wrong);
}

#[test]
fn the_api_takes_only_passes_and_leases_from_the_waiting_room() {
    let wrong = lines_where(|path, line| {
        path.starts_with("api/src")
            && line.match_indices("queue::").any(|(at, word)| {
                let before = line[..at].chars().next_back();
                let rest = &line[at + word.len()..];
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
                    && !["token", "leases", "{"].iter().any(|allowed| rest.starts_with(allowed))
            })
    });
    assert_none("api uses only queue::token and queue::leases", &wrong);
}

#[test]
fn the_simulators_flag_stands_in_one_place() {
    let wrong = lines_where(|path, line| {
        line.contains("madsim")
            && (line.contains("cfg(") || line.contains("cfg!(") || line.contains("cfg_attr("))
            && !path.starts_with("simulation")
            && path != Path::new("raft-store/src/runtime.rs")
    });
    assert_none("cfg(madsim) only in raft-store/src/runtime.rs and simulation", &wrong);
}

#[test]
fn sql_stands_only_with_the_ledger_and_the_gates_own_file() {
    let wrong = lines_where(|path, line| {
        // The peer in the bench is what somebody else would write.
        let allowed = ["ledger/src/postgres", "ledger/tests", "bench/src/contenders/postgres.rs"];
        let sqlx = line.contains("sqlx::") && !allowed.iter().any(|place| path.starts_with(place));
        let sqlite = line.contains("rusqlite::") && !path.starts_with("gate");
        sqlx || sqlite
    });
    assert_none("SQL only in ledger/src/postgres and the bench's peer, and SQLite only in gate", &wrong);
}

#[test]
fn every_file_says_what_it_is_and_stays_readable() {
    let mut wrong = Vec::new();
    for (path, text) in files(&[".rs"]) {
        if !text.starts_with("//!") {
            wrong.push(format!("{} does not open with //!", path.display()));
        }
        if text.lines().count() > 500 {
            wrong.push(format!("{} is longer than 500 lines: look for the second thing inside", path.display()));
        }
        let vague = ["common", "util", "utils", "helper", "helpers", "manager", "misc"];
        if path.with_extension("").components().any(|part| vague.iter().any(|word| part.as_os_str() == *word)) {
            wrong.push(format!("{} has a name that says nothing", path.display()));
        }
    }
    assert_none("files", &wrong);
}

#[test]
fn nothing_is_left_for_later() {
    let stubs = ["todo!(", "unimplemented!(", "FIXME", "XXX", "TODO", "#[ignore"];
    assert_none("stubs and ignored tests", &lines_where(|_, line| stubs.iter().any(|stub| line.contains(stub))));
}

#[test]
fn the_machines_have_no_hash_order() {
    let wrong = lines_where(|path, line| {
        path.starts_with("domain/src") && (line.contains("HashMap") || line.contains("HashSet"))
    });
    assert_none("domain keeps everything in order", &wrong);
}

#[test]
fn the_simulated_crates_choose_in_a_stated_order() {
    let mut wrong = Vec::new();
    for (path, text) in files(&[".rs"]) {
        if !path.starts_with("raft-store/src") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let next = lines.get(number + 1).map_or("", |next| next.trim());
            if line.contains("select! {") && !next.starts_with("biased") {
                wrong.push(format!("{}:{}: select! without biased draws from chance", path.display(), number + 1));
            }
        }
    }
    assert_none("a seed replays", &wrong);
}

#[test]
fn the_project_speaks_only_of_itself() {
    // Put together here, so that this file does not contain them.
    let forbidden = [["/wo", "rk/"].concat(), [".lib", "rary"].concat(), ["crates", ".io/api"].concat()];
    let mut wrong = Vec::new();
    for (path, text) in
        files(&[".rs", ".md", ".toml", ".sql", ".js", ".mjs", ".html", ".css", ".json", ".lua", ".proto", ".yml"])
    {
        for (number, line) in text.lines().enumerate() {
            if forbidden.iter().any(|word| line.contains(word.as_str())) {
                wrong.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert_none("paths and tools of some workplace", &wrong);
}
