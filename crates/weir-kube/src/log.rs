//! Logs of pods.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use tokio::task::AbortHandle;

use crate::{Cluster, KubeError, in_words, status_of};

/// The lines of a log that [`Cluster::follow`] follows. Dropping it stops following.
#[derive(Debug)]
pub struct LogLines {
    lines: Receiver<Result<String, String>>,
    task: AbortHandle,
}

impl LogLines {
    /// The next line; `Ok(None)` if none arrives within `patience`.
    ///
    /// # Errors
    /// When no more lines will arrive: `Err(None)` at the end of the log, `Err(Some(reason))` if the connection failed.
    pub fn next(&self, patience: Duration) -> Result<Option<String>, Option<String>> {
        match self.lines.recv_timeout(patience) {
            Ok(Ok(line)) => Ok(Some(line)),
            Ok(Err(why)) => Err(Some(why)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(None),
        }
    }
}

impl Drop for LogLines {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// The last `lines` lines of a container's log. With `previous`, reads the log from before the container's last
    /// restart. Does not retry.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the log cannot be read.
    pub fn log_once(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        previous: bool,
        lines: u32,
    ) -> Result<String, KubeError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = LogParams {
            container: Some(container.to_owned()),
            previous,
            tail_lines: Some(lines.into()),
            ..LogParams::default()
        };
        let pod = pod.to_owned();
        self.run(async move { api.logs(&pod, &params).await.map_err(|error| unread(&pod, &error)) })
    }

    /// Follows the log of a container from line `skip` on, counted from 0.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the log cannot be read, for example because the container has not started yet.
    pub fn follow(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        skip: usize,
    ) -> Result<LogLines, KubeError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params =
            LogParams { container: Some(container.to_owned()), follow: true, ..LogParams::default() };
        let name = pod.to_owned();
        let stream =
            self.run(
                async move { api.log_stream(&name, &params).await.map_err(|error| unread(&name, &error)) },
            )?;
        let (into, lines) = channel();
        let into = Arc::new(into);
        let task = self.runtime.spawn(async move {
            let mut lines = stream.lines();
            let mut skipped = 0;
            loop {
                match lines.try_next().await {
                    Ok(Some(_)) if skipped < skip => skipped += 1,
                    Ok(Some(line)) => {
                        if into.send(Ok(line)).is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        let _ = into.send(Err(error.to_string()));
                        return;
                    }
                }
            }
        });
        Ok(LogLines { lines, task: task.abort_handle() })
    }
}

fn unread(pod: &str, error: &kube::Error) -> KubeError {
    let what = format!("cannot read the log of pod {pod}");
    KubeError::Refused { what, why: in_words(error), status: status_of(error) }
}
