export { BatchError, Reseq } from "./client.js";
export { ResultError } from "./producer/results.js";
export type {
  BatchItem, CallOptions, Destination, DestinationDefinition, DestinationStats, NameOf, PendingMessage, Receipt, Receipts, ReseqOptions, Sending, StoredCopy,
} from "./client.js";
export { CODES, Later, Permanent, Retry, ReseqError, type ErrorCode, type InvalidPart } from "./errors.js";
export type { ConsumeOptions } from "./consumer/consumer.js";
export type { ConsumedMessage } from "./consumer/message.js";
export type { MessageSource, SendOptions, WaitOptions } from "./producer/lines.js";
export type { Outcome } from "./producer/outcomes.js";
export { checkedBody, type StandardSchema } from "./schema.js";
export type { HandledMessage, Telemetry } from "./telemetry.js";
export type { TransportOptions } from "./transport.js";
export type { AnyOutput, Context, Handler, HandlerResult, WorkerOptions } from "./worker/handler.js";
export { Worker } from "./worker/worker.js";
export type { WorkerEvents } from "./worker/events.js";
export type { Message } from "./worker/message.js";
export { DROP, KEEP, Output, REQUEUE } from "./worker/outputs.js";
export { OrderGuard, orderGuard, type BatchHandler, type DeliveryContext, type DeliveryHandler, type GuardOptions } from "./receiver/guard.js";
export type { Gap } from "./receiver/gaps.js";
export type { Delivery } from "./receiver/message.js";
export { sign } from "./receiver/signature.js";
export { comparePositions, type LaneAccess, type LaneState, type OrderStore } from "./receiver/store.js";
export { memoryStore } from "./receiver/stores/memory.js";
export { redisStore, type RedisClient, type RedisStoreOptions } from "./receiver/stores/redis.js";
export { createTable, postgresStore, sqlStore, sqliteStore, type PgClient, type PgPool, type SqlStoreOptions, type SqliteDatabase } from "./receiver/stores/sql.js";
/** @internal */
export { noDefault, noDefault as default } from "./no-default.js";
