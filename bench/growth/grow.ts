import { Database } from 'bun:sqlite'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { rollUp } from '../../src/observability/rollups.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { recordCalls } from '../records.ts'

/** How many of each a grown data directory has. */
export interface Size {
  records: number
  keys: number
  guardrails: number
}

/** Returns the secret of one of the many keys. */
export const nameSecret = (n: number): string => `sk-growth-${String(n).padStart(7, '0')}`

/**
 * Fills a data directory: records that it has already stay as they are. Returns a management key.
 * Each of the many keys has one of the guardrails. They are copies of one that was made as usual,
 * written without their seals and audit entries: only `doctor` asks for these.
 */
export async function growDirectory(data: string, size: Size): Promise<string> {
  const isNew = !existsSync(join(data, 'gateway.db'))
  mkdirSync(data, { recursive: true, mode: 0o700 })
  const gateway = await openGateway({ data })
  try {
    if (isNew) {
      const { workspace_id } = gateway.memory.owner
      await recordCalls(gateway, size.records, true, { workspace_id })
      await rollUp(gateway)
    }
    await copyFirst(gateway, data, size)
    return (await createKey(gateway, getOperator(gateway), { name: 'growth' }, 'management')).key
  } finally {
    await gateway.close()
  }
}

/**
 * Gives a key of a small data directory a guardrail as all keys of the grown one have: otherwise the
 * two would not do the same for a call.
 */
export async function guardKey(data: string, secret: string): Promise<void> {
  const gateway = await openGateway({ data })
  try {
    await assignRules(gateway, hashSecret(secret))
  } finally {
    await gateway.close()
  }
}

/** Makes a guardrail, assigns it to a key, and returns its id. */
async function assignRules(gateway: Gateway, hash: string): Promise<string> {
  const actor = getOperator(gateway)
  const rules = { name: 'first', limit_usd: 1_000_000, reset_interval: 'daily' as const }
  const { data: guardrail } = await createGuardrail(gateway, actor, rules)
  await assignKeys(gateway, actor, guardrail.id, { key_hashes: [hash] })
  return guardrail.id
}

/** Makes a key with a guardrail, and copies of both. */
async function copyFirst(gateway: Gateway, data: string, size: Size): Promise<void> {
  const { data: key } = await createKey(gateway, getOperator(gateway), { name: 'first' })
  const guardrail = await assignRules(gateway, key.hash)
  const db = new Database(join(data, 'gateway.db'), { strict: true })
  db.run('pragma busy_timeout = 5000')
  const ids = Array.from({ length: size.guardrails }, () => Bun.randomUUIDv7())
  const hashes = Array.from({ length: size.keys }, (_, n) => hashSecret(nameSecret(n)))
  const pick = (n: number) => ids[n % ids.length] ?? ''
  db.transaction(() => {
    copyRow(db, 'guardrails', `id = '${guardrail}'`, (_, n) => ({ id: ids[n] }), ids.length)
    copyRow(db, 'keys', `hash = '${key.hash}'`, (_, n) => ({ hash: hashes[n] }), hashes.length)
    const assignment = (_: Row, n: number) => ({
      ...{ id: Bun.randomUUIDv7(), key_hash: hashes[n], guardrail_id: pick(n) },
    })
    copyRow(db, 'guardrail_keys', `key_hash = '${key.hash}'`, assignment, hashes.length)
  })()
  db.close()
}

type Row = Record<string, string | number | bigint | null>

/** Adds copies of a row to its table, each with the fields that `change` returns. */
function copyRow(
  db: Database,
  table: string,
  where: string,
  change: (row: Row, n: number) => object,
  count: number,
): void {
  const row = db.query<Row, []>(`select * from ${table} where ${where}`).get()
  if (row === null) throw new Error(`${table}: no row to copy`)
  const names = Object.keys(row)
  const places = names.map(() => '?').join(', ')
  const columns = names.map(name => `"${name}"`).join(', ')
  const insert = db.query(`insert into ${table} (${columns}) values (${places})`)
  for (let n = 0; n < count; n++) {
    const copy: Row = { ...row, ...change(row, n) }
    insert.run(...names.map(name => copy[name] ?? null))
  }
}
