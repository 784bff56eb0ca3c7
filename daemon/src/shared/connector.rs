//! HTTP to S3-compatible storage, over the hyper that serves the API.
//!
//! - HTTP/1.1 alone; no redirect is followed and no proxy is asked.
//! - TLS with the certificates that the system trusts.

use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, Error};

#[derive(Debug)]
pub struct Connector;

#[derive(Debug)]
struct Service(Client<HttpsConnector<Tcp>, HttpRequestBody>);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error| Error::Generic { store: "S3", source: Box::new(error) };
        let connector = HttpsConnectorBuilder::new().with_native_roots().map_err(failed)?;
        let connector = connector.https_or_http().enable_http1().build();
        Ok(HttpClient::new(Service(Client::builder(TokioExecutor::new()).build(connector))))
    }
}

impl HttpService for Service {
    // As the trait's macro writes it.
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = self.0.request(request).await.map_err(|error| {
                let kind = if error.is_connect() {
                    HttpErrorKind::Connect
                } else {
                    HttpErrorKind::Interrupted
                };
                HttpError::new(kind, error)
            })?;
            let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
            Ok(answer.map(|body| HttpResponseBody::new(body.map_err(broken))))
        })
    }
}
