import { Turns, type LaneState, type OrderStore } from "../store.js";

type Row = Record<string, unknown>;

export interface SqlStoreOptions<Tx> {
  dialect: "postgres" | "mysql" | "sqlite";
  /** Runs `work` in a transaction of yours; commits when it resolves, rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Runs a statement in that transaction, and returns its rows (none for other statements than SELECT). */
  query(tx: Tx, sql: string, parameters: (string | number)[]): Row[] | Promise<Row[]>;
  /** Create it with `createTable`. */
  table?: string;
}

/** The statement that creates the table of a guard. Keys of lanes are up to 64 + 256 characters. */
export const createTable = (table = "reseq_lanes") =>
  `CREATE TABLE IF NOT EXISTS ${table} (lane VARCHAR(400) PRIMARY KEY, epoch BIGINT NOT NULL, ` +
  `sequence BIGINT NOT NULL, is_first SMALLINT NOT NULL, recorded_at BIGINT NOT NULL)`;

/**
 * Keeps positions in your database, in the transaction in which the handler writes. So a message is applied exactly
 * once, whatever dies. A row is locked from the beginning: a repeat in another process waits for the first.
 */
export function sqlStore<Tx>(options: SqlStoreOptions<Tx>): OrderStore<Tx> {
  const { dialect, transaction, table = "reseq_lanes" } = options;
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
        transaction(async (tx) => {
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
        }),
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
}
export interface PgClient {
  query(sql: string, parameters?: unknown[]): Promise<{ rows: Row[] }>;
  release(error?: boolean): void;
}

/** `sqlStore` for a pool of `pg`. The handler gets the client of the transaction. */
export function postgresStore(pool: PgPool, table?: string): OrderStore<PgClient> {
  return sqlStore<PgClient>({
    dialect: "postgres",
    table,
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
        await client.query("ROLLBACK").catch(() => (isBroken = true));
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
}

/** `sqlStore` for a database of `node:sqlite` or `better-sqlite3`: one transaction at a time. Creates the table. */
export function sqliteStore<Database extends SqliteDatabase>(database: Database, table?: string): OrderStore<Database> {
  database.exec(createTable(table));
  const turns = new Turns();
  return sqlStore<Database>({
    dialect: "sqlite",
    table,
    query(_, sql, parameters) {
      const statement = database.prepare(sql);
      if (sql.startsWith("SELECT")) return statement.all(...parameters) as Row[];
      statement.run(...parameters);
      return [];
    },
    // A database has one connection here: another request must not write into this transaction.
    transaction: (work) =>
      turns.run("", async () => {
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
          throw error;
        }
      }),
  });
}
