//! `vmwright lint` over `tests/lint/cases`: each directory is named as a rule and holds an inventory that breaks it (`bad`),
//! what is found there (`expected.json`), and one that does not (`good`). `tests/lint/refresh.sh` records them anew.

#![expect(clippy::unwrap_used, reason = "a test: what cannot be read is a failure")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn cases() -> Vec<PathBuf> {
    let cases = std::fs::read_dir(root().join("tests/lint/cases")).unwrap();
    let mut cases: Vec<PathBuf> = cases.map(|case| case.unwrap().path()).collect();
    cases.sort();
    cases
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn lint(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmwright"));
    command.arg("lint").args(arguments).current_dir(dir);
    command.output().unwrap()
}

/// What `-i` of a case is.
fn source(dir: &Path) -> &'static str {
    let names = ["inventory", "hosts.yml", "hosts.ini"];
    names.into_iter().find(|name| dir.join(name).exists()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_rule_finds_what_it_should_and_nothing_else() {
    let mut failed = Vec::new();
    for case in cases() {
        let rule = format!("lint/{}", name(&case));
        let bad = case.join("bad");
        let output = lint(&bad, &["-i", source(&bad), "--output", "json"]);
        let want: Value = serde_json::from_str(&std::fs::read_to_string(case.join("expected.json")).unwrap()).unwrap();
        let got: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = got["findings"].as_array().unwrap();
        if output.status.code() != Some(1) || got != want || !findings.iter().any(|found| found["code"] == *rule) {
            failed.push(format!("{rule}: {got:#}\n{}", text(&output.stderr)));
        }
        let good = case.join("good");
        let output = lint(&good, &["-i", source(&good)]);
        if output.status.code() != Some(0) || !output.stdout.is_empty() {
            failed.push(format!(
                "{rule}, good: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_rule_has_a_case_and_is_listed() {
    let listed = lint(&root(), &["--list-rules", "--output", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let rules = listed["rules"].as_array().unwrap().iter();
    let rules: BTreeSet<String> = rules.map(|rule| rule["code"].as_str().unwrap().to_owned()).collect();
    let cases: BTreeSet<String> = cases().iter().map(|case| format!("lint/{}", name(case))).collect();
    assert_eq!(rules, cases);
    let page = std::fs::read_to_string(root().join("docs/lint.md")).unwrap();
    for rule in &rules {
        assert!(page.contains(&format!("| `{rule}` |")), "{rule} is not in docs/lint.md");
    }
    let told = text(&lint(&root(), &["--list-rules"]).stdout);
    assert!(
        told.contains("lint/octal\n    finds: a number that is read as octal"),
        "{told}"
    );
}

#[test]
fn the_examples_are_clean() {
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "homelab-example\n").unwrap();
    for example in ["cluster", "demo", "homelab"] {
        let source = format!("inventory-examples/{example}");
        let password = password.path().display().to_string();
        let output = lint(&root(), &["-i", &source, "--vault-password-file", &password]);
        let told = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{example}: {told}");
    }
}

fn site(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn comments_and_the_option_allow_a_finding() {
    let lines = "all:\n  hosts:\n    web01:\n      a: 0644 # vmwright-lint: allow octal\n      # vmwright-lint: allow lint/date, octal\n      b: 2024-01-02\n      c: no\n";
    let dir = site(&[("hosts.yml", lines)]);
    let output = lint(dir.path(), &["-i", "hosts.yml"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("warning[").count(), 1, "{told}");
    assert!(
        told.contains("warning[lint/bool-word]: `no` is read as the boolean false\n --> hosts.yml:7:10"),
        "{told}"
    );
    assert!(told.contains("= help: write: c: false"), "{told}");
    let output = lint(dir.path(), &["-i", "hosts.yml", "--allow", "bool-word"]);
    assert_eq!(output.status.code(), Some(0));
    let output = lint(dir.path(), &["-i", "hosts.yml", "--allow", "bool-wrod"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `bool-word`?"));
}

#[test]
fn what_cannot_be_read_ends_with_2_and_findings_are_told_all_the_same() {
    let dir = site(&[("hosts.yml", "all:\n  hosts: [a]\n  vars:\n    mode: 0644\n")]);
    let output = lint(dir.path(), &["-i", "hosts.yml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("lint/octal"));
    assert!(text(&output.stderr).contains("inventory/yaml-structure"));
    assert_eq!(lint(dir.path(), &["-i", "missing.yml"]).status.code(), Some(2));
    assert_eq!(lint(dir.path(), &[]).status.code(), Some(2));
}

#[test]
fn secrets_are_not_shown() {
    let dir = site(&[
        (
            "hosts.yml",
            "all:\n  vars:\n    pihole_password: s3cr3tword #more\n    app:\n      db_password: 0777\n    my_token: 1_234_567\n    b_password: s3cr3tword # vmwright-lint: allow octl\n",
        ),
        (
            "more.ini",
            "w db_password=s3cr3tword#tail\n[all:vars]\nx_password=s3cr3tword # tail\n",
        ),
    ]);
    for output in [
        &["-i", "hosts.yml", "-i", "more.ini"][..],
        &["-i", "hosts.yml", "-i", "more.ini", "-o", "json"],
    ] {
        let output = lint(dir.path(), output);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let told = text(&output.stdout) + &text(&output.stderr);
        for secret in ["s3cr3tword", "#more", "0777", "511", "1_234_567", "1234567", "#tail"] {
            assert!(!told.contains(secret), "{secret}: {told}");
        }
    }
}
