//! A state directory that cannot be trusted or is full: nothing is done that cannot be written down.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Plan, Run, Site};
use crate::weather::{assert_calm, assert_told, calls, dns, locks, phase, snippets};

const WEB_0: [&str; 3] = ["provision", "--limit", "web-0"];

fn quick(plan: &mut Plan) {
    plan.durations = vmwright::simulator::clock::Durations::zero();
}

/// Nothing was asked of anybody.
#[track_caller]
fn assert_unasked(site: &Site, what: &str, run: &Run) {
    assert_eq!(
        calls(&site.sim.requests()),
        Vec::<String>::new(),
        "{what}: {}",
        run.all()
    );
    assert_eq!((dns(site), snippets(site)), (vec![], vec![]), "{what}");
    assert_calm(what, run);
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_others_can_enter_or_own_is_refused() {
    let site = Site::with(quick).await;
    let state = site.path("state");
    std::fs::create_dir(&state).unwrap();
    for loose in [0o755, 0o770, 0o702] {
        mode(&state, loose);
        let run = site.vmwright(&WEB_0).await;
        assert_told(
            "loose",
            &run,
            2,
            &["error[state/loose-mode]", "chmod 700", "/state", &format!("{loose:o}")],
        );
        assert_unasked(&site, "loose", &run);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "nothing was made in it");
        assert_eq!(
            std::fs::metadata(&state).unwrap().permissions().mode() & 0o777,
            loose,
            "nothing is repaired"
        );
    }
    mode(&state, 0o700);
    if chown(&state, Some(12345), None).is_ok() {
        let run = site.vmwright(&WEB_0).await;
        assert_told("foreign", &run, 2, &["error[state/foreign-owner]", "12345", "/state"]);
        assert_unasked(&site, "foreign", &run);
        chown(&state, Some(rustix::process::getuid().as_raw()), None).unwrap();
    } else {
        eprintln!("SKIPPED: a state directory of another user (not running as root)");
    }
    std::fs::remove_dir(&state).unwrap();
    std::fs::write(&state, "").unwrap();
    let run = site.vmwright(&WEB_0).await;
    assert_told("file", &run, 2, &["error[state/not-a-directory]", "/state"]);
    assert_unasked(&site, "file", &run);
    std::fs::remove_file(&state).unwrap();
    // Loose further down, after a good run.
    site.vmwright(&WEB_0).await.assert_code(0);
    site.sim.handle().clear_requests();
    for inside in ["records", "locks", "runs"] {
        mode(&state.join(inside), 0o777);
        let run = site.vmwright(&WEB_0).await;
        assert!(run.code != 0, "{inside}: {}", run.all());
        assert_told(inside, &run, run.code, &["state/loose-mode", "chmod 700", inside]);
        assert_eq!(calls(&site.changes()), Vec::<String>::new(), "{inside}");
        mode(&state.join(inside), 0o700);
    }
    let record = crate::weather::records(&site)[0].clone();
    mode(&record, 0o666);
    let run = site.vmwright(&WEB_0).await;
    assert!(run.code != 0, "{}", run.all());
    assert_told("record", &run, run.code, &["state/loose-mode", "chmod 600", ".json"]);
    mode(&record, 0o600);
    let run = site.vmwright(&WEB_0).await;
    assert_told("mended", &run, 0, &["ready, unchanged"]);
}

/// A small filesystem of its own at a path; unmounted when dropped.
struct Tiny(PathBuf);

impl Tiny {
    /// `None` where mounting is not possible.
    fn mount(path: &Path, pages: usize) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let options = format!("size={}k,mode=700", pages * 4);
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(path)
            .output()
            .is_ok_and(|output| output.status.success());
        if !done {
            eprintln!("SKIPPED: a full state directory (no tmpfs can be mounted: not running as root)");
        }
        done.then(|| Self(path.to_owned()))
    }

    fn resize(&self, pages: usize) {
        let options = format!("remount,size={}k", pages * 4);
        let done = Command::new("mount").args(["-o", &options]).arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "remount");
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        // A test that failed may still have it open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_state_directory_stops_the_run_before_what_cannot_be_written_down() {
    let mut codes = Vec::new();
    for pages in [1, 2, 3, 4, 6, 64] {
        let site = Site::with(quick).await;
        let Some(tiny) = Tiny::mount(&site.path("state"), pages) else {
            return;
        };
        let run = site.vmwright(&WEB_0).await;
        let what = format!("{pages} pages");
        assert_calm(&what, &run);
        codes.push(run.code);
        if run.code != 0 {
            assert_told(&what, &run, 1, &["state/disk-full", "no space left", "df -h"]);
            assert_eq!(locks(&site), Vec::<PathBuf>::new(), "{what}");
        }
        // Not one VM that the record does not know.
        let on_record = crate::weather::records(&site)
            .first()
            .and_then(|path| std::fs::read_to_string(path).ok())
            .unwrap_or_default();
        for (vmid, _) in site.vms() {
            assert!(
                on_record.contains(&format!("\"vmid\": {vmid}")),
                "{what}: VM {vmid}, {on_record}"
            );
        }
        tiny.resize(1024);
        let again = site.vmwright(&WEB_0).await;
        assert_told(&what, &again, 0, &["ready"]);
        assert_eq!(site.vms(), [(100, "web-0".to_owned())], "{what}");
        assert_eq!(phase(&site), "complete", "{what}");
    }
    assert_eq!(codes.first(), Some(&1), "one page is too little");
    assert_eq!(codes.last(), Some(&0), "64 pages are enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_cannot_be_written_is_told() {
    let site = Site::with(quick).await;
    let state = site.path("state");
    let Some(_tiny) = Tiny::mount(&state, 64) else { return };
    let done = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&state)
        .status()
        .unwrap();
    assert!(done.success());
    let run = site.vmwright(&WEB_0).await;
    assert!(run.code != 0, "{}", run.all());
    assert_told("read-only", &run, run.code, &["state/read-only", "/state"]);
    assert_unasked(&site, "read-only", &run);
}
