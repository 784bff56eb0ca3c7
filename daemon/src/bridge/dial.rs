//! The socket to the agent.

use std::time::Duration;

use axum::http::Uri;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tower_service::Service;

const CONNECT: Duration = Duration::from_secs(10);

/// The agent takes a megabyte.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Codes by which the agent closes a connection.
const UNAUTHORIZED: u16 = 4001;
const SUPERSEDED: u16 = 4003;

pub type Socket = WebSocketStream<Box<dyn Stream>>;

/// TCP, or TLS over it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("the agent cannot be reached ({0}): start it, or correct the setting `device_bridge`")]
    Unreachable(String),
    #[error(
        "the agent refuses the pairing token: write its ELIZA_DEVICE_PAIRING_TOKEN to the file of the setting `device_bridge_token_file`"
    )]
    Token,
    #[error(
        "another connection of this device took the place of this one: end the hobd that has a copy of this data directory"
    )]
    Superseded,
    #[error("the agent has sent nothing for {0} s: restart it if it hangs; hobd connects again")]
    Silent(u64),
    #[error(
        "the agent has taken no message for {0} s: restart it if it hangs; hobd connects again"
    )]
    Stalled(u64),
    #[error("the agent closed the connection: start it if it has ended; hobd connects again")]
    Closed,
    #[error("the connection failed: {0}; start the agent if it has ended; hobd connects again")]
    Failed(String),
}

/// Connects. `token`: the pairing token, which the address and the registration both need.
pub async fn dial(url: &str, token: Option<&str>) -> Result<Socket, ConnectionError> {
    let unreachable =
        |error: &dyn std::fmt::Display| ConnectionError::Unreachable(error.to_string());
    let uri: Uri = url.parse().map_err(|error| unreachable(&error))?;
    let connected = timeout(CONNECT, connect(&uri)).await;
    let stream =
        connected.map_err(|_| ConnectionError::Unreachable("it does not answer".to_owned()))??;
    let address = match token {
        Some(token) => {
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            format!("{url}?token={token}")
        }
        None => url.to_owned(),
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let opened = timeout(CONNECT, client_async_with_config(address, stream, Some(config))).await;
    let opened =
        opened.map_err(|_| ConnectionError::Unreachable("it does not answer".to_owned()))?;
    opened.map(|(socket, _)| socket).map_err(|error| unreachable(&error))
}

async fn connect(uri: &Uri) -> Result<Box<dyn Stream>, ConnectionError> {
    let unreachable =
        |error: &dyn std::fmt::Display| ConnectionError::Unreachable(error.to_string());
    let host = uri.host().unwrap_or_default();
    if uri.scheme_str() == Some("ws") {
        let host = host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await;
        return Ok(Box::new(stream.map_err(|error| unreachable(&error))?));
    }
    let builder = HttpsConnectorBuilder::new().with_native_roots();
    let builder = builder.map_err(|error| unreachable(&error))?;
    let mut connector = builder.https_only().enable_http1().build();
    let address = format!("https://{host}:{}", uri.port_u16().unwrap_or(443));
    let address =
        address.parse().map_err(|error: axum::http::uri::InvalidUri| unreachable(&error))?;
    let stream = connector.call(address).await.map_err(|error| unreachable(&error))?;
    Ok(Box::new(TokioIo::new(stream)))
}

/// The text of a message; `None`: it has none.
pub fn text_of(message: Option<Result<Message, Error>>) -> Result<Option<String>, ConnectionError> {
    match message {
        None => Err(ConnectionError::Closed),
        Some(Err(error)) => Err(ConnectionError::Failed(error.to_string())),
        Some(Ok(Message::Text(text))) => Ok(Some(text.as_str().to_owned())),
        Some(Ok(Message::Close(frame))) => Err(match frame.map(|frame| u16::from(frame.code)) {
            Some(UNAUTHORIZED) => ConnectionError::Token,
            Some(SUPERSEDED) => ConnectionError::Superseded,
            _ => ConnectionError::Closed,
        }),
        Some(Ok(_)) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_connection_names_what_can_be_done() {
        for (ended, remedy) in [
            (ConnectionError::Unreachable("refused".to_owned()), "start it"),
            (ConnectionError::Token, "device_bridge_token_file"),
            (ConnectionError::Superseded, "end the hobd"),
            (ConnectionError::Silent(60), "restart it"),
            (ConnectionError::Stalled(20), "restart it"),
            (ConnectionError::Closed, "start it"),
            (ConnectionError::Failed("reset".to_owned()), "start the agent"),
        ] {
            assert!(ended.to_string().contains(remedy), "{ended}");
        }
    }
}
