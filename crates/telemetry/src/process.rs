//! The resources that this process uses, as metrics with the usual names of Prometheus clients.

use procfs::{
    ProcResult, WithCurrentSystemInfo,
    process::{LimitValue, Process},
};

use super::render::render;

/// Renders the metrics of this process in Prometheus's text format. Leaves out metrics that the system does not
/// provide.
pub(super) fn render_process() -> String {
    let mut text = String::new();
    for (metric, value) in read().unwrap_or_default() {
        render(&mut text, metric, [(String::new(), value)]);
    }
    text
}

fn read() -> ProcResult<Vec<(&'static str, f64)>> {
    let process = Process::myself()?;
    let (stat, per_second) = (process.stat()?, procfs::ticks_per_second() as f64);
    let started = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / per_second;
    let mut all = vec![
        ("process_cpu_seconds_total", (stat.utime + stat.stime) as f64 / per_second),
        ("process_resident_memory_bytes", stat.rss_bytes().get() as f64),
        ("process_threads", stat.num_threads as f64),
        ("process_start_time_seconds", started),
        ("process_open_fds", process.fd_count()? as f64),
    ];
    if let LimitValue::Value(most) = process.limits()?.max_open_files.soft_limit {
        all.push(("process_max_fds", most as f64));
    }
    Ok(all)
}
