//! What a command leaves, and a command under way.

use serde_json::Value;
use tokio::process::Child;

use super::PATIENCE;

/// What a command left.
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Both streams, for messages of failed assertions.
    pub fn all(&self) -> String {
        format!(
            "exit code {}\n--- stdout\n{}\n--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }

    /// The exit code is this one.
    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code, code, "{}", self.all());
    }

    /// Standard output or standard error contains this.
    #[track_caller]
    pub fn assert_says(&self, text: &str) {
        assert!(
            self.stdout.contains(text) || self.stderr.contains(text),
            "{text:?} is not in\n{}",
            self.all()
        );
    }
}

impl Run {
    /// Neither stream contains this.
    #[track_caller]
    pub fn assert_silent_about(&self, text: &str) {
        assert!(
            !self.stdout.contains(text) && !self.stderr.contains(text),
            "{text:?} is in\n{}",
            self.all()
        );
    }

    /// Standard output as one JSON object a line.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| match serde_json::from_str(line) {
                Ok(event) => event,
                Err(error) => panic!("{error}: {line}\n{}", self.all()),
            })
            .collect()
    }

    /// The stages that a host began, in order (`--output json`).
    pub fn stages(&self, host: &str) -> Vec<String> {
        self.events()
            .iter()
            .filter(|event| event["event"] == "stage-started" && event["host"] == host)
            .map(|event| event["stage"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// A host's last event (`--output json`).
    #[track_caller]
    pub fn end(&self, host: &str) -> Value {
        self.events()
            .into_iter()
            .find(|event| event["event"] == "host-done" && event["host"] == host)
            .unwrap_or_else(|| panic!("{host} has no end in\n{}", self.all()))
    }
}

/// A command under way. Dropping it kills it.
pub struct Started(pub(super) Child);

impl Started {
    /// Its process.
    pub fn pid(&self) -> u32 {
        // Never 0: a signal to that goes to the tests' own process group.
        self.0.id().expect("it was not waited for yet")
    }

    /// Sends a signal: `INT`, `KILL`.
    pub fn signal(&self, name: &str) {
        let sent = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("kill -{name} {}", self.pid())])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.0.start_kill().unwrap();
    }

    /// Waits for its end.
    pub async fn end(self) -> Run {
        let output = tokio::time::timeout(PATIENCE, self.0.wait_with_output())
            .await
            .expect("the command ends")
            .unwrap();
        Run::of(&output)
    }
}

impl Run {
    /// What an ended process left.
    pub fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
