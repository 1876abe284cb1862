//! `unlock`: frees a lock whose holder cannot be proven dead. It shows the holder, and wants the VM's own name.

use super::again::Again;
use super::args::{Global, Unlock};
use super::{Problems, prepare, say};
use crate::diagnose::{Diagnostic, Exit};
use crate::settings::duration;
use crate::state::{StateDir, VmKey};

/// Shows the holder, and frees the lock if the name is confirmed.
pub async fn run(global: &Global, args: &Unlock) -> Result<Exit, Problems> {
    let mut loaded = prepare::load(global, &args.sources, global.overrides())?;
    let hosts = loaded.hosts(Some(&args.host))?;
    if let Some(embedded) = loaded.embedded(&hosts).await? {
        embedded.stop().await;
    }
    let machines = loaded.machines(&hosts)?;
    let redactor = loaded.secrets(&machines);
    loaded.tell_warnings(&redactor);
    let [machine] = machines.as_slice() else {
        return Err(vec![Diagnostic::error(
            "cli/one-host",
            format!(
                "{} selects {} hosts; a lock is freed one at a time",
                args.host,
                machines.len()
            ),
        )]);
    };
    loaded.settle_state_dir(&hosts)?;
    let state = StateDir::peek(&loaded.settings.state_dir.value).map_err(|error| vec![error.diagnostic()])?;
    let key = VmKey::of(&machine.cluster.host, machine.cluster.port, &machine.name);
    let Some(seen) = state.lock_holder(&key).map_err(|error| vec![error.diagnostic()])? else {
        say::talk(&format!("{} is not locked", machine.name));
        return Ok(Exit::Done);
    };
    let holder = seen
        .owner
        .as_ref()
        .map_or_else(|| "somebody unknown".to_owned(), ToString::to_string);
    let age = seen
        .age
        .map_or_else(String::new, |age| format!(", for {}", duration::show_seconds(age)));
    say::talk(&format!(
        "{} is locked by {holder}{age}: {}",
        machine.name,
        seen.verdict.reason()
    ));
    if args.confirm.as_deref() != Some(machine.name.as_str()) {
        let given = args.confirm.as_ref().map_or_else(
            || "no name was given".to_owned(),
            |name| format!("{name} is not its name"),
        );
        return Err(vec![
            Diagnostic::error(
                "cli/not-confirmed",
                format!("the lock of {} was not freed: {given}", machine.name),
            )
            .rule("a lock that is freed while its holder works lets two runs work on one VM")
            .help(format!(
                "once no run works on it: {}",
                Again::one("unlock", &args.host, global, &args.sources)
                    .with("--confirm", &machine.name)
                    .line()
            ))
            .exit(Exit::Refused),
        ]);
    }
    state
        .force_unlock(&key, &seen)
        .map_err(|error| vec![error.diagnostic(&machine.host, &machine.name)])?;
    say::talk(&format!("the lock of {} is free", machine.name));
    Ok(Exit::Done)
}
