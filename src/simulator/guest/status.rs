//! What `cloud-init status` prints at each moment, in the words of 22.4.2 and 25.1.4, and the files result.json and
//! status.json.
//!
//! ```text
//!   not run / not started -> running (init, modules-config, modules-final) -> done | error | degraded done
//!   disabled: by the generator (no datasource), or by /etc/cloud/cloud-init.disabled
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The cloud-init of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudInitVersion {
    /// 22.4 (Debian 12).
    V22,
    /// 25.1 (Debian 13).
    #[default]
    V25,
}

/// Why cloud-init does not run at a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disabled {
    /// ds-identify finds no datasource.
    Generator,
    /// `/etc/cloud/cloud-init.disabled` is there.
    MarkerFile,
}

/// How far cloud-init is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Not started.
    Waiting,
    /// init-local and init.
    Init,
    /// modules-config.
    Config,
    /// modules-final.
    Final,
    /// Over.
    Over,
}

/// Where the data came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The drive.
    NoCloud,
    /// The fallback.
    None,
}

/// Errors and recoverable errors, by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Errors of the init stage.
    pub init_errors: Vec<String>,
    /// Errors of the final stage.
    pub final_errors: Vec<String>,
    /// WARNING, seen in init and again in modules-config.
    pub warnings: Vec<String>,
    /// DEPRECATED, likewise.
    pub deprecated: Vec<String>,
    /// WARNING of the final stage.
    pub final_warnings: Vec<String>,
}

/// All that the status depends on. Times are epoch milliseconds.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Version.
    pub version: CloudInitVersion,
    /// Set when it does not run at this boot.
    pub disabled: Option<Disabled>,
    /// Stage now.
    pub stage: Stage,
    /// Datasource.
    pub source: Source,
    /// What went wrong; shown as far as its stage was reached.
    pub report: &'a Report,
    /// Start of the boot.
    pub started_ms: u64,
    /// When the stages init, modules-config, modules-final and the end are reached.
    pub times_ms: [u64; 4],
}

/// The command's outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// `--format=json`.
    pub json: String,
    /// The plain line.
    pub text: String,
    /// `--long`.
    pub long: String,
    /// Exit code.
    pub exit: i32,
    /// Whether `--wait` returns.
    pub over: bool,
}

impl View<'_> {
    fn detail(&self) -> String {
        match (self.source, self.version) {
            (Source::NoCloud, CloudInitVersion::V22) => "DataSourceNoCloud [seed=/dev/sr0][dsmode=net]".to_owned(),
            (Source::NoCloud, CloudInitVersion::V25) => "DataSourceNoCloud [seed=/dev/sr0]".to_owned(),
            (Source::None, CloudInitVersion::V22 | CloudInitVersion::V25) => "DataSourceNone".to_owned(),
        }
    }

    fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.stage > Stage::Init {
            errors.extend(self.report.init_errors.iter().cloned());
        }
        if self.stage == Stage::Over {
            errors.extend(self.report.final_errors.iter().cloned());
        }
        errors
    }

    /// Start of the stage, seconds since boot (25.1) or since the epoch (22.4).
    fn seconds(&self, at_ms: u64) -> Value {
        let ms = match self.version {
            CloudInitVersion::V22 => at_ms,
            CloudInitVersion::V25 => at_ms.saturating_sub(self.started_ms) / 10 * 10 + 4000,
        };
        #[expect(clippy::cast_precision_loss, reason = "milliseconds are far below 2^52")]
        let seconds = ms as f64 / 1000.0;
        json!(seconds)
    }

    fn last_update(&self) -> String {
        let at = match self.stage {
            Stage::Waiting => return String::new(),
            Stage::Init => self.times_ms[0],
            Stage::Config => self.times_ms[1],
            Stage::Final => self.times_ms[2],
            Stage::Over => self.times_ms[3],
        };
        let ms = match self.version {
            CloudInitVersion::V22 => at,
            CloudInitVersion::V25 => at.saturating_sub(self.started_ms) + 4000,
        };
        i64::try_from(ms)
            .ok()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
            .map_or_else(String::new, |at| at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
    }

    fn stages(&self) -> Vec<(&'static str, Value)> {
        let [init, config, last, over] = self.times_ms;
        let local_end = init + config.saturating_sub(init) / 3;
        let rows = [
            ("init", Stage::Init, local_end, config),
            ("init-local", Stage::Init, init, local_end),
            ("modules-config", Stage::Config, config, last),
            ("modules-final", Stage::Final, last, over),
        ];
        rows.into_iter()
            .map(|(name, stage, from, to)| {
                let errors: &[String] = match (name, self.stage > stage) {
                    ("init", true) => &self.report.init_errors,
                    ("modules-final", true) => &self.report.final_errors,
                    _ => &[],
                };
                let mut entry = serde_json::Map::new();
                entry.insert("errors".into(), json!(errors));
                let finished = if self.stage > stage {
                    self.seconds(to)
                } else {
                    Value::Null
                };
                entry.insert("finished".into(), finished);
                if self.version == CloudInitVersion::V25 {
                    entry.insert("recoverable_errors".into(), json!(self.recoverable(name)));
                }
                let start = if self.stage >= stage {
                    self.seconds(from)
                } else {
                    Value::Null
                };
                entry.insert("start".into(), start);
                (name, Value::Object(entry))
            })
            .collect()
    }

    fn recoverable(&self, stage: &str) -> BTreeMap<&'static str, Vec<String>> {
        let mut levels: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut add = |level, texts: &[String]| {
            if !texts.is_empty() {
                levels.entry(level).or_default().extend(texts.iter().cloned());
            }
        };
        let report = self.report;
        match stage {
            "init" if self.stage > Stage::Init => {
                add("WARNING", &report.warnings);
                add("DEPRECATED", &report.deprecated);
            }
            "modules-config" if self.stage > Stage::Config => {
                add("WARNING", &report.warnings);
                add("DEPRECATED", &report.deprecated);
            }
            "modules-final" if self.stage > Stage::Final => {
                add("WARNING", &report.final_warnings);
            }
            _ => {}
        }
        levels
    }

    fn all_recoverable(&self) -> BTreeMap<&'static str, Vec<String>> {
        let mut all: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for stage in ["init-local", "init", "modules-config", "modules-final"] {
            for (level, texts) in self.recoverable(stage) {
                all.entry(level).or_default().extend(texts);
            }
        }
        all
    }

    fn stage_name(&self) -> Value {
        match self.stage {
            Stage::Waiting | Stage::Over => Value::Null,
            Stage::Init => json!("init"),
            Stage::Config => json!("modules-config"),
            Stage::Final => json!("modules-final"),
        }
    }

    /// /run/cloud-init/status.json; none before the first stage or when disabled.
    pub fn status_file(&self) -> Option<String> {
        if self.disabled.is_some() || self.stage == Stage::Waiting {
            return None;
        }
        let mut v1 = serde_json::Map::new();
        v1.insert("datasource".into(), json!(self.detail()));
        for (name, entry) in self.stages() {
            v1.insert(name.into(), entry);
        }
        v1.insert("stage".into(), self.stage_name());
        Some(pretty(&json!({"v1": v1}), 1))
    }

    /// /run/cloud-init/result.json; there only when cloud-init is over.
    pub fn result_file(&self) -> Option<String> {
        (self.disabled.is_none() && self.stage == Stage::Over).then(|| {
            pretty(
                &json!({"v1": {"datasource": self.detail(), "errors": self.errors()}}),
                1,
            )
        })
    }

    /// What the command prints now.
    pub fn printed(&self) -> Printed {
        match self.version {
            CloudInitVersion::V22 => self.printed_22(),
            CloudInitVersion::V25 => self.printed_25(),
        }
    }

    fn boot_status(&self) -> (&'static str, &'static str) {
        match self.disabled {
            Some(Disabled::Generator) => ("disabled-by-generator", "Cloud-init disabled by cloud-init-generator"),
            Some(Disabled::MarkerFile) => (
                "disabled-by-marker-file",
                "Cloud-init disabled by /etc/cloud/cloud-init.disabled",
            ),
            None => (
                "enabled-by-generator",
                "Cloud-init enabled by systemd cloud-init-generator",
            ),
        }
    }

    fn datasource(&self) -> &'static str {
        match (self.disabled, self.stage, self.source) {
            (Some(_), _, _) | (None, Stage::Waiting, _) => "",
            (None, _, Source::NoCloud) => "nocloud",
            (None, _, Source::None) => "none",
        }
    }

    fn printed_22(&self) -> Printed {
        let (code, boot_detail) = self.boot_status();
        let errors = self.errors();
        let (status, detail) = match (self.disabled, self.stage) {
            (Some(_), _) => ("disabled", boot_detail.to_owned()),
            (None, Stage::Waiting) => ("not run", boot_detail.to_owned()),
            (None, _) if !errors.is_empty() => ("error", errors.join("\n")),
            (None, Stage::Over) => ("done", self.detail()),
            (None, _) => (
                "running",
                format!("Running in stage: {}", self.stage_name().as_str().unwrap_or("")),
            ),
        };
        let last_update = if self.disabled.is_some() {
            String::new()
        } else {
            self.last_update()
        };
        let body = json!({
            "boot_status_code": code, "datasource": self.datasource(), "detail": detail, "errors": errors,
            "last_update": last_update, "status": status,
        });
        let whole = json!({
            "_schema_version": "1", "boot_status_code": code, "datasource": self.datasource(), "detail": detail,
            "errors": errors, "last_update": last_update, "schemas": {"1": body}, "status": status,
        });
        let update = if last_update.is_empty() {
            String::new()
        } else {
            format!("last_update: {last_update}\n")
        };
        Printed {
            json: pretty(&whole, 2),
            text: format!("status: {status}\n"),
            long: format!("status: {status}\nboot_status_code: {code}\n{update}detail:\n{detail}\n"),
            exit: i32::from(status == "error"),
            over: self.disabled.is_some() || self.stage == Stage::Over,
        }
    }

    fn printed_25(&self) -> Printed {
        let (code, boot_detail) = self.boot_status();
        let errors = self.errors();
        let recoverable = self.all_recoverable();
        let over = self.stage == Stage::Over;
        let (status, extended) = match (self.disabled, self.stage) {
            (Some(_), _) => ("disabled", "disabled"),
            (None, Stage::Waiting) => ("not started", "not started"),
            (None, _) if !errors.is_empty() => ("error", if over { "error - done" } else { "error - running" }),
            (None, Stage::Over) if recoverable.is_empty() => ("done", "done"),
            (None, Stage::Over) => ("done", "degraded done"),
            (None, _) if recoverable.is_empty() => ("running", "running"),
            (None, _) => ("running", "degraded running"),
        };
        let shown = self.disabled.is_none() && self.stage > Stage::Waiting;
        let detail = if shown { self.detail() } else { boot_detail.to_owned() };
        let last_update = if self.disabled.is_some() {
            String::new()
        } else {
            self.last_update()
        };
        let mut whole = serde_json::Map::new();
        let mut put = |key: &str, value: Value| {
            whole.insert(key.to_owned(), value);
        };
        put("boot_status_code", json!(code));
        put("datasource", json!(self.datasource()));
        put("detail", json!(detail));
        put("errors", json!(errors));
        put("extended_status", json!(extended));
        let stages: BTreeMap<&str, Value> = if shown {
            self.stages().into_iter().collect()
        } else {
            BTreeMap::new()
        };
        for name in ["init", "init-local"] {
            if let Some(entry) = stages.get(name) {
                put(name, entry.clone());
            }
        }
        put("last_update", json!(last_update));
        for name in ["modules-config", "modules-final"] {
            if let Some(entry) = stages.get(name) {
                put(name, entry.clone());
            }
        }
        put("recoverable_errors", json!(recoverable));
        if shown {
            put("stage", self.stage_name());
        }
        put("status", json!(status));
        let update = if last_update.is_empty() {
            String::new()
        } else {
            format!("last_update: {last_update}\n")
        };
        let mut long = format!(
            "status: {status}\nextended_status: {extended}\nboot_status_code: {code}\n{update}detail: {detail}\n"
        );
        long += &listed("errors", &errors);
        if recoverable.is_empty() {
            long += "recoverable_errors: {}\n";
        } else {
            long += "recoverable_errors:\n";
            for (level, texts) in &recoverable {
                long += &listed(level, texts);
            }
        }
        Printed {
            json: pretty(&Value::Object(whole), 2),
            text: format!("status: {status}\n"),
            long,
            exit: match (errors.is_empty(), recoverable.is_empty()) {
                (false, _) => 1,
                (true, false) => 2,
                (true, true) => 0,
            },
            over: self.disabled.is_some() || over,
        }
    }
}

fn listed(name: &str, texts: &[String]) -> String {
    if texts.is_empty() {
        return format!("{name}: []\n");
    }
    let lines: Vec<String> = texts
        .iter()
        .map(|t| format!("\t- {}\n", t.replace('\n', " ")))
        .collect();
    format!("{name}:\n{}", lines.concat())
}

/// JSON as Python's `json.dumps(indent=N)` writes it, with a final newline.
fn pretty(value: &Value, indent: usize) -> String {
    let spaces = vec![b' '; indent];
    let formatter = serde_json::ser::PrettyFormatter::with_indent(&spaces);
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    let mut text = String::from_utf8_lossy(&out).into_owned();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(version: CloudInitVersion, stage: Stage, report: &Report) -> View<'_> {
        View {
            version,
            disabled: None,
            stage,
            source: Source::NoCloud,
            report,
            started_ms: 1_796_075_390_000,
            times_ms: [
                1_796_075_391_000,
                1_796_075_393_000,
                1_796_075_394_000,
                1_796_075_395_000,
            ],
        }
    }

    #[test]
    fn version_22_is_as_recorded() {
        let good = Report::default();
        let done = view(CloudInitVersion::V22, Stage::Over, &good).printed();
        assert_eq!(
            done.json,
            "{\n  \"_schema_version\": \"1\",\n  \"boot_status_code\": \"enabled-by-generator\",\n  \"datasource\": \"nocloud\",\n  \"detail\": \"DataSourceNoCloud [seed=/dev/sr0][dsmode=net]\",\n  \"errors\": [],\n  \"last_update\": \"Mon, 30 Nov 2026 21:49:55 +0000\",\n  \"schemas\": {\n    \"1\": {\n      \"boot_status_code\": \"enabled-by-generator\",\n      \"datasource\": \"nocloud\",\n      \"detail\": \"DataSourceNoCloud [seed=/dev/sr0][dsmode=net]\",\n      \"errors\": [],\n      \"last_update\": \"Mon, 30 Nov 2026 21:49:55 +0000\",\n      \"status\": \"done\"\n    }\n  },\n  \"status\": \"done\"\n}\n"
        );
        assert_eq!((done.exit, done.over), (0, true));
        let running = view(CloudInitVersion::V22, Stage::Config, &good).printed();
        assert!(running.json.contains("Running in stage: modules-config") && !running.over);
        let bad = Report {
            init_errors: vec!["('bootcmd', x)".to_owned()],
            ..Report::default()
        };
        let early = view(CloudInitVersion::V22, Stage::Final, &bad).printed();
        assert_eq!(
            (early.exit, early.over, early.text.as_str()),
            (1, false, "status: error\n")
        );
    }

    #[test]
    fn version_25_has_extended_status_and_exit_2() {
        let warned = Report {
            warnings: vec!["schema".to_owned()],
            ..Report::default()
        };
        let done = view(CloudInitVersion::V25, Stage::Over, &warned).printed();
        let parsed: Value = serde_json::from_str(&done.json).unwrap();
        assert_eq!(parsed["status"], "done");
        assert_eq!(parsed["extended_status"], "degraded done");
        assert_eq!(parsed["recoverable_errors"]["WARNING"], json!(["schema", "schema"]));
        assert_eq!(done.exit, 2);
        let keys: Vec<&str> = parsed.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "boot_status_code",
                "datasource",
                "detail",
                "errors",
                "extended_status",
                "init",
                "init-local",
                "last_update",
                "modules-config",
                "modules-final",
                "recoverable_errors",
                "stage",
                "status"
            ]
        );
        let running = view(CloudInitVersion::V25, Stage::Config, &warned).printed();
        assert!(running.json.contains("degraded running") && running.exit == 2);
        let waiting = view(CloudInitVersion::V25, Stage::Waiting, &warned).printed();
        assert!(waiting.json.contains("not started") && waiting.exit == 0 && !waiting.json.contains("init-local"));
    }

    #[test]
    fn disabled_says_by_what() {
        let good = Report::default();
        let mut at = view(CloudInitVersion::V25, Stage::Waiting, &good);
        at.disabled = Some(Disabled::MarkerFile);
        let printed = at.printed();
        assert!(
            printed
                .json
                .contains("\"boot_status_code\": \"disabled-by-marker-file\"")
        );
        assert_eq!((printed.exit, printed.over), (0, true));
        assert_eq!(at.result_file(), None);
        at.disabled = Some(Disabled::Generator);
        assert!(
            at.printed()
                .long
                .starts_with("status: disabled\nextended_status: disabled\n")
        );
    }
}
