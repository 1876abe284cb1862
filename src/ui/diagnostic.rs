//! A diagnostic for people: what, where with an excerpt, why, what to do.
//!
//! ```text
//! error[machine/unknown-key]: unknown key `coers` in vms_config
//!   --> group_vars/vms.yml:4:3
//!    |
//!  4 |   coers: 2
//!    |   ^^^^^
//!    = host: web-0
//!    = rule: ...
//!    = help: did you mean `cores`?
//! ```

use std::fmt::Write as _;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::diagnose::{Diagnostic, Place, Severity};
use crate::machine::schema;
use crate::secret::Redactor;

/// How diagnostics are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Colours; the words say the same without.
    pub colour: bool,
}

/// The diagnostic as text, ending in a newline, with secrets masked.
///
/// The excerpt is read from the file; a line that holds a secret is not shown at all.
pub fn render(diagnostic: &Diagnostic, style: Style, redactor: &Redactor) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let message = redactor.mask(&diagnostic.message).into_owned();
    let title = level.primary_title(message.as_str()).id(diagnostic.code);
    let excerpt = match &diagnostic.place {
        Some(place) if !about_secret(diagnostic.key.as_deref()) => excerpt(place, redactor),
        Some(_) | None => None,
    };
    let place = diagnostic.place.as_ref().map(ToString::to_string);
    let mut footers: Vec<(Level<'_>, String)> = Vec::new();
    if let Some(host) = &diagnostic.host {
        footers.push((Level::NOTE.with_name("host"), host.clone()));
    }
    if let Some(key) = &diagnostic.key {
        footers.push((Level::NOTE.with_name("key"), key.clone()));
    }
    if excerpt.is_none()
        && let Some(place) = &place
    {
        footers.push((Level::NOTE.with_name("at"), place.clone()));
    }
    if let Some(rule) = &diagnostic.rule {
        footers.push((Level::NOTE.with_name("rule"), redactor.mask(rule).into_owned()));
    }
    for (place, note) in &diagnostic.notes {
        let note = redactor.mask(note);
        let text = match place {
            Some(place) => format!("{place}: {note}"),
            None => note.into_owned(),
        };
        footers.push((Level::NOTE, text));
    }
    for help in &diagnostic.help {
        footers.push((Level::HELP, redactor.mask(help).into_owned()));
    }
    let mut group = Group::with_title(title);
    if let (Some(place), Some(excerpt)) = (&diagnostic.place, &excerpt) {
        let snippet = Snippet::source(excerpt.line.as_str())
            .path(&*place.file)
            .line_start(place.line as usize)
            .annotation(AnnotationKind::Primary.span(excerpt.span.clone()));
        group = group.element(snippet);
    }
    for (level, text) in &footers {
        group = group.element(level.clone().message(text.as_str()));
    }
    let renderer = if style.colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut text = renderer.decor_style(DecorStyle::Ascii).render(&[group]);
    let _ = writeln!(text);
    text
}

/// Whether a variable of this path holds a secret.
fn about_secret(key: Option<&str>) -> bool {
    key.is_some_and(|key| key.rsplit('.').any(is_secret_name))
}

/// Whether a line of an inventory sets a variable whose name tells of a secret. The redactor does not know its value yet when
/// it is the inventory itself that cannot be read.
fn sets_secret(line: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut rest = line;
    while let Some(at) = rest.find([':', '=']) {
        let before = rest[..at].trim_end().trim_end_matches(['"', '\'']);
        let start = before.rfind(|c| !is_name(c)).map_or(0, |index| {
            index + before[index..].chars().next().map_or(1, char::len_utf8)
        });
        if is_secret_name(&before[start..]) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    schema::variable(name).is_some_and(|variable| variable.secret)
        || ["password", "passwd", "secret", "passphrase"]
            .iter()
            .any(|word| lower.contains(word))
        || ["token", "pass", "api_key", "private_key"]
            .iter()
            .any(|word| lower.ends_with(word))
}

struct Excerpt {
    line: String,
    span: std::ops::Range<usize>,
}

/// The line of a place and the word that starts there.
fn excerpt(place: &Place, redactor: &Redactor) -> Option<Excerpt> {
    if place.line == 0 {
        return None;
    }
    let text = std::fs::read_to_string(&*place.file).ok()?;
    let line = text.lines().nth(place.line as usize - 1)?.to_owned();
    if redactor.mask(&line) != line || line.contains("$ANSIBLE_VAULT") || sets_secret(&line) {
        return None;
    }
    let column = (place.column.max(1) - 1) as usize;
    let start = line.char_indices().nth(column).map_or(line.len(), |(index, _)| index);
    let rest = &line[start..];
    let length = rest
        .find([' ', '\t', ':', ',', '#'])
        .filter(|length| *length > 0)
        .unwrap_or(rest.len());
    Some(Excerpt {
        span: start..start + length,
        line,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn the_excerpt_points_at_the_word() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "vms_config:\n  coers: 2\n").unwrap();
        let path = file.path().display().to_string();
        let diagnostic = Diagnostic::error("machine/unknown-key", "unknown key `coers`")
            .at(Place::new(path.as_str(), 2, 3))
            .host("web-0")
            .rule("the keys of vms_config are known")
            .help("did you mean `cores`?");
        let text = render(&diagnostic, Style::default(), &Redactor::default()).replace(&path, "FILE");
        insta::assert_snapshot!(text, @r"
        error[machine/unknown-key]: unknown key `coers`
         --> FILE:2:3
          |
        2 |   coers: 2
          |   ^^^^^
          |
          = host: web-0
          = rule: the keys of vms_config are known
          = help: did you mean `cores`?
        ");
    }

    #[test]
    fn a_line_with_a_secret_is_not_shown() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "token: s3cret-value").unwrap();
        let diagnostic =
            Diagnostic::error("x/y", "bad token s3cret-value").at(Place::new(file.path().display().to_string(), 1, 8));
        let text = render(
            &diagnostic,
            Style::default(),
            &Redactor::new([Secret::new("s3cret-value")]),
        );
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("bad token ***"), "{text}");
    }

    #[test]
    fn a_line_that_sets_a_secret_is_known_by_its_name() {
        for line in [
            "global_proxmox_api_token: abc",
            "web-0 a=1 ansible_password='x y'",
            "  \"pihole_password\": {",
            "db_secret = 1",
            "users: [{username: a, password: b}]",
        ] {
            assert!(sets_secret(line), "{line}");
        }
        for line in [
            "global_proxmox_api_token_id: vmwright",
            "web-0 vms_os=debian_12",
            "a: password",
            "token",
            "",
        ] {
            assert!(!sets_secret(line), "{line}");
        }
        assert!(about_secret(Some("users_list[0].password")));
        assert!(!about_secret(Some("vms_config.cores")));
    }
}
