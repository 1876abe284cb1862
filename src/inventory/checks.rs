//! The tests (`is ..`) that Ansible adds to Jinja, and those of the engine that answer differently.

use minijinja::value::{Kwargs, Rest, StringInput, Value as Jinja, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error};
use std::path::{Path, PathBuf};

use super::filters_regex::{Where, regex_test};
use super::template::current;
use super::{filters_data, version};

/// Adds the tests.
pub(crate) fn add(env: &mut Environment<'static>) {
    let handled = |value: &Jinja| {
        if value.is_undefined()
            && let Some((run, _)) = current()
        {
            run.handle();
        }
    };
    env.add_test("defined", move |value: &Jinja| {
        handled(value);
        !value.is_undefined()
    });
    env.add_test("undefined", move |value: &Jinja| {
        handled(value);
        value.is_undefined()
    });
    env.add_test("sequence", |value: &Jinja| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
    for prefix in ["", "ansible.builtin."] {
        let test = |name: &str| format!("{prefix}{name}");
        for (name, place) in [
            ("match", Where::Match),
            ("search", Where::Search),
            ("regex", Where::Search),
        ] {
            env.add_test(
                test(name),
                move |text: StringInput, pattern: String, args: Rest<ValueOrKwargs>| {
                    regex_test(text.as_str(), &pattern, place, args)
                },
            );
        }
        for name in ["version", "version_compare"] {
            env.add_test(test(name), |a: StringInput, b: String, args: Rest<ValueOrKwargs>| {
                version::version(a.as_str(), &b, args)
            });
        }
        for name in ["subset", "issubset"] {
            env.add_test(test(name), |a: &Jinja, b: &Jinja| filters_data::is_subset(a, b));
        }
        for name in ["superset", "issuperset"] {
            env.add_test(test(name), |a: &Jinja, b: &Jinja| filters_data::is_subset(b, a));
        }
        env.add_test(test("contains"), |a: &Jinja, b: &Jinja| filters_data::contains(a, b));
        env.add_test(test("any"), |list: &Jinja| {
            each(list).map(|items| items.iter().any(Jinja::is_true))
        });
        env.add_test(test("all"), |list: &Jinja| {
            each(list).map(|items| items.iter().all(Jinja::is_true))
        });
        env.add_test(test("truthy"), |a: Jinja, args: Rest<ValueOrKwargs>| truthy(&a, args));
        env.add_test(test("falsy"), |a: Jinja, args: Rest<ValueOrKwargs>| {
            Ok::<_, Error>(!truthy(&a, args)?)
        });
        env.add_test(test("vault_encrypted"), |_: &Jinja| false);
        env.add_test(test("nan"), |value: Jinja| f64::try_from(value).is_ok_and(f64::is_nan));
        add_paths(env, &test);
    }
}

/// The tests of paths look at the file system of the control node, as in Ansible.
fn add_paths(env: &mut Environment<'static>, test: &impl Fn(&str) -> String) {
    env.add_test(test("abs"), |path: StringInput| path.as_str().starts_with('/'));
    env.add_test(test("exists"), |path: StringInput| here(path.as_str()).exists());
    env.add_test(test("file"), |path: StringInput| here(path.as_str()).is_file());
    env.add_test(test("directory"), |path: StringInput| here(path.as_str()).is_dir());
    env.add_test(test("link"), |path: StringInput| here(path.as_str()).is_symlink());
    env.add_test(test("link_exists"), |path: StringInput| {
        here(path.as_str()).symlink_metadata().is_ok()
    });
    env.add_test(test("mount"), |path: StringInput| is_mount(&here(path.as_str())));
    env.add_test(test("same_file"), |a: StringInput, b: String| {
        match (here(a.as_str()).canonicalize(), here(&b).canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
    });
}

fn here(path: &str) -> PathBuf {
    match current() {
        Some((run, _)) => run.session.core.working_dir.join(path),
        None => PathBuf::from(path),
    }
}

fn is_mount(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    match (device(path), device(&path.join(".."))) {
        (Some((device, inode)), Some((outer, outer_inode))) => device != outer || inode == outer_inode,
        _ => false,
    }
}

fn each(list: &Jinja) -> Result<Vec<Jinja>, Error> {
    list.try_iter()?.checked().collect()
}

/// `truthy(convert_bool=false)`: with it, texts that mean yes or no count as such.
fn truthy(value: &Jinja, args: Rest<ValueOrKwargs>) -> Result<bool, Error> {
    let args = args.into_values();
    let (positional, kwargs) = from_args::<(&[Jinja], Kwargs)>(&args)?;
    let convert = match positional.first() {
        Some(convert) => convert.is_true(),
        None => kwargs.get::<Option<bool>>("convert_bool")?.unwrap_or(false),
    };
    let meant = value
        .as_str()
        .filter(|_| convert)
        .map(|text| text.trim().to_lowercase());
    Ok(match meant.as_deref() {
        Some("y" | "yes" | "on" | "1" | "true" | "t") => true,
        Some("n" | "no" | "off" | "0" | "false" | "f") => false,
        _ => value.is_true(),
    })
}
