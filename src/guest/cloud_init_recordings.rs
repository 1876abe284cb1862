//! The verdicts on everything that was recorded from real guests.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::cloud_init::{Verdict, judge};

/// How each recorded case ends: (folder prefix, case, verdict of the last answer).
const ENDS: &[(&str, &str, &str)] = &[
    ("bookworm", "bad-network-config", "done"),
    ("bookworm", "bootcmd-fails", "error"),
    ("bookworm", "good", "done"),
    ("bookworm", "invalid-yaml", "done"),
    ("bookworm", "module-exception", "error"),
    ("bookworm", "no-drive", "disabled"),
    ("bookworm", "no-header", "done"),
    ("bookworm", "runcmd-fails-while-running", "error"),
    ("bookworm", "runcmd-fails", "error"),
    ("bookworm", "running-then-done", "done"),
    ("bookworm", "schema-deprecated", "done"),
    ("bookworm", "schema-unknown-key", "done"),
    ("bookworm", "schema-wrong-type", "error"),
    ("trixie", "bad-network-config", "degraded"),
    ("trixie", "bootcmd-fails", "error over"),
    ("trixie", "good", "done"),
    ("trixie", "invalid-yaml", "degraded"),
    ("trixie", "module-exception", "error over"),
    ("trixie", "no-drive", "disabled"),
    ("trixie", "no-header", "degraded"),
    ("trixie", "runcmd-fails-while-running", "error over"),
    ("trixie", "runcmd-fails", "error over"),
    ("trixie", "running-then-done", "done"),
    ("trixie", "schema-deprecated", "done with warnings"),
    ("trixie", "schema-unknown-key", "degraded"),
    ("trixie", "schema-wrong-type", "error over"),
];

fn short(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Running { .. } => "running",
        Verdict::Done { warnings } if warnings.is_empty() => "done",
        Verdict::Done { .. } => "done with warnings",
        Verdict::Degraded { .. } => "degraded",
        Verdict::Error { over: Some(true), .. } => "error over",
        Verdict::Error { over: Some(false), .. } => "error running",
        Verdict::Error { over: None, .. } => "error",
        Verdict::Disabled => "disabled",
        Verdict::NotInstalled => "not installed",
        Verdict::Unreadable(_) => "unreadable",
    }
}

fn reference() -> Option<PathBuf> {
    let root = std::env::var_os("VMWRIGHT_REFERENCE")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let folder = root.join("cloud-init-status");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: no recordings of cloud-init status ({} is missing)",
        folder.display()
    );
    None
}

#[test]
fn every_recorded_answer_has_its_verdict() {
    let Some(root) = reference() else { return };
    let mut seen = 0;
    let mut problems = Vec::new();
    let folders = std::fs::read_dir(&root)
        .expect("recordings")
        .flatten()
        .filter(|e| e.path().is_dir());
    for folder in folders {
        let folder_name = folder.file_name().to_string_lossy().into_owned();
        for file in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
            let case = file.path().file_stem().expect("a name").to_string_lossy().into_owned();
            let recording: Value =
                serde_json::from_str(&std::fs::read_to_string(file.path()).expect("a file")).expect("JSON");
            // Kept in the recordings as a realistic mistake: its runcmd calls a command that does not exist.
            let end = match (folder_name.as_str(), case.as_str()) {
                ("bookworm-22.4.2", "good") => "error",
                _ => ENDS
                    .iter()
                    .find(|(prefix, name, _)| folder_name.starts_with(prefix) && *name == case)
                    .map_or("?", |(_, _, end)| end),
            };
            check(&recording, end, &format!("{folder_name}/{case}"), &mut problems);
            seen += 1;
        }
    }
    assert!(seen >= 33, "only {seen} recordings");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn check(recording: &Value, end: &str, label: &str, problems: &mut Vec<String>) {
    let list = |key: &str| recording[key].as_array().cloned().unwrap_or_default();
    let answer = |entry: &Value| {
        let code = entry["exit_code"].as_i64().and_then(|c| i32::try_from(c).ok());
        let stdout = entry["stdout"].as_str().unwrap_or_default().to_owned();
        // `--wait; echo rc=$?`: the code stands in the text.
        match stdout.trim_end().rsplit_once("\nrc=") {
            Some((text, rc)) => (rc.parse().ok(), text.to_owned()),
            None => (code, stdout),
        }
    };
    let (samples, finals) = (list("samples"), list("final"));
    for (i, entry) in samples.iter().enumerate() {
        let (code, stdout) = answer(entry);
        let verdict = short(&judge(code, &stdout, ""));
        let is_json_end = i + 1 == samples.len() && finals.first().is_some_and(|f| f["parsed"] == entry["parsed"]);
        let fits = verdict == end
            || (!is_json_end && (verdict == "running" || (end == "error over" && verdict == "error running")));
        if !fits {
            problems.push(format!("{label} sample {i}: {verdict}, not {end}"));
        }
    }
    for (i, entry) in finals.iter().enumerate() {
        let (code, stdout) = answer(entry);
        let verdict = short(&judge(code, &stdout, ""));
        // Plain text tells less: no levels, and without --long not whether it is over.
        let expected: &[&str] = match (i, end) {
            (0, end) => &[end],
            (_, "done with warnings") => &["degraded"],
            (_, "error over") => &["error", "error over"],
            (_, end) => &[end],
        };
        if !expected.contains(&verdict) {
            problems.push(format!("{label} final {i}: {verdict}, not {expected:?}"));
        }
    }
}
