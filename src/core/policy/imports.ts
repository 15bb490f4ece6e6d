import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { GatewayError, invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { hashSecret } from '../identity/keys/secret.ts'
import { createKey, importKey, updateKey } from '../identity/keys.ts'
import { resolveWorkspaceId } from '../identity/management.ts'
import { createWorkspace } from '../identity/workspaces.ts'
import { isObject } from '../kernel/json.ts'
import { describeIssue, findSchemaIssue } from '../kernel/schema.ts'
import { Uuid } from '../kernel/schema-builders.ts'
import { setBudget } from './budgets.ts'
import { LiteLlmKey, LiteLlmTeam, readLiteLlmKey, readLiteLlmTeam } from './imports/litellm.ts'
import { OpenRouterKey, readOpenRouterKey } from './imports/openrouter.ts'
import type { ImportRow, KeyRow, TeamRow } from './imports/rows.ts'
import type { PolicyWorld } from './world.ts'

/** Where imported keys belong that have no team. */
export const ImportScope = Type.Object({ workspace_id: Type.Optional(Uuid) })
export type ImportScope = Static<typeof ImportScope>

/** What becomes of one row of an export. */
export interface ImportedRow {
  row: string
  name: string | null
  /** `create`, or why it is not: it is `there` already, is `over`, or cannot be read (`bad`). */
  action: 'create' | 'there' | 'over' | 'bad'
  /** Whether a key keeps its secret or gets a new one; null for what is no key. */
  secret: 'kept' | 'new' | null
  limit: number | null
  limit_reset: string | null
  workspace: string | null
  /** What is not carried over, and why it is not created. */
  remarks: string[]
  /** The new secret, once; null before, and where it is kept. */
  key: string | null
  is_done: boolean
}

/**
 * Reads an export of keys (LiteLLM’s `/key/list` with `/team/list`, or OpenRouter’s `/keys`) and
 * says of each row what would be done and what cannot be carried over. Changes nothing. Throws 400
 * for what is no export; a bad row is named.
 */
export const planImport = async (
  world: PolicyWorld,
  actor: Actor,
  exported: unknown,
  scope: ImportScope,
) => {
  resolveWorkspaceId(world, actor, scope.workspace_id)
  return { data: readExport(exported).map(row => describeRow(world, row)) }
}

/**
 * Imports what `planImport` shows: teams as workspaces with their budgets, then keys, whose new
 * secrets are in the answer and nowhere else. What is there already stays as it is, so that an
 * import that was interrupted can be repeated. A row that fails is told and ends nothing.
 * `onProgress` hears how many rows are done.
 */
export async function importExport(
  world: PolicyWorld,
  actor: Actor,
  exported: unknown,
  { workspace_id }: ImportScope,
  onProgress?: (done: number, total: number) => void,
) {
  resolveWorkspaceId(world, actor, workspace_id)
  const rows = readExport(exported)
  const teams = new Map<string, string>()
  const data: ImportedRow[] = []
  for (const row of rows) {
    onProgress?.(data.length, rows.length)
    const described = describeRow(world, row)
    data.push(described)
    try {
      if (row.kind === 'team') teams.set(row.id, await importTeam(world, actor, row, described))
      if (row.kind === 'key' && described.action === 'create')
        await importOne(world, actor, row, described, findWorkspace(row, teams, workspace_id))
    } catch (thrown) {
      described.remarks.push(GatewayError.from(thrown).message)
      described.action = 'bad'
    }
  }
  return { data }
}

function findWorkspace(
  { team }: KeyRow,
  teams: Map<string, string>,
  otherwise: string | undefined,
): string | undefined {
  const known = team === null ? undefined : teams.get(team)
  return known ?? otherwise
}

async function importTeam(
  world: PolicyWorld,
  actor: Actor,
  { name, slug, budget }: TeamRow,
  described: ImportedRow,
): Promise<string> {
  const known = findBySlug(world, slug)
  const id = known ?? (await createWorkspace(world, actor, { name, slug })).data.id
  if (known) return known
  if (budget) {
    const { interval, limit_usd } = budget
    await setBudget(world, actor, id, interval, { limit_usd })
  }
  described.is_done = true
  return id
}

const findBySlug = ({ memory: { workspaces } }: PolicyWorld, slug: string): string | undefined =>
  workspaces.filter(one => one.slug === slug)[0]?.id

async function importOne(
  world: PolicyWorld,
  actor: Actor,
  { input, hash, external, label, disabled }: KeyRow,
  described: ImportedRow,
  workspace_id: string | undefined,
): Promise<void> {
  const scoped = workspace_id === undefined ? input : { ...input, workspace_id }
  if (hash !== null) await importKey(world, actor, scoped, { hash, label, disabled })
  else {
    const from = { external: { user: actor.user_id, api_key: external ?? '' } }
    const made = await createKey(world, actor, { ...scoped, ...from })
    if (disabled) await updateKey(world, actor, made.data.hash, { disabled })
    described.key = made.key
  }
  described.is_done = true
}

function describeRow(world: PolicyWorld, row: ImportRow): ImportedRow {
  const empty = { secret: null, limit: null, limit_reset: null, workspace: null }
  const base = { row: row.row, ...empty, key: null, is_done: false }
  if (row.kind === 'bad') return { ...base, name: null, action: 'bad', remarks: [row.problem] }
  if (row.kind === 'team') {
    const { name, slug, budget, lost } = row
    const action = findBySlug(world, slug) ? 'there' : 'create'
    const limits = { limit: budget?.limit_usd ?? null, limit_reset: budget?.interval ?? null }
    return { ...base, ...limits, name, action, workspace: slug, remarks: lost }
  }
  const { input, lost, hash, team } = row
  return {
    ...base,
    name: input.name,
    action: findAction(world, row),
    secret: hash === null ? 'new' : 'kept',
    limit: input.limit ?? null,
    limit_reset: input.limit_reset ?? null,
    workspace: team,
    remarks: row.disabled ? [...lost, 'it is disabled, and stays so'] : lost,
  }
}

function findAction(world: PolicyWorld, { hash, external, input }: KeyRow): ImportedRow['action'] {
  const { keys } = world.memory
  const made = external === null ? null : hashSecret(external)
  const isThere = hash === null ? made !== null && isImported(world, made) : keys.has(hash)
  if (isThere) return 'there'
  const isOver = input.expires_at != null && new Date(input.expires_at) <= world.clock.now()
  return isOver ? 'over' : 'create'
}

const isImported = ({ memory: { keys } }: PolicyWorld, hash: string): boolean =>
  keys.filterMentioning(hash, key => key.external_api_key_hash === hash).length > 0

/** The most rows of one export. */
const MOST_ROWS = 100_000

/** Reads the rows of an export: teams first, as keys belong to them. */
function readExport(exported: unknown): ImportRow[] {
  const { teams, keys } = findRows(exported)
  if (teams.length + keys.length > MOST_ROWS)
    throw invalid(`export: expected at most ${MOST_ROWS} rows`)
  const isLiteLlm = keys.some(row => isObject(row) && 'token' in row) || teams.length > 0
  const isOpenRouter = keys.some(row => isObject(row) && 'hash' in row)
  if (isLiteLlm === isOpenRouter) throw invalid(EXPECTED)
  const keyRows = isLiteLlm
    ? readRows('keys', keys, LiteLlmKey, readLiteLlmKey)
    : readRows('data', keys, OpenRouterKey, readOpenRouterKey)
  return markRepeated([...readRows('teams', teams, LiteLlmTeam, readLiteLlmTeam), ...keyRows])
}

const EXPECTED =
  'export: expected {"keys": […], "teams": […]} of LiteLLM, with return_full_object=true, or ' +
  '{"data": […]} of OpenRouter'

function findRows(exported: unknown): { teams: unknown[]; keys: unknown[] } {
  if (Array.isArray(exported)) return { teams: [], keys: exported }
  if (!isObject(exported)) throw invalid(EXPECTED)
  const { teams = [], keys = exported.data ?? [] } = exported
  if (!Array.isArray(teams) || !Array.isArray(keys)) throw invalid(EXPECTED)
  return { teams, keys }
}

function readRows<Row>(
  list: string,
  rows: unknown[],
  schema: TSchema,
  read: (place: string, row: Row) => ImportRow,
): ImportRow[] {
  return rows.map((row, index) => {
    const place = `${list}.${index}`
    const issue = findSchemaIssue(schema, row)
    if (issue) {
      const problem = describeIssue(issue, issue.path || 'row')
      return { kind: 'bad', row: place, problem }
    }
    try {
      return read(place, row as Row)
    } catch {
      return { kind: 'bad', row: place, problem: 'expires: expected a time' }
    }
  })
}

/** A second row of one key or team would be created twice. */
function markRepeated(rows: ImportRow[]): ImportRow[] {
  const seen = new Set<string>()
  return rows.map(row => {
    if (row.kind === 'bad') return row
    const name = row.kind === 'team' ? `team ${row.slug}` : `key ${row.hash ?? row.external}`
    const { row: place } = row
    if (seen.has(name)) return { kind: 'bad', row: place, problem: 'it stands there twice' }
    seen.add(name)
    if (row.kind === 'team' && row.slug === '')
      return { kind: 'bad', row: place, problem: 'team_alias: expected letters or digits' }
    return row
  })
}
