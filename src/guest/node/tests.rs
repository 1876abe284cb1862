//! Both kinds of folder, in a temporary one.

use super::super::node_scripts::WRITE_FAILED;
use futures_util::future::BoxFuture;

use super::*;

/// Runs the scripts in the shell of this machine.
struct Here;

impl Remote for Here {
    fn run<'a>(
        &'a self,
        _: &'a SshTarget,
        _: &'a HostKeys,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, SshError>> {
        Box::pin(async move {
            let mut child = std::process::Command::new("sh")
                .args(["-c", &command.script])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .expect("sh");
            let _ = child
                .stdin
                .take()
                .expect("piped")
                .write_all(command.stdin.as_deref().unwrap_or_default());
            let output = child.wait_with_output().expect("an end");
            Ok(Output {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: output.stderr,
            })
        })
    }
    fn answers<'a>(&'a self, _: &'a SshTarget, _: Duration) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
    fn forget(&self, _: &SshTarget) {}
    fn scan<'a>(&'a self, _: &'a SshTarget) -> BoxFuture<'a, Result<Vec<String>, SshError>> {
        Box::pin(async { Ok(vec![]) })
    }
}

fn target() -> SshTarget {
    SshTarget {
        alias: "pve1".into(),
        host: "h".into(),
        port: 22,
        user: "root".into(),
        key: None,
        extra_args: vec![],
    }
}

/// Both kinds of folder at the same path behave alike.
async fn both(path: &Path, test: impl AsyncFn(Folder<'_>)) {
    let (target, keys) = (target(), HostKeys::Known(vec![]));
    let text = path.to_str().expect("text").to_owned();
    test(Folder::Node {
        remote: &Here,
        target: &target,
        keys: &keys,
        path: &text,
    })
    .await;
    let _ = fs::remove_dir_all(path);
    test(Folder::Local { path, mode: None }).await;
}

#[tokio::test]
async fn a_file_is_written_once_replaced_read_listed_and_removed() {
    let root = tempfile::tempdir().expect("a folder");
    let path = root.path().join("it's snippets");
    both(&path, async |folder| {
        let name = "web1-user-data-ci.yml";
        assert_eq!(folder.read(name).await.expect("read"), None);
        assert!(folder.list().await.expect("listed").is_empty());
        let content = b"#cloud-config\n\nno newline at the end\xff".as_slice();
        assert_eq!(folder.write(name, content).await.expect("written"), Written::Created);
        assert_eq!(folder.write(name, content).await.expect("written"), Written::Unchanged);
        assert_eq!(folder.read(name).await.expect("read").as_deref(), Some(content));
        assert_eq!(
            fs::metadata(path.join(name)).expect("there").permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(folder.write(name, b"").await.expect("written"), Written::Replaced);
        assert_eq!(folder.read(name).await.expect("read"), Some(vec![]));
        folder.write("another.yml", b"x\n").await.expect("written");
        assert_eq!(folder.list().await.expect("listed"), ["another.yml", name]);
        assert_eq!(
            folder
                .read_all(&[name, "nothing.yml", "another.yml"])
                .await
                .expect("read"),
            [Some(vec![]), None, Some(b"x\n".to_vec())]
        );
        let left = fs::read_dir(&path).expect("a folder").count();
        assert_eq!(left, 2, "no temporary file is left");
        assert!(folder.remove(&[name]).await.expect("removed"));
        assert!(!folder.remove(&[name]).await.expect("gone already"));
    })
    .await;
}

#[tokio::test]
async fn a_missing_storage_and_a_file_in_the_folders_place_are_told_apart() {
    let root = tempfile::tempdir().expect("a folder");
    both(&root.path().join("unmounted/snippets"), async |folder| {
        let error = folder.write("a.yml", b"x").await.expect_err("missing");
        assert!(matches!(error, FolderError::Missing(_)), "{error:?}");
    })
    .await;
    let file = root.path().join("snippets");
    fs::write(&file, "by a wrong scp").expect("written");
    both(&file, async |folder| {
        let error = folder.write("a.yml", b"x").await.expect_err("a file");
        assert!(matches!(error, FolderError::NotAFolder(_)), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full() {
    let output = |code, stderr: &str| Output {
        code: Some(code),
        stdout: vec![],
        stderr: stderr.into(),
    };
    let full = output(WRITE_FAILED, "cat: write error: No space left on device\n");
    assert!(matches!(answer("/s", &full), Err(FolderError::Full(_))));
    let other = output(WRITE_FAILED, "cat: write error: Input/output error\n");
    assert!(matches!(answer("/s", &other), Err(FolderError::Failed { .. })));
    assert!(matches!(
        answer("/s", &output(NOT_WRITABLE, "")),
        Err(FolderError::NotWritable(_))
    ));
}

#[tokio::test]
async fn names_stay_inside_the_folder() {
    let root = tempfile::tempdir().expect("a folder");
    both(&root.path().join("s"), async |folder| {
        for name in ["", "..", "../a", "a/b", ".hidden", "-rf", "a b", "a\nb", "$(x)"] {
            assert!(
                matches!(folder.write(name, b"x").await, Err(FolderError::Name(_))),
                "{name:?}"
            );
            assert!(folder.remove(&[name]).await.is_err(), "{name:?}");
        }
    })
    .await;
    assert!(absolute("relative").is_err());
    assert_eq!(
        absolute("/var/lib/vz/snippets/").expect("absolute"),
        "/var/lib/vz/snippets"
    );
}

#[tokio::test]
async fn a_mounted_folder_has_the_mode_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path();
    let mode = |name: &str| mode_of(&path.join(name)).expect("a file");
    let plain = Folder::Local { path, mode: None };
    assert_eq!(plain.write("a.yml", b"x").await.expect("written"), Written::Created);
    assert_eq!(mode("a.yml"), 0o600);
    for (wanted, written) in [
        (0o644, Written::Replaced),
        (0o644, Written::Unchanged),
        (0o640, Written::Replaced),
    ] {
        let folder = Folder::Local {
            path,
            mode: Some(wanted),
        };
        assert_eq!(folder.has_mode("a.yml").expect("a mode"), written == Written::Unchanged);
        assert_eq!(folder.write("a.yml", b"x").await.expect("written"), written);
        assert_eq!(mode("a.yml"), wanted);
        assert!(folder.has_mode("a.yml").expect("a mode"));
    }
    assert!(plain.has_mode("a.yml").expect("any mode"));
    assert_eq!(plain.write("a.yml", b"x").await.expect("looked at"), Written::Unchanged);
    assert_eq!(mode("a.yml"), 0o640, "left as it is");
}
