import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { computeFirstDay, type Period } from '../base/clock.ts'
import { hashSecret } from '../base/credential.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import { isObject, type Json } from '../base/json.ts'
import { toNanos, toUsd } from '../base/money.ts'
import { describeIssue, findSchemaIssue } from '../base/schema.ts'
import { Uuid } from '../base/schema-builders.ts'
import { type Actor, resolveWorkspaceId } from '../resources/actor.ts'
import { getDefaultGuardrailId } from '../resources/default-guardrail.ts'
import { createPlaintext, describeSecret, importKey, updateKey } from '../resources/keys.ts'
import { findModel } from '../resources/models.ts'
import { insertWorkspace } from '../resources/workspaces.ts'
import { assignKeys } from './assignments.ts'
import { toPeriod } from './budgets/interval.ts'
import { buildBudgetName, setBudget } from './budgets.ts'
import { countSpentElsewhere, findOpeningDay } from './credits.ts'
import { MOST_CALL_BUDGETS } from './guardrails/schema.ts'
import type { Guardrail } from './guardrails/store.ts'
import { createGuardrail, updateGuardrail } from './guardrails.ts'
import {
  LiteLlmKey,
  LiteLlmTeam,
  readHash,
  readLiteLlmKey,
  readLiteLlmTeam,
} from './imports/litellm.ts'
import { OpenRouterKey, readOpenRouterKey } from './imports/openrouter.ts'
import type { HeldRates, ImportRow, KeyRow, ModelBudget, TeamRow } from './imports/rows.ts'
import type { PolicyWorld } from './policy-world.ts'
import { RATE_FIELDS } from './rates.ts'

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
  /** Whether a key is created disabled; null for what is no key. */
  disabled: boolean | null
  limit: number | null
  limit_reset: string | null
  /** The slug of the workspace that it is, or is in. */
  workspace: string | null
  /** What is not carried over, why it is disabled, and why it is not created. */
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
  const importing = openImport(world, actor, scope)
  return { data: readExport(exported).map(row => describeRow(importing, row)) }
}

/**
 * Imports what `planImport` shows: teams as workspaces with their budgets, then keys, whose new
 * secrets are in the answer and nowhere else. A key may do no more here than it could: what held it
 * is in force before it is enabled, and one that would be held to less is created disabled. What is
 * there already stays as it is, so that an import that was interrupted can be repeated. A row that
 * fails is told and ends nothing. `onProgress` hears how many rows are done.
 */
export async function importExport(
  world: PolicyWorld,
  actor: Actor,
  exported: unknown,
  scope: ImportScope,
  onProgress?: (done: number, total: number) => void,
) {
  const importing = openImport(world, actor, scope)
  const rows = readExport(exported)
  sumSpent(importing, rows)
  const data: ImportedRow[] = []
  for (const row of rows) {
    onProgress?.(data.length, rows.length)
    const described = describeRow(importing, row)
    data.push(described)
    try {
      if (described.action === 'create' && row.kind === 'team')
        await importTeam(importing, row, described)
      if (described.action === 'create' && row.kind === 'key')
        described.key = await importOne(importing, row, described)
      described.is_done = described.action === 'create'
    } catch (thrown) {
      described.remarks.push(GatewayError.from(thrown).message)
      described.action = 'bad'
      if (row.kind === 'team') markBroken(importing, row)
    }
  }
  return { data }
}

/** What an import knows while it goes through its rows. */
interface Importing {
  world: PolicyWorld
  actor: Actor
  /** Where keys belong without a team; undefined for the default workspace. */
  workspace_id: string | undefined
  /** The teams that have been read, by their ids there. */
  teams: Map<string, Team>
  /** The slugs that are taken, and the last number that each was given with. */
  slugs: Map<string, number>
  /** What the keys of each team bring as spent into its window, in USD. */
  spent: Map<string, number>
  /** Guardrails that imports have made for keys, by their workspace and what they say. */
  guardrails: Map<string, string>
}

/** The workspace that a team is here, and what its keys could not do there and could here. */
interface Team {
  /** Null where it could not be created. */
  workspace: { id: string; slug: string } | null
  opens: string[]
}

function openImport(world: PolicyWorld, actor: Actor, { workspace_id }: ImportScope): Importing {
  resolveWorkspaceId(world, actor, workspace_id)
  const { workspaces, guardrails } = world.memory
  const known = guardrails.filter(({ name }) => name.startsWith(OF_KEYS))
  return {
    ...{ world, actor, workspace_id, teams: new Map(), spent: new Map() },
    slugs: new Map(workspaces.values().map(({ slug }) => [slug, 1])),
    guardrails: new Map(known.map(one => [nameRules(one.workspace_id, pickRules(one)), one.id])),
  }
}

/** Adds up what keys bring: it counts in their workspace too, and must not count there twice. */
function sumSpent({ world, spent }: Importing, rows: ImportRow[]): void {
  const now = world.clock.now()
  const periods = new Map(
    rows.flatMap(row => (row.kind === 'team' ? [[row.id, findPeriod(row)] as const] : [])),
  )
  for (const row of rows) {
    if (row.kind !== 'key' || row.team === null || findAction(world, row) !== 'create') continue
    const period = periods.get(row.team)
    const day = findOpeningDay(row.input.limit_reset ?? null, now)
    if (period !== undefined && (period === null || day >= computeFirstDay(period, now)))
      spent.set(row.team, (spent.get(row.team) ?? 0) + row.spent)
  }
}

const findPeriod = ({ budget }: TeamRow) => budget && toPeriod(budget.interval)

function describeRow(importing: Importing, row: ImportRow): ImportedRow {
  if (row.kind === 'team') return describeTeam(importing, row)
  if (row.kind === 'key') return describeKey(importing, row)
  return { ...EMPTY, row: row.row, action: 'bad', remarks: [row.problem] }
}

const EMPTY = {
  ...{ name: null, secret: null, disabled: null, limit: null, limit_reset: null },
  ...{ workspace: null, key: null, is_done: false },
}

function describeTeam(importing: Importing, row: TeamRow): ImportedRow {
  const { name, budget, lost } = row
  const id = nameWorkspace(row.id)
  const there = importing.world.memory.workspaces.get(id)
  const slug = there?.slug ?? chooseSlug(importing, row)
  const rules = findRules(importing.world, row)
  const opens = [...row.opens, ...rules.opens]
  const isWider = there && !isHeld(importing.world, id, row)
  if (isWider) opens.push(`${slug}: it is there, and allows more than its team`)
  importing.teams.set(row.id, {
    workspace: { id, slug },
    opens: opens.map(one => `team: ${one}`),
  })
  return {
    ...{ ...EMPTY, row: row.row, name, workspace: slug, action: there ? 'there' : 'create' },
    ...{ limit: budget?.limit_usd ?? null, limit_reset: budget?.interval ?? null },
    remarks: [...lost, ...rules.lost, ...opens.map(one => `${one}: its keys are disabled`)],
  }
}

/** Names the workspace of a team, so that it is found again by the id of the team alone. */
const nameWorkspace = (team: string): string => Bun.randomUUIDv5(`litellm ${team}`, TEAMS)

const TEAMS = '0d5a3c1e-7b0c-5f57-9a0e-0a4be1d1f6c5'

/** Chooses the slug of a new workspace. Teams of one name get numbers. */
function chooseSlug({ slugs }: Importing, { id, name }: TeamRow): string {
  const wanted = toSlug(name) || toSlug(id) || 'team'
  for (let n = slugs.get(wanted) ?? 0; ; ) {
    n += 1
    const slug = n === 1 ? wanted : `${toSlug(wanted.slice(0, 40))}-${n}`
    slugs.set(wanted, n)
    if (n > 1 && slugs.has(slug)) continue
    slugs.set(slug, Math.max(slugs.get(slug) ?? 0, 1))
    return slug
  }
}

const toSlug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 50)
    .replace(/^-+|-+$/g, '')

/** Whether a workspace that is there holds its keys to what their team was held to. */
function isHeld(world: PolicyWorld, id: string, row: TeamRow): boolean {
  const { budget } = row
  const { budgets, guardrails } = world.memory
  const known = budget && budgets.get(buildBudgetName({ workspace_id: id, ...budget }))
  if (budget && !(known && known.limit_usd <= toNanos(budget.limit_usd))) return false
  const { rules } = findRules(world, row)
  const guardrail = guardrails.get(getDefaultGuardrailId(id))
  return !hasRules(rules) || (guardrail !== undefined && isWithin(pickRules(guardrail), rules))
}

/** What guardrails hold keys and teams to, in the words of the API; null for nothing. */
type Rules = HeldRates & {
  allowed_models: string[] | null
  budgets: { by: 'model'; name: string; limit_usd: number; reset_interval: Period }[] | null
}

const hasRules = (rules: Rules): boolean => Object.values(rules).some(rule => rule !== null)

/** Whether what some rules let pass, others would. */
function isWithin(rules: Rules, others: Rules): boolean {
  const isListed = ({ allowed_models: here }: Rules, there: string[]) =>
    here?.every(slug => there.includes(slug)) ?? false
  return (
    (others.allowed_models === null || isListed(rules, others.allowed_models)) &&
    RATE_FIELDS.every(
      field =>
        others[field] === null || (rules[field] ?? Number.POSITIVE_INFINITY) <= others[field],
    ) &&
    (others.budgets ?? []).every(other =>
      rules.budgets?.some(
        one =>
          one.name === other.name &&
          one.reset_interval === other.reset_interval &&
          one.limit_usd <= other.limit_usd,
      ),
    )
  )
}

/** Picks what a guardrail says of what imports carry over, in one form. */
function pickRules(guardrail: Guardrail): Rules {
  const budgets = (guardrail.budgets ?? []).flatMap(({ by, name, limit_usd, reset_interval }) =>
    by === 'model' && name !== null
      ? { by, name, limit_usd: toUsd(limit_usd), reset_interval }
      : [],
  )
  return {
    ...Object.fromEntries(RATE_FIELDS.map(field => [field, guardrail[field]])),
    allowed_models: guardrail.allowed_models,
    budgets: budgets.length > 0 ? budgets : null,
  } as Rules
}

/** Finds the rules that hold a key or team here as it was held there, and what none does. */
function findRules(world: PolicyWorld, { models, rates, model_budgets }: KeyRow | TeamRow) {
  const { slugs, lost, opens } = findModels(world, models)
  const budgets = findBudgets(world, model_budgets)
  const rules: Rules = {
    ...rates,
    allowed_models: slugs && slugs.length > 0 ? slugs : null,
    budgets: budgets.found,
  }
  return { rules, lost, opens: [...opens, ...budgets.opens] }
}

/** Finds what budgets of models are here: of those that two names have, the smaller. */
function findBudgets(world: PolicyWorld, budgets: ModelBudget[]) {
  const found = new Map<string, NonNullable<Rules['budgets']>[number]>()
  const opens: string[] = []
  for (const { model, limit_usd, reset_interval } of budgets) {
    const name = findModel(world, model)?.id
    if (name === undefined) opens.push(`model_max_budget.${model.slice(0, 100)}: not known here`)
    if (name === undefined) continue
    const place = `${name} ${reset_interval}`
    const least = Math.min(limit_usd, found.get(place)?.limit_usd ?? limit_usd)
    found.set(place, { by: 'model', name, limit_usd: least, reset_interval })
  }
  if (found.size > MOST_CALL_BUDGETS)
    opens.push(`model_max_budget: guardrails have at most ${MOST_CALL_BUDGETS}`)
  const kept = found.size > MOST_CALL_BUDGETS ? [] : [...found.values()]
  return { found: kept.length > 0 ? kept : null, opens }
}

/** What the names of models mean here; null for all models. */
function findModels(world: PolicyWorld, names: string[] | null) {
  if (names === null) return { slugs: null, lost: [], opens: [] }
  const found = names.map(name => findModel(world, name)?.id)
  const slugs = [...new Set(found.filter(slug => slug !== undefined))].sort()
  const unknown = names.filter((_, i) => found[i] === undefined)
  const listed = unknown.slice(0, 10).join(', ')
  return {
    slugs,
    lost: unknown.length > 0 && slugs.length > 0 ? [`models: ${listed}: not known here`] : [],
    opens: slugs.length > 0 ? [] : [`models: none of those that it could call is known here`],
  }
}

/** Notes that a team is not whole: what would hold its keys is not in force. */
function markBroken({ world, teams }: Importing, { id: team }: TeamRow): void {
  const workspace = world.memory.workspaces.get(nameWorkspace(team)) ?? null
  teams.set(team, { workspace, opens: ['team: it could not be taken over'] })
}

async function importTeam(
  importing: Importing,
  row: TeamRow,
  { workspace: slug }: ImportedRow,
): Promise<void> {
  const { world, actor } = importing
  const { name, budget, spent } = row
  const id = nameWorkspace(row.id)
  const input = { name: name.slice(0, LONGEST_NAME), slug: String(slug) }
  await insertWorkspace(world, actor, input, id)
  const { rules } = findRules(world, row)
  if (hasRules(rules)) await updateGuardrail(world, actor, getDefaultGuardrailId(id), rules)
  if (!budget) return
  const { interval, limit_usd } = budget
  await setBudget(world, actor, id, interval, { limit_usd })
  const payer = { key_hash: `team-${id}`, user_id: actor.user_id, workspace_id: id }
  const rest = Math.max(0, spent - (importing.spent.get(row.id) ?? 0))
  await countSpentElsewhere(world, actor, { ...payer, period: toPeriod(interval), spent: rest })
}

/** The longest name of a workspace. */
const LONGEST_NAME = 100

function describeKey(importing: Importing, row: KeyRow): ImportedRow {
  const { world } = importing
  const { input, hash, disabled } = row
  const action = findAction(world, row)
  const rules = findRules(world, row)
  const team = findTeam(importing, row.team)
  const opens = [...row.opens, ...rules.opens, ...team.opens]
  const workspace = findHome(importing, team)?.slug ?? null
  const remarks = [...row.lost, ...rules.lost, ...opens]
  if (disabled) remarks.push('it is disabled, and stays so')
  else if (opens.length > 0 && action === 'create')
    remarks.push(`it could do more here than it could: it is disabled, in ${workspace}`)
  return {
    ...{ ...EMPTY, row: row.row, name: input.name, action, workspace, remarks },
    secret: hash === null ? 'new' : 'kept',
    disabled: action === 'create' ? disabled || opens.length > 0 : null,
    limit: input.limit ?? null,
    limit_reset: input.limit_reset ?? null,
  }
}

/** Finds the team of a key. One that is not in the export may have been held to anything. */
function findTeam({ teams, world }: Importing, team: string | null): Team {
  if (team === null) return { workspace: null, opens: [] }
  const workspace = world.memory.workspaces.get(nameWorkspace(team)) ?? null
  return teams.get(team) ?? { workspace, opens: ['team_id: its team is not in the export'] }
}

/** Finds where a key goes. */
const findHome = ({ world: { memory }, workspace_id }: Importing, { workspace }: Team) =>
  workspace ?? memory.workspaces.get(workspace_id ?? memory.owner.workspace_id)

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

/** Imports a key, enabled when all that holds it is in force. Returns its secret if that is new. */
async function importOne(
  importing: Importing,
  row: KeyRow,
  { disabled }: ImportedRow,
): Promise<string | null> {
  const { world, actor } = importing
  const { external, label, spent } = row
  const plaintext = row.hash === null ? createPlaintext(world) : null
  const secret = plaintext === null ? { hash: String(row.hash), label } : describeSecret(plaintext)
  const { workspace } = findTeam(importing, row.team)
  const workspace_id = workspace?.id ?? importing.workspace_id
  const input = {
    ...row.input,
    ...(external === null ? {} : { external: { user: actor.user_id, api_key: external } }),
    ...(workspace_id === undefined ? {} : { workspace_id }),
  }
  const home = resolveWorkspaceId(world, actor, workspace_id)
  const payer = { key_hash: secret.hash, user_id: actor.user_id, workspace_id: home }
  const period = input.limit_reset ?? null
  await countSpentElsewhere(world, actor, { ...payer, period, spent })
  const { rules } = findRules(world, row)
  const isHeldLater = hasRules(rules)
  const isDisabled = disabled !== false
  await importKey(world, actor, input, { ...secret, disabled: isDisabled || isHeldLater })
  if (isHeldLater) await holdKey(importing, { hash: secret.hash, workspace_id: home }, rules)
  if (isHeldLater && !isDisabled) await updateKey(world, actor, secret.hash, { disabled: false })
  return plaintext
}

const OF_KEYS = 'Imported keys: '

const nameRules = (workspace_id: string, rules: Rules): string =>
  JSON.stringify([workspace_id, rules])

/** Holds a key to rules. Keys of one workspace with the same rules share a guardrail. */
async function holdKey(
  { world, actor, guardrails }: Importing,
  { hash, workspace_id }: { hash: string; workspace_id: string },
  rules: Rules,
): Promise<void> {
  const known = nameRules(workspace_id, rules)
  let id = guardrails.get(known)
  if (id === undefined) {
    const name = `${OF_KEYS}${describeRules(rules)}`.slice(0, 200)
    id = (await createGuardrail(world, actor, { name, workspace_id, ...rules })).data.id
    guardrails.set(known, id)
  }
  await assignKeys(world, actor, id, { key_hashes: [hash] })
}

const describeRules = ({ allowed_models, budgets, ...rates }: Rules): string =>
  [
    ...(allowed_models ?? []),
    ...RATE_FIELDS.flatMap(field => (rates[field] === null ? [] : `${field} ${rates[field]}`)),
    ...(budgets ?? []).map(one => `$${one.limit_usd} ${one.reset_interval} of ${one.name}`),
  ].join(', ')

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
    const of = isObject(row) ? nameRow(row) : null
    const issue = findSchemaIssue(schema, row)
    if (issue) {
      const problem = describeIssue(issue, issue.path || 'row')
      return { kind: 'bad', row: place, of, problem }
    }
    try {
      return read(place, row as Row)
    } catch {
      return { kind: 'bad', row: place, of, problem: 'expires: expected a time' }
    }
  })
}

/** Names the key or team of a row that may be of any form. */
function nameRow({ token, hash, team_id }: Json): string | null {
  if (typeof token === 'string') return `key ${readHash(token)}`
  if (typeof hash === 'string') return `key ${hash}`
  return typeof team_id === 'string' ? `team ${team_id}` : null
}

/**
 * A second row of one key or team would be created twice. Where it says something else, nobody knows
 * which of them is true.
 */
function markRepeated(rows: ImportRow[]): ImportRow[] {
  const bad = new Set(rows.flatMap(row => (row.kind === 'bad' ? (row.of ?? []) : [])))
  const seen = new Map<string, KeyRow | TeamRow>()
  return rows.map(row => {
    if (row.kind === 'bad') return row
    const of = row.kind === 'team' ? `team ${row.id}` : `key ${row.hash ?? row.external}`
    const first = seen.get(of)
    if (!first) {
      if (bad.has(of)) row.opens.push(TWICE)
      seen.set(of, row)
      return row
    }
    if (!isSame(first, row) && !first.opens.includes(TWICE)) first.opens.push(TWICE)
    return { kind: 'bad', row: row.row, of, problem: 'it stands there twice' }
  })
}

const TWICE = 'it stands there twice, and differs'

const isSame = (a: KeyRow | TeamRow, b: KeyRow | TeamRow): boolean =>
  Bun.deepEquals({ ...a, row: b.row, opens: withoutTwice(a) }, { ...b, opens: withoutTwice(b) })

const withoutTwice = ({ opens }: Pick<KeyRow, 'opens'>) => opens.filter(one => one !== TWICE)
