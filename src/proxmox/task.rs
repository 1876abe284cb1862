//! Tasks: what a worker does, how it ended, what it wrote.
//!
//! Sources: pve-common `PVE::UPID` and `RESTEnvironment::fork_worker`, pve-manager `API2/Tasks.pm`.

use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, param};
use super::error::ApiError;
use super::form;
use super::ids::{NodeName, Upid, VmId};
use super::json;

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Still at work.
    Running,
    /// Ended well.
    Ok,
    /// Ended well, with so many warnings in its log.
    Warnings(u32),
    /// Ended badly, with this text.
    Failed(String),
    /// Ended without a result: killed, or its node went down. What it did is unknown.
    Unexpected,
}

impl TaskStatus {
    /// Reads a finished task's exit status.
    pub fn of_exit(text: &str) -> Self {
        let text = text.trim();
        if text == "OK" {
            return Self::Ok;
        }
        if let Some(count) = text.strip_prefix("WARNINGS: ") {
            return Self::Warnings(count.trim().parse().unwrap_or(1));
        }
        if text.is_empty() || text == "unexpected status" || text.starts_with("unable to get last line from task log") {
            return Self::Unexpected;
        }
        Self::Failed(text.to_owned())
    }
}

/// Which tasks to list; the default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only those whose id field is this VM; a clone's is its source.
    pub vmid: Option<VmId>,
    /// Only this type, `qmclone`.
    pub kind: Option<String>,
    /// Only those that started at or after this, in seconds since the epoch on the node's clock.
    pub since: Option<u64>,
    /// Only those that still run.
    pub running_only: bool,
}

/// A task of a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskInfo {
    /// Its id.
    pub upid: Upid,
    /// `qmclone`, `qmstart`, ...
    #[serde(rename = "type", default, deserialize_with = "json::text")]
    pub kind: String,
    /// What it works on: a VM id mostly.
    #[serde(default, deserialize_with = "json::text")]
    pub id: String,
    /// Who started it, without the token's name.
    #[serde(default, deserialize_with = "json::text")]
    pub user: String,
    /// When it started, in seconds since the epoch.
    #[serde(default, deserialize_with = "json::number")]
    pub starttime: u64,
    /// When it ended; `None` while it runs.
    #[serde(default, deserialize_with = "json::opt_number")]
    pub endtime: Option<u64>,
    /// Its exit status; `None` or `RUNNING` while it runs.
    #[serde(default, deserialize_with = "json::opt_text")]
    pub status: Option<String>,
}

impl TaskInfo {
    /// How it stands.
    pub fn standing(&self) -> TaskStatus {
        match (&self.endtime, &self.status) {
            (None, _) => TaskStatus::Running,
            (Some(_), Some(status)) => TaskStatus::of_exit(status),
            (Some(_), None) => TaskStatus::Unexpected,
        }
    }
}

impl TaskFilter {
    fn takes(&self, task: &TaskInfo) -> bool {
        self.vmid.is_none_or(|vmid| task.id == vmid.to_string())
            && self.kind.as_ref().is_none_or(|kind| task.kind == *kind)
            && self.since.is_none_or(|since| task.starttime >= since)
            && (!self.running_only || task.endtime.is_none())
    }
}

impl Client {
    /// How a task stands; the node that runs it is asked.
    ///
    /// # Errors
    ///
    /// [`super::error::Kind::Missing`] when the node does not know it (any more); as every call.
    pub async fn task_status(&self, upid: &Upid) -> Result<TaskStatus, ApiError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(deserialize_with = "json::text")]
            status: String,
            #[serde(default, deserialize_with = "json::text")]
            exitstatus: String,
        }
        self.get_with(format!("{}/status", path(upid)), Vec::new(), |data| {
            let Raw { status, exitstatus } = json::from_value(data)?;
            match status.as_str() {
                "running" => Ok(TaskStatus::Running),
                "stopped" => Ok(TaskStatus::of_exit(&exitstatus)),
                other => Err(format!("unknown task status {other:?}")),
            }
        })
        .await
    }

    /// Lines of a task's log from `start` on, at most `limit` (0 means all). A log that is still empty, or that is gone,
    /// has no lines.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn task_log(&self, upid: &Upid, start: usize, limit: usize) -> Result<Vec<String>, ApiError> {
        #[derive(Deserialize)]
        struct Line {
            #[serde(default, deserialize_with = "json::text")]
            t: String,
        }
        let params = vec![param("start", start), param("limit", limit)];
        let lines: Vec<Line> = self.list(format!("{}/log", path(upid)), params).await?;
        let lines: Vec<String> = lines.into_iter().map(|line| line.t).collect();
        // pve-common: what stands for a log that is empty or cannot be opened.
        let nothing =
            matches!(lines.as_slice(), [only] if only == "no content" || only.starts_with("unable to open file - "));
        Ok(if nothing { Vec::new() } else { lines })
    }

    /// Tasks of a node, newest first, running ones included. An identity sees its own, and with Sys.Audit on the node
    /// those of others.
    ///
    /// # Errors
    ///
    /// As every call: [`ApiError`].
    pub async fn tasks(&self, node: &NodeName, filter: &TaskFilter) -> Result<Vec<TaskInfo>, ApiError> {
        let mut params = vec![
            param("source", if filter.running_only { "active" } else { "all" }),
            param("limit", 500),
        ];
        params.extend(filter.vmid.map(|vmid| param("vmid", vmid)));
        params.extend(filter.kind.as_ref().map(|kind| param("typefilter", kind)));
        params.extend(filter.since.map(|since| param("since", since)));
        let tasks: Vec<TaskInfo> = self.get_with(format!("/nodes/{node}/tasks"), params, tasks_of).await?;
        Ok(tasks.into_iter().filter(|task| filter.takes(task)).collect())
    }
}

fn tasks_of(data: Value) -> Result<Vec<TaskInfo>, String> {
    json::entries(data)
}

fn path(upid: &Upid) -> String {
    format!("/nodes/{}/tasks/{}", upid.node(), form::segment(upid.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_ends_in_five_ways() {
        assert_eq!(TaskStatus::of_exit("OK"), TaskStatus::Ok);
        assert_eq!(TaskStatus::of_exit("WARNINGS: 2"), TaskStatus::Warnings(2));
        assert_eq!(TaskStatus::of_exit("unexpected status"), TaskStatus::Unexpected);
        assert_eq!(
            TaskStatus::of_exit("unable to get last line from task log - x"),
            TaskStatus::Unexpected
        );
        assert_eq!(
            TaskStatus::of_exit("start failed"),
            TaskStatus::Failed("start failed".to_owned())
        );
    }

    #[test]
    fn the_filter_holds_where_the_node_ignores_it() {
        let task = TaskInfo {
            upid: "UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmclone:9000:root@pam:"
                .parse()
                .unwrap(),
            kind: "qmclone".to_owned(),
            id: "9000".to_owned(),
            user: "root@pam".to_owned(),
            starttime: 1000,
            endtime: None,
            status: Some("RUNNING".to_owned()),
        };
        assert_eq!(task.standing(), TaskStatus::Running);
        let takes = |filter: TaskFilter| filter.takes(&task);
        assert!(takes(TaskFilter::default()));
        assert!(takes(TaskFilter {
            since: Some(1000),
            running_only: true,
            ..TaskFilter::default()
        }));
        assert!(!takes(TaskFilter {
            since: Some(1001),
            ..TaskFilter::default()
        }));
        assert!(!takes(TaskFilter {
            kind: Some("qmstart".to_owned()),
            ..TaskFilter::default()
        }));
        assert!(!takes(TaskFilter {
            vmid: "900".parse().ok(),
            ..TaskFilter::default()
        }));
    }
}
