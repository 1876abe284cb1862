//! Who the server must be: the certificate rules of [`Trust`], each as one verifier that tells what it saw.
//!
//! A certificate that is refused carries its SHA-256 in the error, so that the user can compare it with what the node
//! says (`pvenode cert info`) and pin it. The proof that the server holds the certificate's key is always asked for,
//! also where the certificate itself is not looked at.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::machine::Trust;

/// A server certificate that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Distrust {
    /// SHA-256 of the leaf certificate, `AA:BB:...`; `None` if it was not the certificate that was wrong but the proof
    /// of its key.
    pub seen: Option<String>,
    /// Why it was refused.
    pub why: String,
}

impl Distrust {
    /// The refusal in an error's chain of sources, if that is what happened.
    pub fn find(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            match error.downcast_ref::<rustls::Error>() {
                Some(rustls::Error::Other(OtherError(inner))) => return inner.downcast_ref::<Self>().cloned(),
                Some(rustls::Error::InvalidCertificate(why)) => {
                    return Some(Self {
                        seen: None,
                        why: why.to_string(),
                    });
                }
                Some(_) | None => {}
            }
            // An I/O error's source is its inner error's source: the inner error itself must be asked for.
            if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
                && let Some(found) = Self::find(inner)
            {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

/// The SHA-256 of a certificate as Proxmox writes it, `AA:BB:...`.
pub fn fingerprint(digest: [u8; 32]) -> String {
    digest.map(|byte| format!("{byte:02X}")).join(":")
}

/// A client configuration that trusts as told, HTTP/1 only.
///
/// # Errors
///
/// A text that names the file: a CA file that cannot be read or has no certificate; no roots in the system.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let rule = match trust {
        Trust::System => Rule::Chain {
            verifier: chain(system_roots()?, &provider)?,
            roots: "the system's roots".to_owned(),
        },
        Trust::Ca(path) => Rule::Chain {
            verifier: chain(file_roots(path)?, &provider)?,
            roots: format!("the CA in {}", path.display()),
        },
        Trust::Fingerprint(expected) => Rule::Fingerprint(*expected),
        Trust::Insecure => Rule::Anything,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { rule, provider }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good == 0 {
        let why = found
            .errors
            .first()
            .map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!(
            "the system has no root certificates, so no API certificate can be trusted{why}; install ca-certificates, or \
             give the cluster's CA file or the certificate's fingerprint"
        ));
    }
    Ok(roots)
}

fn file_roots(path: &Path) -> Result<RootCertStore, String> {
    let name = path.display();
    let pem = std::fs::read(path).map_err(|error| format!("cannot read the CA file {name}: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("the CA file {name} is no PEM file: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("a certificate of the CA file {name} cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("the CA file {name} has no certificate"));
    }
    Ok(roots)
}

fn chain(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("cannot set up TLS: {error}"))
}

#[derive(Debug)]
enum Rule {
    Chain {
        verifier: Arc<WebPkiServerVerifier>,
        roots: String,
    },
    Fingerprint([u8; 32]),
    Anything,
}

#[derive(Debug)]
struct Verifier {
    rule: Rule,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen: [u8; 32] = Sha256::digest(leaf.as_ref()).into();
        let why = match &self.rule {
            Rule::Chain { verifier, roots } => {
                match verifier.verify_server_cert(leaf, intermediates, name, ocsp, now) {
                    Ok(verified) => return Ok(verified),
                    Err(error) => format!("{error} (verified against {roots})"),
                }
            }
            Rule::Fingerprint(expected) if *expected == seen => return Ok(ServerCertVerified::assertion()),
            Rule::Fingerprint(expected) => format!("the expected fingerprint is {}", fingerprint(*expected)),
            Rule::Anything => return Ok(ServerCertVerified::assertion()),
        };
        Err(rustls::Error::Other(OtherError(Arc::new(Distrust {
            seen: Some(fingerprint(seen)),
            why,
        }))))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_file_must_hold_a_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none.pem");
        let error = client_config(&Trust::Ca(missing.clone())).unwrap_err();
        assert!(
            error.starts_with(&format!("cannot read the CA file {}: ", missing.display())),
            "{error}"
        );
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "no certificate here\n").unwrap();
        let error = client_config(&Trust::Ca(empty)).unwrap_err();
        assert!(error.ends_with("has no certificate"), "{error}");
    }

    #[test]
    fn a_refusal_is_found_inside_io_errors() {
        let distrust = Distrust {
            seen: Some("AA".to_owned()),
            why: "no".to_owned(),
        };
        let tls = rustls::Error::Other(OtherError(Arc::new(distrust.clone())));
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(Distrust::find(&wrapped), Some(distrust));
        assert_eq!(Distrust::find(&io::Error::other("refused")), None);
    }

    #[test]
    fn fingerprints_look_as_proxmox_writes_them() {
        let mut digest = [0; 32];
        digest[0] = 0xf5;
        assert!(fingerprint(digest).starts_with("F5:00:00"));
        assert_eq!(fingerprint(digest).len(), 95);
    }
}
