//! The real door.
use super::error::ApiError;
use super::transport::{ApiRequest, ApiResponse, Transport, TransportError};
use crate::machine::Cluster;
use futures_util::future::BoxFuture;
/// HTTPS.
pub struct HttpsTransport;
impl HttpsTransport {
    /// New.
    ///
    /// # Errors
    ///
    /// Setup.
    pub fn new(_cluster: &Cluster) -> Result<Self, ApiError> {
        Ok(Self)
    }
}
impl Transport for HttpsTransport {
    fn exchange(&self, _request: ApiRequest) -> BoxFuture<'_, Result<ApiResponse, TransportError>> {
        Box::pin(std::future::ready(Err(TransportError::NotSent(
            "not built yet".to_owned(),
        ))))
    }
}
