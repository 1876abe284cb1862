//! `render`: the cloud-init documents of a host, secrets masked.

use super::args::{Global, Render};
use super::{Problems, prepare, say};
use crate::cloud_init::{file_names, render_masked};
use crate::diagnose::Exit;
use crate::settings::Overrides;

/// Prints the documents as one stream: each begins with a line that names its file.
pub async fn run(global: &Global, args: &Render) -> Result<Exit, Problems> {
    let overrides = Overrides {
        templates_dir: args.templates_dir.clone(),
        ..global.overrides()
    };
    let mut loaded = prepare::load(global, &args.sources, overrides)?;
    let hosts = loaded.hosts(Some(&args.host))?;
    let embedded = loaded.embedded(&hosts).await?;
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    let mut machines = loaded.machines(&hosts)?;
    loaded.authorize(&mut machines, false)?;
    let redactor = loaded.secrets(&machines);
    loaded.tell_warnings(&redactor);
    for machine in &machines {
        let documents = render_masked(machine, &machine.macs(), loaded.settings.templates_dir.value.as_deref())
            .map_err(|problem| vec![problem])?;
        let (user, network) = file_names(machine);
        let storage = &machine.snippets.storage;
        say::data(&format!(
            "# {storage}:snippets/{user}\n{}\n# {storage}:snippets/{network}\n{}",
            documents.user_data, documents.network_data
        ));
    }
    Ok(Exit::Done)
}
