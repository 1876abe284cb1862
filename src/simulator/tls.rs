//! The cluster's certificate authority and its certificate, kept in the world's directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};

/// The CA's certificate.
pub const CA_FILE: &str = "pve-root-ca.pem";
/// The leaf certificate.
pub const LEAF_FILE: &str = "pve-ssl.pem";
const KEY_FILE: &str = "pve-ssl.key";

/// What the HTTPS door serves with.
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    /// SHA-256 of the leaf, `AA:BB:...`.
    pub(crate) fingerprint: String,
}

/// Reads the certificates of a directory; makes them first when they are not there.
pub(crate) fn identity(dir: &Path, names: &[String]) -> io::Result<Identity> {
    if !dir.join(KEY_FILE).exists() {
        make(dir, names).map_err(io::Error::other)?;
    }
    let leaf = CertificateDer::from_pem_file(dir.join(LEAF_FILE)).map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(dir.join(KEY_FILE)).map_err(io::Error::other)?;
    let fingerprint = Sha256::digest(&leaf)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect::<Vec<_>>()
        .join(":");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![leaf], key))
        .map_err(io::Error::other)?;
    Ok(Identity {
        config: Arc::new(config),
        fingerprint,
    })
}

fn make(dir: &Path, names: &[String]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name
        .push(DnType::CommonName, "Proxmox Virtual Environment (simulated)");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);
    let mut sans = vec!["127.0.0.1".to_owned(), "::1".to_owned(), "localhost".to_owned()];
    sans.extend(names.iter().cloned());
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(sans)?;
    leaf.distinguished_name
        .push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
    leaf.use_authority_key_identifier_extension = true;
    let leaf_pem = leaf.signed_by(&key, &issuer)?.pem();
    std::fs::write(dir.join(CA_FILE), ca_pem)?;
    std::fs::write(dir.join(LEAF_FILE), leaf_pem)?;
    super::keep::write_private(&dir.join(KEY_FILE), key.serialize_pem().as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_certificate_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["pve-0".to_owned()];
        let first = identity(dir.path(), &names).unwrap();
        let second = identity(dir.path(), &names).unwrap();
        assert_eq!(first.fingerprint, second.fingerprint);
        assert_eq!(first.fingerprint.len(), 95);
        assert!(dir.path().join(CA_FILE).exists());
    }
}
