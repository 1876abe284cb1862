//! How the API's certificate is verified. Verification is on unless somebody switches it off in so many words.

use std::path::Path;

use super::Trust;
use super::reader::{Field, Reader};

/// How the certificate is verified: a fingerprint is the tightest, then a CA file, then the system's roots.
pub(super) fn build(reader: &mut Reader<'_>) -> Option<Trust> {
    let insecure = reader.get("vms_pve_tls_insecure");
    let is_insecure = reader.flag("vms_pve_tls_insecure");
    let ca = reader.get("global_proxmox_api_ca_file");
    let pin = reader.get("global_proxmox_api_fingerprint");
    if let (true, Some(field)) = (is_insecure, &insecure) {
        reader.push(if ca.is_some() || pin.is_some() {
            field
                .warning("machine/insecure-ignored", "vms_pve_tls_insecure does nothing here")
                .rule("a CA file or a fingerprint is set: the certificate is verified")
                .help("remove vms_pve_tls_insecure")
        } else {
            field
                .warning(
                    "machine/insecure",
                    "the API's certificate is not verified (vms_pve_tls_insecure)",
                )
                .rule("whoever sits between here and the API can read the token")
                .help("set global_proxmox_api_fingerprint or global_proxmox_api_ca_file instead")
        });
    }
    match (pin, ca) {
        (Some(pin), ca) => {
            if let Some(ca) = ca {
                reader.push(
                    ca.warning("machine/two-trusts", "global_proxmox_api_ca_file is not looked at")
                        .rule("global_proxmox_api_fingerprint is set and names the one certificate"),
                );
            }
            fingerprint(reader, &pin).map(Trust::Fingerprint)
        }
        (None, Some(ca)) => {
            let path = reader.path(&ca)?;
            match ca_fault(&path) {
                None => Some(Trust::Ca(path)),
                Some(fault) => {
                    reader.push(
                        ca.error("machine/ca-file", format!("{} cannot be used: {fault}", path.display()))
                            .rule("a PEM file with at least one certificate")
                            .help("copy /etc/pve/pve-root-ca.pem from a node"),
                    );
                    None
                }
            }
        }
        (None, None) if is_insecure => Some(Trust::Insecure),
        (None, None) => Some(Trust::System),
    }
}

/// Why a CA file cannot be used.
fn ca_fault(path: &Path) -> Option<String> {
    match std::fs::read_to_string(path) {
        Err(err) => Some(err.to_string()),
        Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => None,
        Ok(_) => Some("there is no certificate in it".to_owned()),
    }
}

/// 32 bytes in hexadecimal, with or without colons and the name of the hash.
fn fingerprint(reader: &mut Reader<'_>, field: &Field) -> Option<[u8; 32]> {
    let text = reader.text(field)?;
    let bare = match text.get(..7) {
        Some(prefix) if prefix.eq_ignore_ascii_case("sha256:") => &text[7..],
        _ => text.as_str(),
    };
    let digits: String = bare.trim().chars().filter(|c| *c != ':').collect();
    let bytes: Option<Vec<u8>> = (digits.len() == 64 && digits.is_ascii()).then(|| {
        (0..64)
            .step_by(2)
            .filter_map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok())
            .collect()
    });
    match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(bytes) => Some(bytes),
        None => {
            reader.push(
                field
                    .error(
                        "machine/fingerprint",
                        format!("{} is no SHA-256 fingerprint", field.path),
                    )
                    .rule("64 hexadecimal digits, with or without colons")
                    .note(None, "a fingerprint of 40 digits is SHA-1, which is not accepted")
                    .help("pvenode cert info, on a node, prints it"),
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{TestVars, codes, good, problems, warnings};

    #[test]
    fn verification_is_on_unless_it_is_switched_off() {
        let trust = |vars: &TestVars| vars.build().unwrap().machine.cluster.trust;
        assert_eq!(trust(&good()), Trust::System);
        let insecure = good().set("vms_pve_tls_insecure", true);
        assert_eq!(trust(&insecure), Trust::Insecure);
        assert_eq!(warnings(&insecure), ["machine/insecure"]);

        let mut bytes = [0xAB; 32];
        bytes[31] = 1;
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
        for text in [
            hex.join(":"),
            hex.concat().to_lowercase(),
            format!("SHA256:{}", hex.join(":")),
        ] {
            assert_eq!(
                trust(&good().set("global_proxmox_api_fingerprint", text)),
                Trust::Fingerprint(bytes)
            );
        }
        let both = insecure.set("global_proxmox_api_fingerprint", hex.concat());
        assert_eq!(trust(&both), Trust::Fingerprint(bytes));
        assert_eq!(warnings(&both), ["machine/insecure-ignored"]);
    }

    #[test]
    fn a_ca_file_is_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "no certificate").unwrap();
        let vars = good().set("global_proxmox_api_ca_file", path.to_str().unwrap());
        assert_eq!(codes(&problems(&vars)), ["machine/ca-file"]);
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert_eq!(vars.build().unwrap().machine.cluster.trust, Trust::Ca(path));
    }
}
