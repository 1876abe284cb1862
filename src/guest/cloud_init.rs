//! The verdict on `cloud-init status`: a table, from exit code and JSON. Never a search for words in free text.
//!
//! ```text
//!   status        extended_status     errors  recoverable       verdict
//!   not run, not started, running     none    any               Running           (exit 0, or 2 from 23.4 on)
//!   done          absent, done        none    none              Done
//!   done          degraded done       none    DEPRECATED only   Done, with warnings
//!   done          degraded done       none    others            Degraded
//!   done          ... running         none    any               Running
//!   error         error - running     any     any               Error, not over
//!   error         error - done        any     any               Error, over
//!   error         absent (22.4)       any     -                 Error; over if result.json exists
//!   disabled                                                    Disabled
//!   anything else, a contradiction, no JSON                     Unreadable: no evidence, ask again
//! ```
//!
//! Facts (recorded from 22.4.2 and 25.1.4): exit code 2 may mean no more than a deprecated key, and appears while it still
//! runs; 22.4 repeats everything under `schemas.1` and has neither `extended_status` nor `recoverable_errors`; its `done`
//! does not prove that the user-data was used; `error` appears while later stages still run. 25.1 may report an error
//! once while systemd's units settle: the caller believes an error when it sees it twice.

use serde_json::{Map, Value};

/// What `cloud-init status` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not at its end yet.
    Running {
        /// The stage, where it is told: `init`, `modules-final`.
        stage: Option<String>,
    },
    /// At its end, without fault.
    Done {
        /// Deprecated keys in the documents: to be shown, no failure.
        warnings: Vec<String>,
    },
    /// At its end, with faults that cloud-init calls recoverable.
    Degraded {
        /// Level (`WARNING`, `ERROR`, ...) and text.
        problems: Vec<(String, String)>,
    },
    /// Something failed.
    Error {
        /// Whether later stages still run; `None` if it is not told.
        over: Option<bool>,
        /// What failed.
        errors: Vec<String>,
    },
    /// Switched off: no datasource, or by a file or the kernel's command line.
    Disabled,
    /// The command does not exist on the guest.
    NotInstalled,
    /// No evidence at all.
    Unreadable(Why),
}

/// Why an answer is no evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The call did not end within its own time.
    #[error("`cloud-init status` did not end within its time")]
    TimedOut,
    /// A signal ended it.
    #[error("`cloud-init status` was ended by a signal")]
    Killed,
    /// Neither JSON nor the text of old releases: for example a Python traceback.
    #[error("`cloud-init status` (exit code {code}) printed {head:?}")]
    NoStatus {
        /// Exit code.
        code: i32,
        /// The last line that says something, shortened.
        head: String,
    },
    /// A status that this table does not know.
    #[error("`cloud-init status` answered the unknown status {0:?}")]
    UnknownStatus(String),
    /// The parts of the answer exclude each other.
    #[error("`cloud-init status` contradicts itself: {0}")]
    Contradiction(String),
}

/// One answer, and what the guest told beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The boot that the answer is about.
    pub boot_id: String,
    /// Whether `/run/cloud-init/result.json` exists: cloud-init's last stage is over in this boot.
    pub result_present: bool,
    /// Whether a shutdown or reboot is scheduled (`power_state`, unattended upgrades).
    pub shutdown_scheduled: bool,
    /// Exit code of the status command.
    pub exit: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Sample {
    /// The verdict, completed by what the guest told beside it.
    pub fn verdict(&self) -> Verdict {
        match judge(self.exit, &self.stdout, &self.stderr) {
            Verdict::Error { over: None, errors } => Verdict::Error {
                over: Some(self.result_present),
                errors,
            },
            other => other,
        }
    }
}

/// The verdict on one answer of `cloud-init status --format=json`, or of the plain text of releases that lack it.
pub fn judge(exit: Option<i32>, stdout: &str, stderr: &str) -> Verdict {
    let Some(code) = exit else {
        return Verdict::Unreadable(Why::Killed);
    };
    match code {
        // timeout(1): 124 ended, 137 killed.
        124 | 137 => return Verdict::Unreadable(Why::TimedOut),
        127 => return Verdict::NotInstalled,
        _ => {}
    }
    let facts = match serde_json::from_str::<Value>(stdout) {
        Ok(Value::Object(json)) => Facts::of_json(&json),
        Ok(_) | Err(_) => Facts::of_text(stdout),
    };
    match facts {
        Ok(Some(facts)) => facts.verdict(code),
        Ok(None) => Verdict::Unreadable(Why::NoStatus {
            code,
            head: last_words(stderr).or_else(|| last_words(stdout)).unwrap_or_default(),
        }),
        Err(why) => Verdict::Unreadable(why),
    }
}

/// The parts of an answer that count.
struct Facts {
    status: String,
    extended: Option<String>,
    errors: Vec<String>,
    recoverable: Vec<(String, String)>,
    stage: Option<String>,
}

impl Facts {
    /// JSON; 22.4 has all keys also under `schemas.1`, which wins where it is.
    fn of_json(json: &Map<String, Value>) -> Result<Option<Self>, Why> {
        let inner = json.get("schemas").and_then(|s| s.get("1")).and_then(Value::as_object);
        let get = |key: &str| inner.and_then(|i| i.get(key)).or_else(|| json.get(key));
        let Some(status) = get("status").and_then(Value::as_str) else {
            return Ok(None);
        };
        if let Some(outer) = json.get("status").and_then(Value::as_str)
            && outer != status
        {
            return Err(Why::Contradiction(format!(
                "status {outer:?}, and {status:?} in its schema 1"
            )));
        }
        let mut recoverable = Vec::new();
        if let Some(levels) = get("recoverable_errors").and_then(Value::as_object) {
            for (level, texts) in levels {
                recoverable.extend(texts_of(texts).into_iter().map(|t| (level.clone(), t)));
            }
        }
        recoverable.dedup();
        Ok(Some(Self {
            status: status.to_owned(),
            extended: get("extended_status").and_then(Value::as_str).map(str::to_owned),
            errors: get("errors").map(texts_of).unwrap_or_default(),
            recoverable,
            stage: get("stage").and_then(Value::as_str).map(str::to_owned),
        }))
    }

    /// `status: X` on a line of its own, as releases 18 to 22 print it; `--long` adds `extended_status: X` (23.4 on) and
    /// `detail:`.
    fn of_text(text: &str) -> Result<Option<Self>, Why> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.trim_start_matches('.').strip_prefix(key)?.strip_prefix(": "))
                .map(|v| v.trim().to_owned())
        };
        let Some(status) = value("status") else {
            return Ok(None);
        };
        let detail = text
            .lines()
            .skip_while(|l| !l.starts_with("detail:"))
            .map(|l| l.trim_start_matches("detail:").trim())
            .find(|l| !l.is_empty());
        let errors = match (status.as_str(), detail) {
            ("error", Some(detail)) => vec![detail.to_owned()],
            _ => Vec::new(),
        };
        Ok(Some(Self {
            status,
            extended: value("extended_status"),
            errors,
            recoverable: Vec::new(),
            stage: None,
        }))
    }

    fn verdict(self, code: i32) -> Verdict {
        let runs_still = self.extended.as_deref().is_some_and(|e| e.ends_with("running"));
        let running = |stage| Verdict::Running { stage };
        match self.status.as_str() {
            "not run" | "not started" | "running" | "done" if !self.errors.is_empty() => Verdict::Error {
                over: Some(self.status == "done" && !runs_still),
                errors: self.errors,
            },
            // Exit code 1 is "error": with any other status one of the two is wrong.
            "not run" | "not started" | "running" | "done" | "disabled" if !matches!(code, 0 | 2) => {
                Verdict::Unreadable(Why::Contradiction(format!(
                    "status {:?} with exit code {code}",
                    self.status
                )))
            }
            "not run" | "not started" | "running" => running(self.stage),
            "done" if runs_still => running(self.stage),
            "done" => self.done(code),
            "error" => Verdict::Error {
                over: match self.extended.as_deref() {
                    Some("error - done") => Some(true),
                    Some(_) if runs_still => Some(false),
                    Some(_) | None => None,
                },
                errors: self.errors,
            },
            "disabled" => Verdict::Disabled,
            other => Verdict::Unreadable(Why::UnknownStatus(other.to_owned())),
        }
    }

    /// `done`: how well?
    fn done(self, code: i32) -> Verdict {
        let degraded = match self.extended.as_deref() {
            None | Some("done") => code == 2,
            Some("degraded done") => true,
            Some(other) => {
                return Verdict::Unreadable(Why::Contradiction(format!("status \"done\", extended {other:?}")));
            }
        };
        let only_deprecated = self.recoverable.iter().all(|(level, _)| level == "DEPRECATED");
        if self.recoverable.is_empty() {
            match degraded {
                true => Verdict::Degraded { problems: Vec::new() },
                false => Verdict::Done { warnings: Vec::new() },
            }
        } else if only_deprecated {
            Verdict::Done {
                warnings: self.recoverable.into_iter().map(|(_, text)| text).collect(),
            }
        } else {
            Verdict::Degraded {
                problems: self.recoverable,
            }
        }
    }
}

/// The texts of a list, each once, in order.
fn texts_of(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for item in value.as_array().into_iter().flatten() {
        let text = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// The last line that says something, at most 200 characters.
fn last_words(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|l| !l.is_empty())?;
    Some(line.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Verdict {
        Verdict::Done { warnings: vec![] }
    }

    fn json(status: &str, extra: &str) -> String {
        format!(r#"{{"status":"{status}"{extra}}}"#)
    }

    /// The vectors of the systems that vmwright replaces: one passes, eleven do not.
    #[test]
    fn only_a_good_end_is_done() {
        let good = r#","errors":[],"recoverable_errors":{},"extended_status":"done""#;
        assert_eq!(judge(Some(0), &json("done", good), ""), done());
        assert_eq!(
            judge(Some(0), &json("done", r#","errors":[]"#), ""),
            done(),
            "22.4 tells no more"
        );
        let refused: [(Option<i32>, String); 11] = [
            (Some(0), json("running", "")),
            (Some(0), json("not started", "")),
            (Some(0), json("disabled", "")),
            (Some(1), json("done", good)),
            (Some(124), String::new()),
            (Some(2), json("done", good)),
            (Some(0), json("done", r#","errors":["boom"]"#)),
            (Some(0), json("done", r#","recoverable_errors":{"WARNING":["w"]}"#)),
            (Some(0), json("done", r#","extended_status":"degraded done""#)),
            (Some(0), "{not json".to_owned()),
            (None, json("done", good)),
        ];
        for (exit, stdout) in refused {
            let verdict = judge(exit, &stdout, "");
            assert!(
                !matches!(verdict, Verdict::Done { .. }),
                "{exit:?} {stdout}: {verdict:?}"
            );
        }
    }

    #[test]
    fn what_still_runs_is_waited_for_whatever_the_exit_code() {
        for (code, status, extra) in [
            (0, "not run", ""),
            (0, "not started", r#","extended_status":"not started""#),
            (0, "running", ""),
            (
                2,
                "running",
                r#","extended_status":"degraded running","recoverable_errors":{"WARNING":["w"]}"#,
            ),
            (2, "done", r#","extended_status":"degraded running""#),
        ] {
            let verdict = judge(Some(code), &json(status, extra), "");
            assert!(
                matches!(verdict, Verdict::Running { .. }),
                "{status}{extra}: {verdict:?}"
            );
        }
    }

    #[test]
    fn an_error_tells_whether_it_is_over_where_it_can() {
        let over = |extra: &str| match judge(Some(1), &json("error", extra), "") {
            Verdict::Error { over, .. } => over,
            other => panic!("{other:?}"),
        };
        assert_eq!(over(r#","extended_status":"error - done""#), Some(true));
        assert_eq!(over(r#","extended_status":"error - running""#), Some(false));
        assert_eq!(over(""), None);
        let mut sample = Sample {
            boot_id: String::new(),
            result_present: false,
            shutdown_scheduled: false,
            exit: Some(1),
            stdout: json("error", r#","errors":["e"]"#),
            stderr: String::new(),
        };
        let with = |over| Verdict::Error {
            over: Some(over),
            errors: vec!["e".into()],
        };
        assert_eq!(sample.verdict(), with(false));
        sample.result_present = true;
        assert_eq!(sample.verdict(), with(true));
    }

    #[test]
    fn deprecated_keys_alone_are_warnings() {
        let extra = r#","extended_status":"degraded done","recoverable_errors":{"DEPRECATED":["old","old"]}"#;
        assert_eq!(
            judge(Some(2), &json("done", extra), ""),
            Verdict::Done {
                warnings: vec!["old".into()]
            }
        );
        let extra = r#","extended_status":"degraded done","recoverable_errors":{"DEPRECATED":["old"],"WARNING":["w"]}"#;
        let Verdict::Degraded { problems } = judge(Some(2), &json("done", extra), "") else {
            panic!()
        };
        assert_eq!(
            problems,
            [("DEPRECATED".into(), "old".into()), ("WARNING".into(), "w".into())]
        );
    }

    #[test]
    fn the_word_error_in_a_text_is_no_error() {
        let extra = r#","detail":"error: no error at all","errors":[]"#;
        assert_eq!(judge(Some(0), &json("done", extra), "error error"), done());
        assert_eq!(
            judge(Some(0), "status: done\ndetail:\nthe error module ran\n", ""),
            done()
        );
    }

    #[test]
    fn the_first_schema_wins_and_may_not_contradict() {
        let both = r#"{"_schema_version":"1","status":"done","schemas":{"1":{"status":"done","errors":["x"]}}}"#;
        assert!(matches!(
            judge(Some(0), both, ""),
            Verdict::Error { over: Some(true), .. }
        ));
        let torn = r#"{"status":"done","schemas":{"1":{"status":"running"}}}"#;
        assert!(matches!(
            judge(Some(0), torn, ""),
            Verdict::Unreadable(Why::Contradiction(_))
        ));
        let inner = r#"{"schemas":{"1":{"status":"running"}}}"#;
        assert_eq!(judge(Some(0), inner, ""), Verdict::Running { stage: None });
    }

    #[test]
    fn old_releases_answer_in_plain_text() {
        assert_eq!(judge(Some(0), "status: done\n", ""), done());
        assert_eq!(judge(Some(0), "\n....status: done\n", ""), done(), "the dots of --wait");
        assert_eq!(
            judge(Some(0), "status: not run\n", ""),
            Verdict::Running { stage: None }
        );
        assert_eq!(
            judge(Some(0), "status: disabled\ndetail:\nCloud-init disabled by\n", ""),
            Verdict::Disabled
        );
        assert_eq!(
            judge(Some(1), "status: error\ntime: Mon\ndetail:\n('ssh', KeyError())\n", ""),
            Verdict::Error {
                over: None,
                errors: vec!["('ssh', KeyError())".into()]
            }
        );
    }

    #[test]
    fn no_evidence_is_no_verdict() {
        assert_eq!(judge(Some(127), "", "sh: cloud-init: not found"), Verdict::NotInstalled);
        assert_eq!(judge(Some(124), "", ""), Verdict::Unreadable(Why::TimedOut));
        assert_eq!(judge(None, "", ""), Verdict::Unreadable(Why::Killed));
        let traceback = "Traceback (most recent call last):\nFileNotFoundError: /run/cloud-init/status.json\n";
        let Verdict::Unreadable(why) = judge(Some(1), "", traceback) else {
            panic!()
        };
        assert!(why.to_string().contains("FileNotFoundError"), "{why}");
        assert!(matches!(
            judge(Some(0), &json("sleeping", ""), ""),
            Verdict::Unreadable(Why::UnknownStatus(_))
        ));
        assert!(matches!(
            judge(Some(0), "[]", ""),
            Verdict::Unreadable(Why::NoStatus { .. })
        ));
    }
}
