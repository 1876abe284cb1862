//! The table of rules: what each finds, and why it matters.

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its code, `lint/...`.
    pub code: &'static str,
    /// What it finds.
    pub finds: &'static str,
    /// Why it matters: what Ansible, vmwright and the guest see.
    pub why: &'static str,
}

const fn rule(code: &'static str, finds: &'static str, why: &'static str) -> Rule {
    Rule { code, finds, why }
}

/// Every rule, sorted.
pub const RULES: &[Rule] = &[
    rule(
        "lint/bool-word",
        "yes, no, on, off (and y, n) without quotes in YAML",
        "YAML 1.1, which Ansible uses, reads yes, no, on and off as booleans, and y and n as text",
    ),
    rule(
        "lint/comment-kept",
        "a comment behind a text in a [group:vars] section of INI",
        "Ansible keeps everything behind the `=` there: the comment becomes a part of the value",
    ),
    rule(
        "lint/date",
        "a date without quotes in YAML",
        "Ansible makes a date of it and prints a time with a `T` in it; vmwright keeps the text as it is written",
    ),
    rule(
        "lint/defined-twice",
        "a variable that is defined twice in one level, differently",
        "Ansible silently takes the one that it reads last",
    ),
    rule(
        "lint/duplicate-key",
        "a key that stands twice in one mapping of YAML",
        "Ansible takes the last one and drops the first; vmwright refuses the file",
    ),
    rule(
        "lint/float",
        "a number such as 1.10 whose last zero is lost",
        "it is read as a number, and a number has no trailing zeros: the version 1.10 becomes 1.1",
    ),
    rule(
        "lint/group-name",
        "a group whose name is no valid variable name",
        "Ansible warns of it at every run, and `groups.NAME` cannot be written in a template",
    ),
    rule(
        "lint/host-and-group",
        "a host and a group of one name",
        "what the inventory sets for the host is set for the whole group, and a pattern means both",
    ),
    rule(
        "lint/ignored-file",
        "a file that is ignored because of its extension",
        "Ansible and vmwright skip it without a word: its hosts and variables do not exist",
    ),
    rule(
        "lint/ignored-key",
        "a key of a YAML inventory that means nothing where it stands",
        "Ansible skips it: what is written below does not exist",
    ),
    rule(
        "lint/ini-bool",
        "true, false, yes, no, on, off as a value in INI",
        "INI values are Python literals, in host lines and in [group:vars] alike: `True` is a boolean, `true` is text, \
         and any text counts as true in `{% if .. %}`",
    ),
    rule(
        "lint/ini-list",
        "a value with commas in INI that is read as a list",
        "INI values are Python literals, and numbers with commas between them are a tuple",
    ),
    rule(
        "lint/key-not-text",
        "a key of YAML that is read as a boolean, null or another number than is written",
        "the key becomes True, None or a number: nobody finds it under the name that is written",
    ),
    rule(
        "lint/leading-zero",
        "digits with a leading zero that make no octal number",
        "Ansible reads them as text; the same with digits below 8 would be an octal number",
    ),
    rule(
        "lint/near-names",
        "groups or hosts whose names differ only in case or in `-` and `_`",
        "they are two for Ansible, each with its own variables; most often one of them is a slip",
    ),
    rule(
        "lint/octal",
        "a number that is read as octal",
        "a leading zero (in INI: 0o) makes an octal number: 0644 arrives as 420",
    ),
    rule(
        "lint/removable-no-vm",
        "a host of group removable that is no VM",
        "`vmwright remove` works on VMs only: this host cannot be removed",
    ),
    rule(
        "lint/scientific",
        "1e3 and the like",
        "in YAML an exponent without point and sign makes text, in INI it makes a number: 1e3 arrives as \"1e3\" or 1000.0",
    ),
    rule(
        "lint/secret-in-clear",
        "a password or token that is not from a vault",
        "everybody who can read the repository, its copies and its history can read it",
    ),
    rule(
        "lint/sexagesimal",
        "digits with colons that are read in base 60",
        "YAML 1.1, which Ansible uses, reads 22:22 as 22*60+22",
    ),
    rule(
        "lint/tab",
        "a tab between the words of a YAML file",
        "some readers of YAML refuse it (PyYAML without libyaml does), so it works on one machine and not on another",
    ),
    rule(
        "lint/underscore",
        "a number with underscores",
        "the underscores vanish: 1_000 arrives as 1000",
    ),
    rule(
        "lint/unknown-rule",
        "a comment that allows a rule that does not exist",
        "the comment suppresses nothing",
    ),
    rule(
        "lint/unknown-variable",
        "a variable vms_*, global_* or pihole_* that vmwright does not know and no template uses",
        "nothing reads it",
    ),
    rule(
        "lint/unquoted-template",
        "a YAML value that begins with {{ and is not quoted",
        "a brace opens a mapping in YAML: the template is never evaluated",
    ),
    rule(
        "lint/value-cut",
        "a value that ` #` cuts short",
        "a comment begins there: what is behind it does not arrive",
    ),
    rule(
        "lint/vars-for-nobody",
        "a file in group_vars or host_vars that belongs to no group or host",
        "it is never read",
    ),
    rule(
        "lint/vars-shadowed",
        "a file of variables beside another one for the same name",
        "of NAME, NAME.yml, NAME.yaml and NAME.json only the first is read",
    ),
    rule(
        "lint/vault-broken",
        "an encrypted text that will not be decrypted",
        "without the tag, the header and every line of digits in its place it is text, and arrives encrypted or not at all",
    ),
];

/// The rule of a code, or of its last part.
pub fn find(name: &str) -> Option<&'static Rule> {
    RULES
        .iter()
        .find(|rule| rule.code == name || rule.code.strip_prefix("lint/") == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_and_found_by_both_names() {
        assert!(RULES.is_sorted_by(|a, b| a.code < b.code));
        assert_eq!(find("octal").map(|rule| rule.code), Some("lint/octal"));
        assert!(find("lint/octal").is_some());
        assert!(find("lint/").is_none());
    }
}
