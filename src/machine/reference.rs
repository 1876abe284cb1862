//! The reference of all variables, from the table.

use std::fmt::Write as _;

use super::schema::{Fallback, SECTIONS, Status};

/// Every section and variable as Markdown: what `docs/inventory-reference.md` holds between its markers.
pub fn reference_markdown() -> String {
    let mut out = String::new();
    for (title, variables) in SECTIONS {
        let _ = write!(
            out,
            "## {title}\n\n| variable | type | default | meaning and rule | Proxmox |\n|---|---|---|---|---|\n"
        );
        for v in *variables {
            let default = match v.fallback {
                Fallback::Required => "**required**".to_owned(),
                Fallback::Nothing => "none".to_owned(),
                Fallback::Text("") => "empty".to_owned(),
                Fallback::Text(text) => format!("`{text}`"),
                Fallback::Derived(how) => how.to_owned(),
            };
            let mut meaning = v.meaning.to_owned();
            if !v.rule.is_empty() {
                let _ = write!(meaning, " Rule: {}.", v.rule);
            }
            if v.secret {
                meaning.push_str(" Secret: never shown.");
            }
            match v.status {
                Status::Used => {}
                Status::Deprecated => meaning.push_str(" Deprecated: warned about."),
                Status::Ignored => meaning.push_str(" Ignored."),
            }
            let proxmox = if v.proxmox.is_empty() {
                String::new()
            } else {
                format!("`{}`", v.proxmox)
            };
            let cells = [format!("`{}`", v.name), v.kind.to_owned(), default, meaning, proxmox];
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- begin: made from the table of src/machine/schema -->\n\n";
    const END: &str = "<!-- end -->\n";

    /// `VMWRIGHT_UPDATE_DOCS=1 cargo test reference` rewrites the page.
    #[test]
    fn the_page_holds_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/inventory-reference.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = page.split_once(BEGIN).unwrap();
        let (table, tail) = rest.split_once(END).unwrap();
        if std::env::var_os("VMWRIGHT_UPDATE_DOCS").is_some() {
            std::fs::write(&path, format!("{head}{BEGIN}{}{END}{tail}", reference_markdown())).unwrap();
        } else {
            assert!(
                table == reference_markdown(),
                "docs/inventory-reference.md is out of date: VMWRIGHT_UPDATE_DOCS=1 cargo test reference"
            );
        }
    }
}
