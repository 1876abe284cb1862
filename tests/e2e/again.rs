//! The command that a failure tells to go on with: it does the same again, and shows no value of `-e`.

use vmwright::simulator::fault::{Action, Fault};

use crate::support::{Run, Site};

/// Marked, so that it is found wherever it is told.
const VALUE: &str = "hunter2-marked-value";

fn no_start(site: &Site) {
    let action = Action::Answer {
        status: 500,
        text: "no start today".to_owned(),
    };
    let fault = Fault::on("POST", "/nodes/*/qemu/*/status/start", action);
    site.sim.faults().add(fault.always());
}

/// The command that the failed host's last event tells.
fn next(run: &Run) -> String {
    let events = run.events();
    let done = events.iter().find(|event| event["event"] == "host-done").unwrap();
    done["next"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_that_is_told_works_as_it_is() {
    let site = Site::start().await;
    site.write("my vars/extra.yml", "global_timezone: Europe/Berlin\n");
    site.write("settings.yaml", "forks: 2\n");
    site.write("vault", "unused");
    no_start(&site);
    let state = site.path("a state's folder").display().to_string();
    let options = [
        "--state-dir",
        &state,
        "--config",
        "settings.yaml",
        "--vault-password-file",
        "vault",
        "--known-hosts",
        "known hosts",
        "-e",
        "@my vars/extra.yml",
    ];
    let args = ["provision", "--limit", "web-0", "--output", "json"];
    let failed = site.vmwright(&[&args[..], &options].concat()).await;
    failed.assert_code(1);
    let command = next(&failed);

    site.sim.faults().clear();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_vmwright"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let again = tokio::process::Command::new("sh")
        .args(["-c", &command])
        .current_dir(site.path(""))
        .env_clear()
        .env("PATH", path)
        .env("HOME", site.path("home"))
        .env("TMPDIR", site.path("tmp"))
        .output()
        .await
        .unwrap();
    let again = Run::of(&again);
    again.assert_code(0);
    assert!(site.read("known hosts").contains("web-0"), "{command}");
    assert!(!site.path("state").exists(), "{command}");
    assert!(
        std::fs::read_dir(site.path("a state's folder/records"))
            .unwrap()
            .count()
            > 0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_keeps_an_override_of_the_protection() {
    let site = Site::start().await;
    no_start(&site);
    let args = [
        "provision",
        "--limit",
        "web-1",
        "--override-protection",
        "prod-web-1",
        "--output",
        "json",
    ];
    let failed = site.vmwright(&args).await;
    failed.assert_code(1);
    assert!(
        next(&failed).contains(" --override-protection prod-web-1 --limit web-1"),
        "{}",
        next(&failed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_an_extra_variable_is_told() {
    let forms = [
        (
            format!("{{\"app_password\":\"{VALUE}\"}}"),
            "-e '{app_password: ...}' --limit web-0",
        ),
        (
            format!("app_password={VALUE} other='{VALUE} {VALUE}'"),
            "-e 'app_password=... other=...' --limit web-0",
        ),
    ];
    for (extra, shown) in forms {
        for output in ["json", "human"] {
            let site = Site::start().await;
            no_start(&site);
            let run = site
                .vmwright(&["provision", "--limit", "web-0", "-e", &extra, "--output", output])
                .await;
            run.assert_code(1);
            run.assert_says(shown);
            run.assert_says("they may be secrets");
            run.assert_silent_about(VALUE);
            let mut journals = site.tree("state/runs");
            journals.retain(|(path, _, _)| path.is_file());
            assert!(!journals.is_empty());
            for (path, _, text) in journals {
                let text = String::from_utf8_lossy(&text);
                assert!(
                    text.contains("app_password") && !text.contains(VALUE),
                    "{}: {text}",
                    path.display()
                );
            }
        }
    }
}
