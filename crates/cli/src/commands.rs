//! The commands that are clients of a running service.

use futures::future::LocalBoxFuture;

use super::{
    audit, context, dead_letters, destinations, doctor, exit::Exit, health, lanes, log, messages,
    operations, pods, repair, replay, send, sources, status, tail, tokens, top, topics, transfer,
    verify, why,
};

/// A client command, with its arguments.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum ClientCommand {
    /// Check whether a process is ready to work
    Health(health::HealthArgs),
    /// Send messages from arguments, a file or standard input
    Send(send::SendArgs),
    /// Show the backlog and progress of all destinations
    Status(status::StatusArgs),
    /// Show the deployment live on the terminal
    Top(top::TopArgs),
    /// Show what blocks a destination or a lane, and what to do
    Why(why::WhyArgs),
    /// List, explain, retry or skip lanes
    Lanes(lanes::LanesArgs),
    /// Check the deployment, and say what to do about each finding
    Doctor(doctor::DoctorArgs),
    /// List the live pods, and the partitions that each pod owns
    Pods(pods::PodsArgs),
    /// List, show, create, change, pause, purge or delete destinations
    #[command(visible_alias = "dest")]
    Destinations(destinations::DestinationsArgs),
    /// Create, list, show or revoke tokens
    Tokens(tokens::TokensArgs),
    /// Show the actions of operators
    Audit(audit::AuditArgs),
    /// List, show, create, change or delete topics
    Topics(topics::TopicsArgs),
    /// List the sources of a destination, or forget the mark of one source
    Sources(sources::SourcesArgs),
    /// Print all destinations, topics and tokens as one file, without secrets
    Export(transfer::ExportArgs),
    /// Create or change the objects in an exported file, or only check the file
    Import(transfer::ImportArgs),
    /// List, show, find, retry or cancel messages
    #[command(visible_alias = "msg")]
    Messages(messages::MessagesArgs),
    /// Show what happened to the last messages of a destination
    Log(log::LogArgs),
    /// Show deliveries as they happen
    Tail(tail::TailArgs),
    /// List, show, redrive or discard dead letters
    #[command(visible_alias = "dlq")]
    DeadLetters(dead_letters::DeadLettersArgs),
    /// List, show or cancel bulk operations
    Operations(operations::OperationsArgs),
    /// Deliver logged messages again
    Replay(replay::ReplayArgs),
    /// Prove from the log and a receiver's journal that the order held
    Verify(verify::VerifyArgs),
    /// Find and repair inconsistent data of a destination in Redis
    Repair(repair::RepairArgs),
    /// Give names to services, with their tokens, and choose the current one
    Context(context::ContextArgs),
}

impl ClientCommand {
    /// Runs the command. The future is boxed, so that the commands are compiled with this crate, and not again with
    /// each program.
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<Exit>> {
        Box::pin(async {
            match self {
                ClientCommand::Status(args) => return status::run(args).await,
                ClientCommand::Doctor(args) => return doctor::run(args).await,
                ClientCommand::Verify(args) => return verify::run(args).await,
                ClientCommand::Repair(args) => return repair::run(args).await,
                ClientCommand::Health(args) => health::run(args).await,
                ClientCommand::Send(args) => send::run(args).await,
                ClientCommand::Top(args) => top::run(args).await,
                ClientCommand::Why(args) => why::run(args).await,
                ClientCommand::Lanes(args) => lanes::run(args).await,
                ClientCommand::Pods(args) => pods::run(args).await,
                ClientCommand::Destinations(args) => destinations::run(args).await,
                ClientCommand::Tokens(args) => tokens::run(args).await,
                ClientCommand::Audit(args) => audit::run(args).await,
                ClientCommand::Topics(args) => topics::run(args).await,
                ClientCommand::Sources(args) => sources::run(args).await,
                ClientCommand::Export(args) => transfer::export(args).await,
                ClientCommand::Import(args) => transfer::import(args).await,
                ClientCommand::Messages(args) => messages::run(args).await,
                ClientCommand::Log(args) => log::run(args).await,
                ClientCommand::Tail(args) => tail::run(args).await,
                ClientCommand::DeadLetters(args) => dead_letters::run(args).await,
                ClientCommand::Operations(args) => operations::run(args).await,
                ClientCommand::Replay(args) => replay::run(args).await,
                ClientCommand::Context(args) => context::run(args).await,
            }?;
            Ok(Exit::Ok)
        })
    }
}
