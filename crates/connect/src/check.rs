//! `check` and `status`.

use crate::{
    outlet::{mark_of, may_send},
    settings::{Settings, SourceSettings},
    source::{Finding, Health},
};
use client::{Call, Service, paths::path_of};

/// Checks everything, and prints each finding. False if something is wrong. Changes nothing.
pub async fn check(settings: &Settings) -> anyhow::Result<bool> {
    let service = settings.reseq.service()?;
    let mut is_good = true;
    for source in &settings.sources {
        let mut found = Vec::new();
        for destination in &source.destinations {
            found.push(destination_of(&service, destination).await);
        }
        found.extend(source.open()?.check().await);
        for (what, problem) in found {
            is_good &= problem.is_none();
            match problem {
                None => println!("ok    {}: {what}", source.name),
                Some(problem) => println!("WRONG {}: {what}: {problem}", source.name),
            }
        }
    }
    Ok(is_good)
}

/// Whether the destination exists, and this token may read its marks and send to it.
async fn destination_of(service: &Service, destination: &str) -> Finding {
    let what = format!("destination {destination} at {}", service.url());
    if let Err(error) = service.call(Call::get(&path_of(destination, "sources"))).await {
        return (what, Some(format!("{error:#}")));
    }
    (what, may_send(service, destination).await.err().map(|fault| fault.to_string()))
}

/// Prints where each source is.
pub async fn status(settings: &Settings) -> anyhow::Result<()> {
    let service = settings.reseq.service()?;
    for source in &settings.sources {
        match status_of(&service, source).await {
            Ok(lines) => println!("{}", lines.join("\n")),
            Err(problem) => println!("{}: {problem}", source.name),
        }
    }
    Ok(())
}

async fn status_of(service: &Service, settings: &SourceSettings) -> Result<Vec<String>, String> {
    let mut source = settings.open().map_err(|error| format!("{error:#}"))?;
    let name = source.name().await.map_err(|fault| fault.to_string())?;
    let (mut lines, mut oldest) = (Vec::new(), None);
    for destination in &settings.destinations {
        let shown = match mark_of(service, destination, &name).await {
            Err(error) => format!("{error:#}"),
            Ok(mark) => {
                let shown = mark.clone().unwrap_or_else(|| "no mark".to_owned());
                oldest = oldest.into_iter().chain(mark).min();
                shown
            }
        };
        lines.push(format!("  {destination}: {shown}"));
    }
    let health = source.health(&oldest.unwrap_or_default()).await;
    let Health { lag, problem, halted } = health.map_err(|fault| fault.to_string())?;
    let problems = halted.into_iter().chain(problem).map(|problem| format!("  {problem}"));
    let first = format!("{} ({name}): {lag} bytes behind", settings.name);
    Ok([first].into_iter().chain(problems).chain(lines).collect())
}
