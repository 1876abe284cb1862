//! The shell scripts of [`super::node`]: each prints the mark, one word, and then perhaps a content.

use super::probes::MARK;
use super::remote::shell_word;

/// Exit codes of the scripts, away from those of the tools.
pub(super) const MISSING: i32 = 71;
pub(super) const NOT_A_FOLDER: i32 = 72;
pub(super) const NOT_WRITABLE: i32 = 73;
pub(super) const WRITE_FAILED: i32 = 74;

fn prologue(path: &str) -> String {
    format!("export LC_ALL=C; d={}\n", shell_word(path))
}

/// Prints the mark, one word, and the content as it is on disk then.
pub(super) fn write_script(path: &str, name: &str) -> String {
    let name = shell_word(name);
    format!(
        "{}umask 077\n\
         if [ ! -e \"$d\" ]; then [ -d \"${{d%/*}}\" ] || exit {MISSING}; (umask 022; mkdir \"$d\") || [ -d \"$d\" ] || exit {NOT_WRITABLE}; fi\n\
         [ -d \"$d\" ] || exit {NOT_A_FOLDER}\n\
         [ -w \"$d\" ] || exit {NOT_WRITABLE}\n\
         f=\"$d/\"{name}; t=\"$d/.vmwright-$$-\"{name}\n\
         trap 'rm -f \"$t\"' EXIT; trap 'exit 1' HUP INT TERM\n\
         cat > \"$t\" || exit {WRITE_FAILED}\n\
         if [ -f \"$f\" ] && cmp -s \"$t\" \"$f\"; then w=unchanged; else\n\
         if [ -e \"$f\" ]; then w=replaced; else w=created; fi\n\
         {{ sync -d \"$t\" || sync; }} 2>/dev/null\n\
         mv -f \"$t\" \"$f\" || exit {WRITE_FAILED}; fi\n\
         echo {MARK}; echo $w; cat \"$f\"",
        prologue(path)
    )
}

/// Prints the mark, a word, and of each file its size and content, or `absent`.
pub(super) fn read_script(path: &str, names: &[&str]) -> String {
    format!(
        "{}echo {MARK}; echo files\nfor n in {}; do f=\"$d/$n\"\n\
         if [ -e \"$f\" ]; then s=$(wc -c < \"$f\") || exit 1; echo $s; cat \"$f\" || exit 1; else echo absent; fi\n\
         done",
        prologue(path),
        words(names)
    )
}

pub(super) fn list_script(path: &str) -> String {
    format!(
        "{}echo {MARK}; echo list; [ -e \"$d\" ] || exit 0\n[ -d \"$d\" ] || exit {NOT_A_FOLDER}\nls -1 \"$d\"",
        prologue(path)
    )
}

/// Prints the mark, and `removed` if one of the files was there.
pub(super) fn remove_script(path: &str, names: &[&str]) -> String {
    format!(
        "{}w=absent; for n in {}; do f=\"$d/$n\"\n\
         if [ -e \"$f\" ]; then rm -f \"$f\" && [ ! -e \"$f\" ] || exit 1; w=removed; fi\n\
         done\n\
         echo {MARK}; echo $w",
        prologue(path),
        words(names)
    )
}

fn words(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| shell_word(name)).collect();
    quoted.join(" ")
}
