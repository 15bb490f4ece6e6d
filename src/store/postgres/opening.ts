import { conflict, GatewayError, invalid } from '../../base/errors.ts'
import type { Mac } from '../../base/mac.ts'
import type { RecordSecrets } from '../../limits/seals.ts'
import { type GivenSecret, requireOwnSecret } from '../own-secret.ts'
import { renderAnchor } from '../sql/generations/rows.ts'
import { explainFaults, type Runner, readCode, run, SCHEMA } from './connection.ts'
import type { Pool } from './pool.ts'
import { anchorRecords } from './recording.ts'
import { createTables, VERSION, widenTables } from './schema.ts'
import { openSeals, readColumns, readOpening } from './seals.ts'
import { runSteps } from './write.ts'

/** The first tables that there were. */
const FIRST = 1

/** The oldest Postgres that is taken: those before are no longer maintained. */
const OLDEST = 14

/** How a store is opened. */
interface Opening {
  /** The database in messages. */
  place: string
  secrets: RecordSecrets
  ownSecret?: GivenSecret | undefined
  refuseNew?: (() => void) | undefined
  /** Whether tables of an earlier program are widened (true). */
  migrates?: boolean | undefined
}

/** Makes the tables where there are none, and returns the columns of those that are sealed. */
export async function openSchema(pool: Pool, opening: Opening): ReturnType<typeof readColumns> {
  const { place } = opening
  try {
    await explainFaults(() => refuseUnfit(pool, place))
    await explainFaults(() => refusePooler(pool, place))
    return await explainFaults(
      () =>
        pool.begin(connection => prepareSchema(connection, opening)) as ReturnType<
          typeof readColumns
        >,
    )
  } catch (thrown) {
    throw explainRefusal(thrown, place)
  }
}

async function prepareSchema(
  connection: Runner,
  { place, secrets: { mac }, ownSecret, refuseNew, migrates = true }: Opening,
): ReturnType<typeof readColumns> {
  // Two that open a new database at once take turns: a schema that is there has its tables.
  await run(connection, `select pg_advisory_xact_lock(hashtext('gateway:${SCHEMA}'))`)
  const isNew = !(await hasTables(connection))
  if (isNew) {
    await refuseForeign(connection, place)
    refuseNew?.()
    if (ownSecret) requireOwnSecret({ isNew, isSealed: false, isOf: () => false }, ownSecret)
    await connection.unsafe(`create schema if not exists ${SCHEMA}`)
    await createTables(connection)
  } else {
    const version = await readVersion(connection, place)
    if (ownSecret) requireOwnSecret(await readSealedData(connection, ownSecret), ownSecret)
    if (version < VERSION && migrates) await widenTables(connection, version)
  }
  const opened = await connection.unsafe('select 1 from seal_log limit 1')
  if (opened.length === 0) await runSteps(connection, openSeals(mac, new Date()))
  await anchorRecords(connection, mac)
  return readColumns(connection)
}

const hasTables = async (on: Runner): Promise<boolean> => {
  const [found] = await run<{ gate: string | null }>(
    on,
    `select to_regclass('${SCHEMA}.gate')::text as gate`,
  )
  return typeof found?.gate === 'string'
}

async function refuseForeign(on: Runner, place: string): Promise<void> {
  const [table] = await run<{ name: string }>(
    on,
    `select tablename as name from pg_tables where schemaname = '${SCHEMA}' limit 1`,
  )
  if (table)
    throw conflict(
      `The schema ${SCHEMA} of ${place} is of something else: it has the table ${table.name}. ` +
        'Give the gateway a database of its own',
    )
}

/**
 * Returns which tables there are. Throws 409 for those that this program cannot use: programs of
 * which one is newer than the other use the same as long as the newer one says so.
 */
async function readVersion(on: Runner, place: string): Promise<number> {
  const [row] = await run<{ version: number; oldest?: number }>(on, 'select * from gate')
  const { version = 0, oldest = version } = row ?? {}
  if (version >= FIRST && oldest <= VERSION) return version
  throw conflict(
    `${place} has the tables of another version of gateway (${version}; this one has ` +
      `${VERSION}): use the program that wrote them, or a newer one`,
  )
}

/** What is sealed there, as the owner of the given secret sees it. */
async function readSealedData(on: Runner, { readMac }: GivenSecret) {
  const mac = readMac()
  const [sealed] = await run(on, 'select 1 from seal_log where opening is not null limit 1')
  const isOwn = mac !== null && ((await readOpening(on, mac)) !== null || (await isAnchor(on, mac)))
  return { isNew: false, isSealed: sealed !== undefined, isOf: () => isOwn }
}

async function isAnchor(on: Runner, mac: Mac): Promise<boolean> {
  const [anchor] = await run<{ last_row: number; seal: string }>(
    on,
    'select last_row, seal from record_seals where columns = 0 order by n limit 1',
  )
  return anchor !== undefined && anchor.seal === mac(renderAnchor(anchor.last_row))
}

/**
 * Throws 400 for a server that is too old or only follows another, and for a database that does not
 * take every text.
 */
export async function refuseUnfit(on: Runner, place: string): Promise<void> {
  const [server] = await run<{
    version: string
    number: number
    encoding: string
    follows: boolean
  }>(
    on,
    `select current_setting('server_version') as version,
      current_setting('server_version_num')::integer as number,
      current_setting('server_encoding') as encoding, pg_is_in_recovery() as follows`,
  )
  if (!server) return
  if (server.number < OLDEST * 10_000)
    throw invalid(`${place} has Postgres ${server.version}: ${OLDEST} or later is needed`)
  if (server.encoding !== 'UTF8')
    throw invalid(`${place} has the encoding ${server.encoding}: UTF8 is needed`)
  if (server.follows)
    throw invalid(`${place} is a replica, which takes no changes: expected the primary`)
}

/**
 * Throws 400 for a pooler that gives each transaction another session, or drops what the session of a
 * connection begins with: what is prepared, where the tables are, and what is listened to.
 */
async function refusePooler(pool: Pool, place: string): Promise<void> {
  const mark = crypto.randomUUID()
  const [one, other] = await Promise.all([pool.reserve(), pool.reserve()])
  try {
    await one.unsafe(`select set_config('gateway.session', '${mark}', false)`)
    for (const [session, expected] of [
      [other, null],
      [one, mark],
      [other, null],
    ] as const) {
      const [{ path, found } = { path: '', found: null }] = (await session.unsafe(
        `select current_setting('search_path') as path,
          nullif(current_setting('gateway.session', true), '') as found`,
      )) as { path: string; found: string | null }[]
      const isKept = expected === null ? found !== mark : found === mark
      if (!isKept || path !== SCHEMA)
        throw invalid(`storage.postgres: the pooler at ${place} ${KEEPS_NOTHING}`)
    }
  } finally {
    one.release()
    other.release()
  }
}

const KEEPS_NOTHING =
  'does not keep sessions: name Postgres itself, or have PgBouncer pool by session (pool_mode = ' +
  'session, ignore_startup_parameters = search_path) and Postgres begin them as the gateway does ' +
  `(ALTER ROLE … SET search_path = ${SCHEMA})`

/** What poolers refuse of a session. */
const POOLER = /unsupported startup parameter|pooling mode/

/** What Postgres refuses at the start, in the words of the operator who can mend it. */
const REFUSALS: Record<string, (place: string) => string> = {
  '3D000': place => `There is no database ${place}: make it (createdb), or name another`,
  '28P01': place => `${place} refuses the password`,
  '28000': place => `${place} refuses the user`,
  '42704': place => `${place} does not know a parameter of the URL`,
  '42501': place =>
    `The user may not make what a store needs in ${place}: grant it the creation of schemas, or ` +
    `make the schema ${SCHEMA} for it`,
}

/** What a certificate lacks, in the codes of TLS. */
const UNTRUSTED = /CERT|ISSUER|SIGNATURE|HOSTNAME_MISMATCH|ALTNAME/

function explainRefusal(thrown: unknown, place: string): unknown {
  const explain = REFUSALS[readCode(thrown)]
  if (explain)
    return invalid(`storage.postgres: ${explain(place)}`).with({ cause: thrown } as never)
  const { code, message } = thrown as { code?: string; message?: string }
  if (POOLER.test(describeCause(thrown as GatewayError)))
    return invalid(`storage.postgres: the pooler at ${place} ${KEEPS_NOTHING}`)
  if (UNTRUSTED.test(String(code)))
    return invalid(
      `storage.postgres: the certificate of ${place} is not trusted (${message}): ` +
        'NODE_EXTRA_CA_CERTS names a file of authorities that are',
    )
  if (thrown instanceof GatewayError && thrown.type === 'unavailable')
    return thrown.with({ message: `${thrown.message}: ${place}${describeCause(thrown)}` })
  return thrown
}

/** The reason that the connection gave, which names nothing but itself. */
function describeCause({ cause }: GatewayError & { cause?: unknown }): string {
  const { message, code } = (cause ?? {}) as { message?: string; code?: string }
  return message ? ` (${message})` : code ? ` (${code})` : ''
}
