//! Who is trusted to say that a server is what its address says.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

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
