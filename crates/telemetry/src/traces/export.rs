//! Sends spans to an OTLP receiver over HTTP, in batches, from a separate thread.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanProcessor},
};
use parking_lot::Mutex;
use tokio::runtime::Handle;

/// The most spans that wait to be sent. Spans beyond that are dropped.
const QUEUE_MAX: usize = 16_384;
/// The most spans of one request.
const BATCH_MAX: usize = 1_024;
/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the log mentions that spans cannot be sent.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Why traces cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The HTTP client could not be built.
    #[error("the client for traces could not be built: {0}")]
    Client(#[from] reqwest::Error),
    /// The exporter could not be built.
    #[error("traces cannot be sent to tracing.otlp_endpoint: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The processor that collects spans and sends them.
pub(super) fn processor(endpoint: &str) -> Result<BatchSpanProcessor, TracesError> {
    let client = Client {
        http: reqwest::Client::builder().timeout(TIMEOUT).build()?,
        runtime: Handle::current(),
        logged: Mutex::new(None),
    };
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()?;
    let limits = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .build();
    let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(limits).build();
    processor.set_resource(&resource());
    Ok(processor)
}

/// The attributes that describe this process to the receiver of traces. The variables
/// `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` have priority.
fn resource() -> Resource {
    let instance = uuid::Uuid::new_v4().to_string();
    let resource = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance),
    ]);
    match std::env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => resource.build(),
        None => resource.with_service_name("reseq").build(),
    }
}

/// The exporter runs on a thread without a runtime, so its requests run on the runtime of the process.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
    logged: Mutex<Option<Instant>>,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request).await;
        match &answer {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => self.log(&format!("status {}", answer.status().as_u16())),
            Err(error) => self.log(&error.to_string()),
        }
        answer
    }
}

impl Client {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let request = self.http.post(parts.uri.to_string()).headers(parts.headers).body(body);
        let exchange = self.runtime.spawn(async move {
            let answer = request.send().await.map_err(reqwest::Error::without_url)?;
            let status = answer.status();
            let body = answer.bytes().await.map_err(reqwest::Error::without_url)?;
            Ok::<_, reqwest::Error>((status, body))
        });
        let (status, body) = exchange.await??;
        Ok(Response::builder().status(status).body(body)?)
    }

    fn log(&self, problem: &str) {
        let mut logged = self.logged.lock();
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            *logged = Some(Instant::now());
            tracing::warn!(problem, "spans cannot be sent to tracing.otlp_endpoint");
        }
    }
}
