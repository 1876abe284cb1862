//! How a request fails: status, the reason's text, and the map of bad parameters.

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status code.
    pub status: u16,
    /// The message without the line's end; its first line is the reason phrase.
    pub message: String,
    /// Bad parameters and why.
    pub errors: Vec<(String, String)>,
    /// Whether the body is plain text (failures below the API), or empty.
    pub plain: bool,
}

impl ApiError {
    /// 500 with a text.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            status: 500,
            message: message.into(),
            errors: Vec::new(),
            plain: false,
        }
    }

    /// 403 with what stands in the parentheses.
    pub(crate) fn denied(what: &str) -> Self {
        Self {
            status: 403,
            message: if what.is_empty() {
                "Permission check failed".to_owned()
            } else {
                format!("Permission check failed ({what})")
            },
            errors: Vec::new(),
            plain: false,
        }
    }

    /// 400 about one parameter.
    pub(crate) fn invalid(name: &str, text: impl Into<String>) -> Self {
        Self::invalid_all(vec![(name.to_owned(), text.into())])
    }

    /// 400 about several parameters.
    pub(crate) fn invalid_all(errors: Vec<(String, String)>) -> Self {
        Self {
            status: 400,
            message: "Parameter verification failed.".to_owned(),
            errors,
            plain: false,
        }
    }

    /// A failure of the HTTP daemon with a text body.
    pub(crate) fn daemon(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            errors: Vec::new(),
            plain: true,
        }
    }

    /// The missing configuration of a VM.
    pub(crate) fn no_config(node: &str, vmid: u32) -> Self {
        Self::failed(format!(
            "Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist"
        ))
    }

    /// The failure as a task's exit status: one line, with the code when it is not 500.
    pub(crate) fn task_text(&self) -> String {
        let mut text = if self.status == 500 {
            self.message.clone()
        } else {
            format!("{} {}", self.status, self.message)
        };
        for (name, why) in &self.errors {
            text.push_str(&format!(" {name}: {}", why.trim_end()));
        }
        text.replace('\n', " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_texts_are_one_line() {
        let error = ApiError::invalid("scsi1", "hotplug problem - busy\n");
        assert_eq!(
            error.task_text(),
            "400 Parameter verification failed. scsi1: hotplug problem - busy"
        );
        assert_eq!(
            ApiError::denied("/, Sys.Audit").message,
            "Permission check failed (/, Sys.Audit)"
        );
    }
}
