//! Who is trusted to say that a server is what its address says.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// How it begins what there is to say of a connection that is none because the two do not agree on TLS.
pub(crate) const NO_TLS: &str = "no TLS";
/// What to look at then.
pub(crate) const TLS_LOOK: &str = "does it speak TLS at this port, is its certificate valid, for this name or address, \
                                   and its authority trusted (?ca=FILE)? Clients have no certificates: it must not \
                                   ask for one";

/// Whether this was said, as above or by a server that ends what had begun.
pub(crate) fn is_of_tls(says: &str) -> bool {
    [NO_TLS, "received fatal alert", "invalid peer certificate", "received corrupt message"]
        .iter()
        .any(|words| says.contains(words))
}

/// # Errors
/// The file that is named cannot be read, or has no authority, in words.
pub(crate) fn check(authority: Option<&Path>) -> Result<(), String> {
    match authority {
        None => Ok(()),
        some => trusting(some).map(drop).map_err(|why| why.to_string()),
    }
}

/// Connections that trust the authorities in the file `authority` (PEM), else those of the system.
pub(crate) fn trusting(
    authority: Option<&Path>,
) -> Result<Arc<ClientConfig>, Box<dyn Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    let place = match authority {
        Some(file) => {
            let place = file.display().to_string();
            let failed = |why| format!("the authorities in {place}: {why}");
            for certificate in CertificateDer::pem_file_iter(file).map_err(failed)? {
                roots.add(certificate.map_err(failed)?)?;
            }
            place
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            "the system (Debian: ca-certificates)".to_string()
        }
    };
    if roots.is_empty() {
        return Err(format!("no authority to trust in {place}").into());
    }
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
