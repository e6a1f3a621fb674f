import { checkOptions, whole } from "../../options.js";
import { TimeLimitError } from "../../timing.js";
import { Slots, Turns, type LaneState, type OrderStore } from "../store.js";

type Row = Record<string, unknown>;

export interface SqlStoreOptions<Tx> {
  dialect: "postgres" | "mysql" | "sqlite";
  /** Runs `work` in a transaction of yours; commits when it resolves, rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Runs a statement in that transaction, and returns its rows (none for other statements than SELECT). */
  query(tx: Tx, sql: string, parameters: (string | number)[]): Row[] | Promise<Row[]>;
  /** Create it with `createTable`. */
  table?: string | undefined;
  /**
   * Deliveries in progress at once (5); others wait. Each holds a connection of your pool while its handler runs. Use at
   * most half of the pool if handlers use the pool too, otherwise all of them may wait for each other.
   */
  deliveriesMax?: number | undefined;
}

const SQL_OPTIONS: Record<keyof SqlStoreOptions<unknown>, true> = { dialect: true, transaction: true, query: true, table: true, deliveriesMax: true };

/** The statement that creates the table of a guard. Keys of lanes are up to 64 + 256 characters. */
export const createTable = (table = "reseq_lanes") =>
  `CREATE TABLE IF NOT EXISTS ${table} (lane VARCHAR(400) PRIMARY KEY, epoch BIGINT NOT NULL, ` +
  `sequence BIGINT NOT NULL, is_first SMALLINT NOT NULL, recorded_at BIGINT NOT NULL)`;

/**
 * Keeps positions in your database, in the transaction in which the handler writes. So a message is applied exactly
 * once, whatever dies. A row is locked from the beginning: a repeat in another process waits for the first.
 */
export function sqlStore<Tx>(options: SqlStoreOptions<Tx>): OrderStore<Tx> {
  checkOptions(options, SQL_OPTIONS, "sqlStore");
  const { dialect, transaction, table = "reseq_lanes", deliveriesMax = 5 } = options;
  const slots = new Slots(whole(deliveriesMax, "deliveriesMax", 1, 100_000));
  if (!/^[A-Za-z0-9_."]+$/.test(table)) throw new TypeError(`this is not the name of a table: ${table}`);
  const query = async (tx: Tx, text: string, parameters: (string | number)[]) => {
    let at = 0;
    const sql = dialect === "postgres" ? text.replace(/\?/g, () => `$${(at += 1)}`) : text;
    return options.query(tx, sql, parameters);
  };
  const insert = {
    postgres: `INSERT INTO ${table} VALUES (?, 0, 0, 0, ?) ON CONFLICT DO NOTHING`,
    sqlite: `INSERT INTO ${table} VALUES (?, 0, 0, 0, ?) ON CONFLICT DO NOTHING`,
    mysql: `INSERT IGNORE INTO ${table} VALUES (?, 0, 0, 0, ?)`,
  }[dialect];
  const lock = dialect === "sqlite" ? "" : " FOR UPDATE";
  const turns = new Turns();
  return {
    within: (lane, work) =>
      turns.run(lane, () =>
        slots.run(() => transaction(async (tx) => {
          // The row must exist to be locked. Another process that inserts it at the same time makes this one wait.
          await query(tx, insert, [lane, Date.now()]);
          const rows = await query(tx, `SELECT epoch, sequence, is_first FROM ${table} WHERE lane = ?${lock}`, [lane]);
          return work({
            last: stateOf(rows[0]),
            tx,
            async record({ epoch, sequence, isFirst }) {
              const set = `UPDATE ${table} SET epoch = ?, sequence = ?, is_first = ?, recorded_at = ? WHERE lane = ?`;
              await query(tx, set, [epoch, sequence, isFirst ? 1 : 0, Date.now(), lane]);
            },
          });
        })),
      ),
    idleSince: (timeMs, limit) =>
      transaction(async (tx) => {
        const text = `SELECT lane, epoch, sequence, is_first FROM ${table} WHERE recorded_at < ? ORDER BY recorded_at LIMIT ${Number(limit)}`;
        const rows = await query(tx, text, [timeMs]);
        return rows.map((row) => ({ lane: String(row.lane), state: stateOf(row) ?? { epoch: 0, sequence: 0, isFirst: false } }));
      }),
    forget: (lane, { epoch, sequence }) =>
      transaction(async (tx) => {
        await query(tx, `DELETE FROM ${table} WHERE lane = ? AND epoch = ? AND sequence = ?`, [lane, epoch, sequence]);
      }),
  };
}

/** Undefined for a row that was only made to be locked. Databases return 64-bit numbers as text or `bigint`. */
function stateOf(row: Row | undefined): LaneState | undefined {
  if (row === undefined || Number(row.epoch) === 0) return undefined;
  return { epoch: Number(row.epoch), sequence: Number(row.sequence), isFirst: Number(row.is_first) === 1 };
}

/** What `pg` has. */
export interface PgPool {
  connect(): Promise<PgClient>;
  options?: { max?: number | undefined };
}
export interface PgClient {
  query(sql: string, parameters?: unknown[]): Promise<{ rows: Row[] }>;
  release(error?: boolean): void;
}

/**
 * `sqlStore` for a pool of `pg`. The handler gets the client of the transaction. Half of the pool's connections are for
 * deliveries in progress; the others are for what handlers do with the pool itself.
 */
export function postgresStore(pool: PgPool, table?: string): OrderStore<PgClient> {
  return sqlStore<PgClient>({
    dialect: "postgres",
    table,
    deliveriesMax: Math.max(1, Math.floor((pool.options?.max ?? 10) / 2)),
    query: async (client, sql, parameters) => (await client.query(sql, parameters)).rows,
    async transaction(work) {
      const client = await pool.connect();
      let isBroken = false;
      try {
        await client.query("BEGIN");
        const done = await work(client);
        await client.query("COMMIT");
        return done;
      } catch (error) {
        // The handler that was given up must not write with a client that somebody else gets: its connection ends.
        if (error instanceof TimeLimitError) isBroken = true;
        else await client.query("ROLLBACK").catch(() => (isBroken = true));
        throw error;
      } finally {
        client.release(isBroken);
      }
    },
  });
}

/** What `node:sqlite` (Node 22) and `better-sqlite3` have. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): { all(...parameters: any[]): unknown[]; run(...parameters: any[]): unknown };
  close?(): unknown;
}

/**
 * `sqlStore` for `node:sqlite` or `better-sqlite3`: `sqliteStore(() => new Database(path))` opens a handle that nothing
 * else uses. One transaction at a time. Creates the table.
 */
export function sqliteStore<Database extends SqliteDatabase>(open: () => Database, table?: string): OrderStore<Database>;
/**
 * @deprecated Give a function that opens the database. What your program writes with its own handle while a handler runs
 * would be part of the transaction of the guard, and be rolled back with it. This form ends with the next release.
 */
export function sqliteStore<Database extends SqliteDatabase>(database: Database, table?: string): OrderStore<Database>;
export function sqliteStore<Database extends SqliteDatabase>(given: Database | (() => Database), table?: string): OrderStore<Database> {
  let opened: Database | undefined;
  function handle(): Database {
    if (typeof given === "function") return (opened ??= given());
    const { inTransaction, isTransaction } = given as { inTransaction?: boolean; isTransaction?: boolean };
    if (inTransaction || isTransaction) {
      throw new Error("the database of sqliteStore is in a transaction of the program: use sqliteStore(() => new Database(path))");
    }
    return given;
  }
  handle().exec(createTable(table));
  const turns = new Turns();
  return sqlStore<Database>({
    dialect: "sqlite",
    table,
    query(database, sql, parameters) {
      const statement = database.prepare(sql);
      if (sql.startsWith("SELECT")) return statement.all(...parameters) as Row[];
      statement.run(...parameters);
      return [];
    },
    // A handle has one transaction: another request must not write into it.
    transaction: (work) =>
      turns.run("", async () => {
        const database = handle();
        database.exec("BEGIN IMMEDIATE");
        try {
          const done = await work(database);
          database.exec("COMMIT");
          return done;
        } catch (error) {
          try {
            database.exec("ROLLBACK");
          } catch {
            // The database has rolled it back by itself.
          }
          if (opened && error instanceof TimeLimitError) {
            // The handler that was given up must not write into a later transaction.
            opened = undefined;
            database.close?.();
          }
          throw error;
        }
      }),
  });
}
